//! The scenarios, as data.

use std::collections::BTreeSet;

use crate::logs::LOGS;
use crate::rule::Rule;
use crate::short_way::SHORT_WAY;
use crate::splits::SPLITS;
use crate::values::Key;

/// What a thread does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Op {
    #[default]
    Nothing,
    /// Asks for so many units of the key.
    Check(Key, u8),
    /// The same, and gives them back when it was admitted.
    Take(Key, u8),
    /// Forgives the key's debt.
    Reset(Key),
}

impl Op {
    pub(crate) fn key(self) -> Key {
        match self {
            Self::Nothing => 0,
            Self::Check(key, _) | Self::Take(key, _) | Self::Reset(key) => key,
        }
    }

    pub(crate) fn cost(self) -> u8 {
        match self {
            Self::Check(_, cost) | Self::Take(_, cost) => cost,
            Self::Nothing | Self::Reset(_) => 0,
        }
    }
}

/// What a full bucket does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Share,
    Deny,
}

/// Who is there, who asks, and when.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// What it is called.
    pub name: &'static str,
    /// Whether it takes long, and is searched when asked for only.
    pub long: bool,
    /// Promises that the protocol itself is known to break here: findings that are not repaired
    /// yet.
    pub known: &'static [&'static str],
    pub(crate) rule: Rule,
    pub(crate) full: Full,
    /// Whether checks begin by the key's name, and new keys by the short way of an insertion. Where
    /// they do not, states are fewer.
    pub(crate) quick: bool,
    /// Buckets that there may be: 1, 2 or 4.
    pub(crate) buckets: usize,
    /// The moments. The clock moves to the next one at any time.
    pub(crate) times: &'static [u8],
    /// The keys that have a slot, and their payloads.
    pub(crate) slots: &'static [(Key, u8)],
    /// The keys that have a log, and the times in it.
    pub(crate) logs: &'static [(Key, &'static [u8])],
    /// The level of the buckets to begin with: at 1 there are two.
    pub(crate) level: u8,
    /// The overflow word's debt.
    pub(crate) overflow: u8,
    /// The first slot's word has the wrong parity, as a helper leaves it that detaches a word twice
    /// (`View::repair`).
    pub(crate) skewed: bool,
    pub(crate) threads: &'static [&'static [Op]],
}

impl Scenario {
    /// Whether anything lowers a word, so that a word can come back.
    pub(crate) fn lowers(&self) -> bool {
        self.ops().any(|op| matches!(op, Op::Take(..) | Op::Reset(_)))
    }

    fn ops(&self) -> impl Iterator<Item = Op> {
        self.threads.iter().flat_map(|ops| ops.iter().copied())
    }

    /// The times in the key's log to begin with.
    pub(crate) fn logged(&self, key: Key) -> &'static [u8] {
        self.logs.iter().find(|(owner, _)| *owner == key).map_or(&[], |log| log.1)
    }

    /// All keys of the scenario.
    pub(crate) fn keys(&self) -> BTreeSet<Key> {
        let owners = self.slots.iter().map(|slot| slot.0).chain(self.logs.iter().map(|log| log.0));
        self.ops().map(Op::key).chain(owners).collect()
    }
}

use Op::{Check, Reset, Take};

/// Buckets of one, two and four units.
pub(crate) const ONE: Rule = Rule::Bucket { full: 8 };
pub(crate) const TWO: Rule = Rule::Bucket { full: 16 };
pub(crate) const FOUR: Rule = Rule::Bucket { full: 32 };

// At the first split odd keys move and even ones stay. Keys from 4 on have the second slot for
// their home.
pub(crate) const X: Key = 1;
pub(crate) const Y: Key = 3;
pub(crate) const Z: Key = 2;
pub(crate) const W: Key = 4;
pub(crate) const V: Key = 5;
pub(crate) const Q: Key = 6;

/// The zero of most scenarios: a payload below has run out.
const NOW: u8 = 10;

/// The word of a claim, not yet committed, is the same as that of a slot that was held two owners
/// ago: so a refund lowers it. `docs/proof/holes.md` says why it stays so.
const CLAIM_LOWERED: &str = "a key was admitted more than its limit";

pub(crate) const BASE: Scenario = Scenario {
    name: "",
    long: false,
    known: &[],
    rule: ONE,
    full: Full::Deny,
    quick: false,
    buckets: 1,
    times: &[NOW],
    slots: &[],
    logs: &[],
    level: 0,
    overflow: 0,
    skewed: false,
    threads: &[],
};

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
    BUCKETS.iter().chain(SPLITS).chain(SHORT_WAY).chain(LOGS)
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
