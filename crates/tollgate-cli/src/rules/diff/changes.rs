//! Which requests two rules files decide differently.

use std::collections::HashMap;

use super::side::Decided;
use crate::by_rules::At;

/// How many requests, and the first of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) first: At,
}

/// Requests that one file admits and the other refuses, by the rules and keys that refuse them.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) requests: u64,
    /// One for each rule of the file that refuses.
    by_rule: Vec<ByRule>,
}

/// Requests that a rule refuses.
#[derive(Debug, Default)]
struct ByRule {
    all: Option<Tally>,
    keys: HashMap<Box<[u8]>, Tally, ahash::RandomState>,
}

/// The decisions of both files.
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) both_admitted: u64,
    pub(super) both_refused: u64,
    /// Newly refused: by the rules of the new file.
    pub(super) refused: Moved,
    /// Newly admitted: by the rules of the old file that refused.
    pub(super) admitted: Moved,
}

impl Moved {
    fn new(rules: usize) -> Self {
        Self { requests: 0, by_rule: (0..rules).map(|_| ByRule::default()).collect() }
    }

    fn add(&mut self, at: At, refusal: Decided<'_>) {
        self.requests += 1;
        let first = Tally { requests: 0, first: at };
        for (rule, key) in refusal.refusing() {
            let ByRule { all, keys } = &mut self.by_rule[rule];
            all.get_or_insert(first).requests += 1;
            match keys.get_mut(key) {
                Some(tally) => tally.requests += 1,
                None => drop(keys.insert(key.into(), Tally { requests: 1, first: at })),
            }
        }
    }

    /// The rules that refuse any of the requests: index in the file and tally, the most first.
    pub(super) fn rules(&self) -> Vec<(usize, Tally)> {
        let rules = self.by_rule.iter().enumerate();
        let mut rules: Vec<_> = rules.filter_map(|(index, rule)| Some((index, rule.all?))).collect();
        rules.sort_by_key(|(index, tally)| (std::cmp::Reverse(tally.requests), *index));
        rules
    }

    /// The keys with the most of the requests, at most `top`: of which rule, key, tally.
    pub(super) fn keys(&self, top: usize) -> Vec<(usize, &[u8], Tally)> {
        let keys = self.by_rule.iter().enumerate();
        let keys =
            keys.flat_map(|(index, rule)| rule.keys.iter().map(move |(key, tally)| (index, &**key, *tally)));
        let mut keys: Vec<_> = keys.collect();
        keys.sort_unstable_by_key(|&(index, key, tally)| (std::cmp::Reverse(tally.requests), index, key));
        keys.truncate(top);
        keys
    }
}

impl Changes {
    /// For files of so many rules.
    pub(super) fn new([old, new]: [usize; 2]) -> Self {
        Self { both_admitted: 0, both_refused: 0, refused: Moved::new(new), admitted: Moved::new(old) }
    }

    /// Counts a request that is at `at`.
    pub(super) fn add(&mut self, at: impl FnOnce() -> At, old: Decided<'_>, new: Decided<'_>) {
        match (old.is_admitted(), new.is_admitted()) {
            (true, true) => self.both_admitted += 1,
            (false, false) => self.both_refused += 1,
            (true, false) => self.refused.add(at(), new),
            (false, true) => self.admitted.add(at(), old),
        }
    }

    pub(super) fn requests(&self) -> u64 {
        self.both_admitted + self.both_refused + self.refused.requests + self.admitted.requests
    }
}
