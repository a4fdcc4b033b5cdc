//! The scenarios of splits, and of words that they detached, as data.

use crate::scenario::Op::{Check, Reset, Take};
use crate::scenario::{BASE, Q, Scenario, TWO, V, W, X, Y, Z};

/// A charge that saw a word which was detached twice, and was stopped until the bucket was split
/// again and the key had moved out, finds it as it was: it is lost. That takes two threads stopped
/// for long, one after the other.
const STALLED_TWICE: &str = "a key was admitted more than its limit";

pub(crate) const SPLITS: &[Scenario] = &[
    Scenario {
        name: "a key is charged while it moves",
        rule: TWO,
        buckets: 2,
        quick: true,
        slots: &[(X, 18), (Z, 18)],
        threads: &[&[Check(X, 1), Check(X, 1)], &[Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "helpers agree on what moves",
        rule: TWO,
        buckets: 2,
        slots: &[(X, 18), (Z, 18)],
        threads: &[&[Check(Y, 1), Check(X, 1)], &[Check(W, 1), Check(X, 1)]],
        ..BASE
    },
    Scenario {
        name: "helpers and a charge",
        rule: TWO,
        buckets: 2,
        slots: &[(X, 18), (Z, 18)],
        threads: &[&[Check(Y, 1)], &[Check(W, 1)], &[Check(X, 1), Check(X, 1)]],
        ..BASE
    },
    Scenario {
        name: "helpers while a moving key runs out",
        buckets: 2,
        slots: &[(X, 18), (Z, 60)],
        times: &[10, 18],
        threads: &[&[Check(Y, 1), Check(X, 1)], &[Check(V, 1), Check(X, 1)]],
        ..BASE
    },
    Scenario {
        name: "a key that splits its bucket enters once",
        buckets: 2,
        slots: &[(X, 18), (Z, 18)],
        threads: &[&[Check(Y, 1)], &[Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "a key enters while its bucket splits",
        buckets: 2,
        slots: &[(X, 10), (Z, 18)],
        threads: &[&[Check(Y, 1), Check(X, 1)], &[Check(V, 1), Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "a key that stays enters while its bucket splits",
        buckets: 2,
        slots: &[(Z, 10), (X, 18)],
        threads: &[&[Check(W, 1), Check(Y, 1)], &[Check(W, 1)]],
        ..BASE
    },
    Scenario {
        name: "a claim beside stalled helpers of a split",
        buckets: 2,
        slots: &[(7, 5), (V, 60)],
        threads: &[&[Check(X, 1), Check(Y, 1), Check(Z, 1)], &[Check(Z, 1)]],
        ..BASE
    },
    Scenario {
        name: "a bucket is split twice",
        buckets: 4,
        slots: &[(X, 18), (Y, 18)],
        threads: &[&[Check(V, 1), Check(X, 1)], &[Check(V, 1), Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "a bucket is split again where keys have left",
        rule: TWO,
        buckets: 4,
        slots: &[(X, 18), (Z, 18)],
        threads: &[&[Check(Y, 1), Check(X, 1)], &[Check(W, 1), Check(Q, 1), Check(Z, 1)]],
        ..BASE
    },
    Scenario {
        name: "a key enters where a word was detached twice",
        rule: TWO,
        slots: &[(X, 9), (Z, 10)],
        skewed: true,
        threads: &[&[Check(Y, 1)], &[Check(Y, 1), Check(Y, 1)], &[Check(Q, 1)]],
        ..BASE
    },
    Scenario {
        name: "a key moves whose word was detached twice",
        known: &[STALLED_TWICE],
        rule: TWO,
        quick: true,
        buckets: 2,
        slots: &[(X, 18), (Z, 18)],
        skewed: true,
        threads: &[&[Check(X, 1), Check(X, 1)], &[Check(Y, 1), Check(X, 1)]],
        ..BASE
    },
    Scenario {
        name: "a refund where a word was detached twice",
        rule: TWO,
        slots: &[(X, 12), (Z, 18)],
        skewed: true,
        threads: &[&[Take(X, 1)], &[Check(X, 1), Check(X, 1)]],
        ..BASE
    },
    Scenario {
        name: "a refund of a key that moves",
        rule: TWO,
        buckets: 2,
        slots: &[(X, 18), (Z, 18)],
        threads: &[&[Take(X, 1)], &[Check(Y, 1), Check(X, 1)]],
        ..BASE
    },
    Scenario {
        name: "a reset of a key that moves",
        buckets: 2,
        slots: &[(X, 18), (Z, 18)],
        threads: &[&[Reset(X), Check(X, 1)], &[Check(Y, 1), Check(X, 1)]],
        ..BASE
    },
];
