//! How many requests each key made and how many were refused. Memory grows with keys, not with the
//! log.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::report::KeyTally;

/// A tally for every key.
#[derive(Debug, Default)]
pub(crate) struct Tallies(HashMap<Box<[u8]>, KeyTally, ahash::RandomState>);

impl Tallies {
    /// Counts a request.
    #[inline]
    pub(crate) fn count(&mut self, key: &[u8], allowed: bool) {
        let denied = u64::from(!allowed);
        if let Some(tally) = self.0.get_mut(key) {
            tally.requests += 1;
            tally.denied += denied;
        } else {
            self.0.insert(key.into(), KeyTally { requests: 1, denied });
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The tallies of the keys that were ever refused.
    pub(crate) fn refused(&self) -> Vec<KeyTally> {
        self.0.values().copied().filter(|tally| tally.denied > 0).collect()
    }

    /// At most `count` keys with the highest `measure`, except those of zero; equal keys in byte
    /// order.
    pub(crate) fn top<M: Ord + Default>(
        &self,
        count: usize,
        measure: impl Fn(KeyTally) -> M,
    ) -> Vec<(&[u8], KeyTally)> {
        let mut keys: Vec<(&[u8], KeyTally)> = self.0.iter().map(|(key, tally)| (&**key, *tally)).collect();
        keys.retain(|(_, tally)| measure(*tally) > M::default());
        keys.sort_unstable_by_key(|&(key, tally)| (Reverse(measure(tally)), key));
        keys.truncate(count);
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_refused_keys_come_first_and_others_not() {
        let mut tallies = Tallies::default();
        for (key, allowed) in [(b"b", false), (b"a", false), (b"c", true), (b"c", true), (b"b", true)] {
            tallies.count(key, allowed);
        }
        let keys = |top: Vec<(&[u8], KeyTally)>| top.iter().map(|(key, _)| key[0]).collect::<Vec<u8>>();
        assert_eq!(keys(tallies.top(9, |tally| tally.denied)), b"ab");
        assert_eq!(keys(tallies.top(2, |tally| tally.requests)), b"bc");
        assert_eq!((tallies.len(), tallies.refused().len()), (3, 2));
    }
}
