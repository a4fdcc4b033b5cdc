//! The scenarios of the fast path of an insertion, as data.

use crate::scenario::Op::{Check, Reset, Take};
use crate::scenario::{BASE, FOUR, Full, Q, Scenario, TWO, V, W, X, Y, Z};

pub(crate) const FAST_PATH: &[Scenario] = &[
    Scenario {
        name: "short: one key is inserted by three",
        quick: true,
        threads: &[&[Check(Y, 1)], &[Check(Y, 1)], &[Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "short: two recovered keys want one slot",
        quick: true,
        slots: &[(X, 5), (Q, 60)],
        times: &[10, 18],
        threads: &[&[Check(Y, 1), Check(X, 1)], &[Check(Z, 1), Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "short: a slot is recycled beside its owner",
        quick: true,
        slots: &[(X, 5), (Q, 6)],
        times: &[10, 18],
        threads: &[&[Check(Y, 1), Check(Y, 1)], &[Check(X, 1), Check(X, 1)]],
        ..BASE
    },
    Scenario {
        name: "short: a key comes back and loses its slot",
        quick: true,
        slots: &[(X, 5), (Q, 6)],
        times: &[10, 12, 20],
        threads: &[&[Check(Y, 1)], &[Check(Y, 1), Check(Z, 1), Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "short: a hit and an abandoned claim",
        quick: true,
        slots: &[(Y, 5), (Q, 6)],
        times: &[10, 12, 20],
        threads: &[&[Check(Y, 1)], &[Check(Y, 1)], &[Check(Z, 1)]],
        ..BASE
    },
    Scenario {
        name: "short: a hit, an abandoned claim and an insertion",
        long: true,
        quick: true,
        slots: &[(Y, 5), (Q, 6)],
        times: &[10, 12, 20],
        threads: &[&[Check(Y, 1)], &[Check(Y, 1), Check(W, 1)], &[Check(Z, 1)]],
        ..BASE
    },
    Scenario {
        name: "short: a slot empties beside a share",
        quick: true,
        rule: TWO,
        full: Full::Share,
        slots: &[(X, 26), (Z, 26)],
        threads: &[&[Check(Y, 1), Check(Y, 1)], &[Reset(X), Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "short: a refund beside a recycler",
        quick: true,
        slots: &[(Z, 60)],
        times: &[10, 18],
        threads: &[&[Take(X, 1)], &[Check(Y, 1), Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "short: a key enters while its bucket splits",
        quick: true,
        buckets: 2,
        slots: &[(X, 10), (Z, 18)],
        threads: &[&[Check(Y, 1), Check(X, 1)], &[Check(V, 1), Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "short: a key that stays enters while its bucket splits",
        quick: true,
        buckets: 2,
        slots: &[(Z, 10), (X, 18)],
        threads: &[&[Check(W, 1), Check(Y, 1)], &[Check(W, 1)]],
        ..BASE
    },
    Scenario {
        name: "short: a moving key recovers",
        quick: true,
        buckets: 2,
        slots: &[(X, 18), (Z, 60)],
        times: &[10, 18],
        threads: &[&[Check(Y, 1), Check(X, 1)], &[Check(V, 1), Check(X, 1)]],
        ..BASE
    },
    Scenario {
        name: "short: a key enters where a word was detached twice",
        quick: true,
        rule: TWO,
        slots: &[(X, 9), (Z, 10)],
        skewed: true,
        threads: &[&[Check(Y, 1)], &[Check(Y, 1), Check(Y, 1)], &[Check(Q, 1)]],
        ..BASE
    },
    Scenario {
        name: "short: a key enters beside a word detached twice",
        quick: true,
        rule: TWO,
        buckets: 4,
        level: 1,
        slots: &[(Z, 18), (X, 18), (V, 18)],
        skewed: true,
        threads: &[&[Check(W, 1), Check(Z, 1)], &[Check(7, 1), Check(Q, 1), Check(Z, 1)]],
        ..BASE
    },
    Scenario {
        name: "short: a key that leaves recovers in a split",
        quick: true,
        buckets: 2,
        slots: &[(Z, 60), (W, 18)],
        times: &[10, 18],
        threads: &[&[Check(Y, 1)], &[Check(V, 1)]],
        ..BASE
    },
    Scenario {
        name: "short: a word comes back in a slot that a key left",
        quick: true,
        rule: FOUR,
        buckets: 2,
        slots: &[(X, 34), (W, 12)],
        times: &[10, 18],
        threads: &[&[Check(Q, 1)], &[Check(Y, 1), Check(Z, 1), Check(0, 2)]],
        ..BASE
    },
];
