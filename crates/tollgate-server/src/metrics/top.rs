//! The keys that are refused most.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ahash::HashMap;

/// Entries of a half. Any key with more than a 256th of its refusals is among them.
const ENTRIES: usize = 256;

/// The length of a half, in nanoseconds: five minutes.
const HALF: u64 = 300_000_000_000;

/// The keys that a rule refused most in the last five to ten minutes, by Space-Saving: two halves,
/// of which the older is dropped when a new one begins.
///
/// Only a refusal comes here. It never waits: a refusal that finds the lock taken is left out,
/// which changes no share, as it does not depend on the key.
#[derive(Default)]
pub(crate) struct MostRefused {
    halves: Mutex<Halves>,
}

#[derive(Default)]
struct Halves {
    /// The number of the current half.
    number: u64,
    current: Half,
    before: Half,
}

/// A stream's most frequent keys.
#[derive(Default)]
struct Half {
    refusals: u64,
    /// By descending count.
    entries: Vec<Refused>,
    /// Where each hash is among the entries.
    places: HashMap<u64, usize>,
}

/// A key that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// A keyed hash of the key.
    pub(crate) hash: u64,
    /// The key, if keys may be shown.
    pub(crate) key: Option<Box<[u8]>>,
    /// How often, at most.
    pub(crate) at_most: u64,
    /// How much of that may be of other keys.
    pub(crate) doubt: u64,
}

/// The most refused keys, and how many refusals there were in all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Top {
    /// By descending count.
    pub(crate) keys: Vec<Refused>,
    pub(crate) refusals: u64,
}

impl MostRefused {
    /// Counts a refusal, at a time in nanoseconds. `key` is kept if it is given.
    pub(crate) fn add(&self, hash: u64, key: Option<&[u8]>, now: u64) {
        if let Ok(mut halves) = self.halves.try_lock() {
            halves.turn(now);
            halves.current.add(hash, key);
        }
    }

    /// The keys of both halves.
    pub(crate) fn top(&self, now: u64) -> Top {
        let mut halves = self.locked();
        halves.turn(now);
        let mut keys = halves.current.entries.clone();
        let places: HashMap<u64, usize> = keys.iter().enumerate().map(|(at, key)| (key.hash, at)).collect();
        for old in &halves.before.entries {
            match places.get(&old.hash) {
                Some(&at) => {
                    keys[at].at_most += old.at_most;
                    keys[at].doubt += old.doubt;
                }
                None => keys.push(old.clone()),
            }
        }
        let refusals = halves.current.refusals + halves.before.refusals;
        drop(halves);
        keys.sort_by_key(|key| std::cmp::Reverse(key.at_most));
        Top { keys, refusals }
    }

    fn locked(&self) -> MutexGuard<'_, Halves> {
        self.halves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Halves {
    fn turn(&mut self, now: u64) {
        let number = now / HALF;
        if number > self.number {
            let last = std::mem::take(&mut self.current);
            self.before = if number == self.number + 1 { last } else { Half::default() };
            self.number = number;
        }
    }
}

impl Half {
    fn add(&mut self, hash: u64, key: Option<&[u8]>) {
        self.refusals += 1;
        let at = match self.places.get(&hash) {
            Some(&at) => at,
            None => self.insert(hash, key),
        };
        // The first entry with this count: one more there keeps the order.
        let count = self.entries[at].at_most;
        let first = self.entries.partition_point(|entry| entry.at_most > count);
        self.entries[at].at_most += 1;
        if at != first {
            self.entries.swap(at, first);
            self.places.insert(self.entries[at].hash, at);
            self.places.insert(hash, first);
        }
    }

    /// Makes an entry for a key: a free one, or that of the rarest key, whose count it inherits.
    fn insert(&mut self, hash: u64, key: Option<&[u8]>) -> usize {
        let key = key.map(Into::into);
        if self.entries.len() < ENTRIES {
            self.entries.push(Refused { hash, key, at_most: 0, doubt: 0 });
        } else {
            let rarest = &mut self.entries[ENTRIES - 1];
            self.places.remove(&rarest.hash);
            *rarest = Refused { hash, key, at_most: rarest.at_most, doubt: rarest.at_most };
        }
        let at = self.entries.len() - 1;
        self.places.insert(hash, at);
        at
    }
}

impl Top {
    /// The share of the ten most refused keys in all refusals, at least; `None` without a refusal.
    pub(crate) fn share_of_ten(&self) -> Option<f64> {
        let ten: u64 = self.keys.iter().take(10).map(|key| key.at_most - key.doubt).sum();
        (self.refusals > 0).then(|| ten as f64 / self.refusals as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sequence in which key `k` comes `counts[k]` times, evenly mixed.
    fn mixed(counts: &[u64]) -> impl Iterator<Item = u64> {
        let mut all: Vec<(u64, u64)> = Vec::new();
        for (key, &count) in (0_u64..).zip(counts) {
            all.extend((0..count).map(|n| ((2 * n + 1) * 1_000_000 / (2 * count), key)));
        }
        all.sort_unstable();
        all.into_iter().map(|(_, key)| key)
    }

    #[test]
    fn few_refused_keys_are_counted_exactly() {
        let refused = MostRefused::default();
        mixed(&[50, 7, 20]).for_each(|key| refused.add(key, Some(&[key as u8]), 0));
        let top = refused.top(0);
        let counts: Vec<_> = top.keys.iter().map(|key| (key.hash, key.at_most, key.doubt)).collect();
        assert_eq!((counts, top.refusals), (vec![(0, 50, 0), (2, 20, 0), (1, 7, 0)], 77));
        assert_eq!(top.keys[1].key.as_deref(), Some(&[2][..]));
        assert_eq!(top.share_of_ten(), Some(1.0));
    }

    #[test]
    fn frequent_keys_are_found_within_their_doubt() {
        // 20 keys of 500 refusals among 5,000 keys of 2.
        let counts: Vec<u64> = (0..5_020).map(|key| if key < 20 { 500 } else { 2 }).collect();
        let refused = MostRefused::default();
        mixed(&counts).for_each(|key| refused.add(key, None, 0));
        let top = refused.top(0);
        assert_eq!(top.refusals, 20_000);
        for key in &top.keys[..20] {
            assert!(key.hash < 20, "{key:?}");
            assert!(key.at_most >= 500 && key.at_most - key.doubt <= 500, "{key:?}");
            assert!(key.doubt <= top.refusals / ENTRIES as u64, "{key:?}");
        }
        // One that comes late takes over the count of another, and says so.
        (0..300).for_each(|_| refused.add(9_999, None, 0));
        let late = refused.top(0).keys.into_iter().find(|key| key.hash == 9_999).unwrap();
        assert_eq!((late.at_most - late.doubt, late.doubt > 0), (300, true));
        let share = top.share_of_ten().unwrap();
        assert!((0.15..=0.25).contains(&share), "{share}");
    }

    #[test]
    fn refusals_are_forgotten_after_two_halves() {
        let refused = MostRefused::default();
        refused.add(1, None, 0);
        refused.add(2, None, HALF);
        assert_eq!(refused.top(HALF).refusals, 2);
        assert_eq!(refused.top(2 * HALF).keys.iter().map(|key| key.hash).collect::<Vec<_>>(), [2]);
        assert_eq!(refused.top(3 * HALF).share_of_ten(), None);
    }
}
