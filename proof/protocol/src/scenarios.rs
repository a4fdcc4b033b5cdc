//! The scenarios, as data.

use crate::fast_path::FAST_PATH;
use crate::logs::LOGS;
use crate::scenario::Op::{Check, Reset, Take};
use crate::scenario::{BASE, FOUR, Full, ONE, Q, Scenario, TWO, W, X, Y, Z};
use crate::splits::SPLITS;

/// The word of a claim, not yet committed, is the same as that of a slot that was held two owners
/// ago: so a refund lowers it. `docs/proof/holes.md` says why it stays so.
const CLAIM_LOWERED: &str = "a key was admitted more than its limit";

/// The scenarios of buckets.
const BUCKETS: &[Scenario] = &[
    Scenario {
        name: "one key is inserted by three",
        threads: &[&[Check(Y, 1)], &[Check(Y, 1)], &[Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "one key is inserted twice and charged",
        rule: TWO,
        quick: true,
        threads: &[&[Check(Y, 1), Check(Y, 1)], &[Check(Y, 1), Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "two keys want one slot",
        slots: &[(X, 5), (Z, 18)],
        times: &[10, 18],
        threads: &[&[Check(Y, 1), Check(X, 1)], &[Check(X, 1), Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "three keys want two slots",
        slots: &[(X, 5), (Z, 6)],
        threads: &[&[Check(Y, 1)], &[Check(W, 1)], &[Check(X, 1)]],
        ..BASE
    },
    Scenario {
        name: "a key enters twice beside an owner who comes back",
        slots: &[(X, 5), (Z, 6)],
        times: &[10, 18],
        threads: &[&[Check(Y, 1)], &[Check(Y, 1)], &[Check(X, 1)]],
        ..BASE
    },
    Scenario {
        name: "an owner charges while its slot is recycled",
        quick: true,
        slots: &[(X, 10), (Z, 50)],
        times: &[10, 18],
        threads: &[&[Check(X, 1), Check(X, 1)], &[Check(Y, 1), Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "a stale clock beside a recycled slot",
        rule: TWO,
        slots: &[(X, 18), (Z, 60)],
        times: &[10, 18],
        threads: &[&[Check(Y, 2)], &[Check(Y, 1), Check(X, 1)]],
        ..BASE
    },
    Scenario {
        name: "the newcomer is asked for while it enters",
        rule: ONE,
        quick: true,
        slots: &[(X, 18), (Z, 60)],
        times: &[10, 18],
        threads: &[&[Check(Y, 1)], &[Check(Y, 1), Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "a key enters twice while the clock moves twice",
        long: true,
        slots: &[(W, 5), (Z, 6)],
        times: &[10, 18, 26],
        threads: &[&[Check(Y, 1)], &[Check(Y, 1), Check(Y, 1)], &[Check(X, 1)]],
        ..BASE
    },
    Scenario {
        name: "an owner charges while its slot is handed over",
        rule: FOUR,
        full: Full::Share,
        slots: &[(X, 25), (Z, 42)],
        threads: &[&[Check(X, 2), Check(X, 2)], &[Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "newcomers are handed one slot",
        rule: FOUR,
        full: Full::Share,
        slots: &[(X, 12), (Z, 42)],
        threads: &[&[Check(Y, 1)], &[Check(W, 1)]],
        ..BASE
    },
    Scenario {
        name: "a key handed out comes back beside a reset",
        rule: FOUR,
        full: Full::Share,
        slots: &[(X, 25), (Z, 42)],
        threads: &[&[Check(Y, 1), Reset(Z), Check(X, 3)], &[Check(X, 2)]],
        ..BASE
    },
    Scenario {
        name: "a key handed out comes back beside a refund",
        rule: FOUR,
        full: Full::Share,
        slots: &[(X, 25), (Z, 42)],
        threads: &[&[Take(Y, 1), Check(X, 2)], &[Check(X, 2)]],
        ..BASE
    },
    Scenario {
        name: "the shared allowance is granted once",
        rule: FOUR,
        full: Full::Share,
        slots: &[(X, 42), (Z, 42)],
        threads: &[&[Check(Y, 1), Check(Y, 1)], &[Check(Y, 1), Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "a key leaves the shared allowance when a slot runs out",
        rule: TWO,
        full: Full::Share,
        slots: &[(X, 26), (Z, 26)],
        times: &[10, 26],
        threads: &[&[Check(Y, 1), Check(Y, 2)], &[Check(Y, 1), Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "a slot empties beside the shared allowance",
        long: true,
        rule: TWO,
        full: Full::Share,
        slots: &[(X, 26), (Z, 26)],
        threads: &[&[Check(Y, 1), Check(Y, 1)], &[Reset(X), Check(W, 1)]],
        ..BASE
    },
    Scenario {
        name: "a slot empties beside a share",
        rule: TWO,
        full: Full::Share,
        slots: &[(X, 26), (Z, 26)],
        threads: &[&[Check(Y, 1), Check(Y, 1)], &[Reset(X), Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "the shared word comes around",
        rule: FOUR,
        full: Full::Share,
        slots: &[(X, 42), (Q, 42)],
        overflow: 18,
        threads: &[
            &[Check(Y, 2)],
            &[Reset(Q), Check(Y, 3), Reset(X), Check(Z, 1), Reset(Z), Check(W, 1), Reset(W), Check(X, 1)],
        ],
        ..BASE
    },
    Scenario {
        name: "a key is handed out while a better slot empties",
        rule: FOUR,
        full: Full::Share,
        slots: &[(X, 25), (Z, 42)],
        threads: &[&[Check(Y, 1)], &[Reset(Z), Check(X, 3)]],
        ..BASE
    },
    Scenario {
        name: "a charge meets the word under its third owner",
        quick: true,
        slots: &[(X, 10), (Q, 60)],
        threads: &[&[Check(X, 1)], &[Check(Y, 1), Reset(Y), Check(Z, 1), Reset(Z), Reset(Q), Check(X, 1)]],
        ..BASE
    },
    Scenario {
        name: "a refund holds the word of a third owner",
        rule: TWO,
        slots: &[(X, 10), (Q, 60)],
        threads: &[
            &[Take(X, 1)],
            &[Reset(X), Check(Y, 1), Reset(Y), Take(Z, 2), Check(Z, 1), Check(Z, 1), Check(Z, 1)],
        ],
        ..BASE
    },
    Scenario {
        name: "a refund meets the word under its third owner",
        known: &[CLAIM_LOWERED],
        slots: &[(X, 10), (Q, 60)],
        threads: &[&[Take(X, 1)], &[Reset(X), Check(Y, 1), Reset(Y), Check(Z, 1), Check(Z, 1)]],
        ..BASE
    },
    Scenario {
        name: "a reset beside charges",
        quick: true,
        slots: &[(X, 18)],
        threads: &[&[Check(X, 1), Check(X, 1)], &[Reset(X)], &[Check(X, 1)]],
        ..BASE
    },
    Scenario {
        name: "a reset beside an insertion",
        threads: &[&[Check(X, 1), Check(X, 1)], &[Check(X, 1), Reset(X)]],
        ..BASE
    },
    Scenario {
        name: "a refund beside charges",
        rule: TWO,
        quick: true,
        slots: &[(X, 18)],
        threads: &[&[Take(X, 1)], &[Check(X, 1), Check(X, 1)], &[Check(X, 1)]],
        ..BASE
    },
    Scenario {
        name: "two refunds beside a charge",
        rule: FOUR,
        times: &[10, 18],
        slots: &[(X, 10)],
        threads: &[&[Take(X, 1)], &[Take(X, 2)], &[Check(X, 2)]],
        ..BASE
    },
    Scenario {
        name: "a refund beside the key's insertion",
        rule: TWO,
        times: &[10, 18],
        threads: &[&[Take(X, 1)], &[Check(X, 1), Check(X, 1)]],
        ..BASE
    },
    Scenario {
        name: "a refund of a recycled slot",
        rule: TWO,
        slots: &[(Z, 60)],
        times: &[10, 18],
        threads: &[&[Take(X, 1)], &[Check(Y, 2), Check(Y, 1)]],
        ..BASE
    },
    Scenario {
        name: "a word comes back under another owner",
        rule: ONE,
        slots: &[(X, 10), (Z, 60)],
        threads: &[&[Check(X, 1)], &[Check(Y, 1), Reset(Y), Check(Y, 1)]],
        quick: true,
        ..BASE
    },
];

/// All scenarios.
pub fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    BUCKETS.iter().chain(SPLITS).chain(FAST_PATH).chain(LOGS)
}

/// The scenario of this name.
///
/// # Panics
///
/// If there is none.
#[must_use]
pub fn scenario(name: &str) -> &'static Scenario {
    scenarios()
        .find(|scenario| scenario.name == name)
        .unwrap_or_else(|| panic!("no scenario is called {name}"))
}
