//! What a scenario is made of.

use std::collections::BTreeSet;

use crate::rule::Rule;
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
    /// Whether checks begin by the key's name, and new keys by the fast path of an insertion. Where
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
pub(crate) const NOW: u8 = 10;

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
