//! The leases of a bounded number of keys.

use std::time::Duration;

use super::slot::{Rules, Slot};
use crate::deny::Fingerprint;

/// The keys that have leases at one time. Others are checked strictly.
const KEYS: usize = 4_096;

/// The slots in which a key may be.
const WAYS: usize = 4;

/// Slots by key. A slot is given to another key only when it is idle, so a table that is full
/// costs trips and admits nothing.
#[derive(Debug)]
pub(crate) struct Table<W> {
    slots: Box<[Slot<W>]>,
    rules: Rules,
}

impl<W> Table<W> {
    pub(crate) fn new(rules: Rules) -> Self {
        Self::of_keys(KEYS, rules)
    }

    fn of_keys(keys: usize, rules: Rules) -> Self {
        let slots = (0..keys.next_power_of_two()).map(|_| Slot::new(&rules)).collect();
        Self { slots, rules }
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(crate) fn slot(&self, number: usize) -> &Slot<W> {
        &self.slots[number & (self.slots.len() - 1)]
    }

    /// The number of the slot that a key has.
    pub(crate) fn find(&self, key: Fingerprint) -> Option<usize> {
        self.ways(key).find(|&number| self.slot(number).is_of(key))
    }

    /// The number of the slot that a key has or can be given. `None` if all that it could have are
    /// in use.
    pub(crate) fn find_or_give(&self, key: Fingerprint, now: Duration) -> Option<usize> {
        let give = || self.ways(key).find(|&number| self.slot(number).give(key, &self.rules, now));
        self.find(key).or_else(give)
    }

    /// The slots in which a key may be.
    pub(crate) fn ways(&self, key: Fingerprint) -> impl Iterator<Item = usize> {
        // Its low bits: whichever slots there are.
        let first = key as usize & (self.slots.len() - 1);
        (0..WAYS).map(move |way| first ^ way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { ttl: Duration::from_millis(50), limit: 1_000, nodes: 1 };

    #[test]
    fn a_full_table_has_no_slot_until_one_is_idle() {
        let table = Table::<()>::of_keys(4, RULES);
        let places: Vec<_> = (1..=5).map(|key| table.find_or_give(key, Duration::ZERO)).collect();
        assert!(places[..4].iter().all(Option::is_some) && places[4].is_none(), "{places:?}");
        assert_eq!(table.find(5), None);
        assert_eq!(table.find_or_give(3, Duration::ZERO), places[2]);
        let idle = RULES.ttl;
        assert!(table.find_or_give(5, idle).is_some());
    }
}
