//! What a trace took and may still give back: found by key and id, or by key the latest first.
//!
//! A trace need not give anything back, so the memory is bounded: beyond `capacity` the oldest
//! entry is dropped, and giving that back later finds nothing.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// Entries under a key, each of which can be taken out once.
#[derive(Debug)]
pub(super) struct Outstanding<T> {
    capacity: usize,
    /// The number of each key, so that each key is stored once. Grows with keys, as the tallies do.
    key_numbers: HashMap<Box<[u8]>, usize, ahash::RandomState>,
    /// By key number, and within a key by serial number.
    entries: BTreeMap<(usize, u64), Entry<T>>,
    /// The serial number of the latest entry with this id under this key.
    latest_by_id: HashMap<(usize, Box<[u8]>), u64, ahash::RandomState>,
    /// The key numbers of the last `capacity` insertions, whether taken out or not, oldest first.
    recent_keys: VecDeque<usize>,
    next_serial: u64,
}

#[derive(Debug)]
struct Entry<T> {
    /// Empty without an id.
    id: Box<[u8]>,
    value: T,
}

impl<T> Outstanding<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            key_numbers: HashMap::default(),
            entries: BTreeMap::new(),
            latest_by_id: HashMap::default(),
            recent_keys: VecDeque::new(),
            next_serial: 0,
        }
    }

    /// Inserts an entry; an empty `id` means none. Drops the oldest beyond the capacity.
    pub(super) fn insert(&mut self, key: &[u8], id: &[u8], value: T) {
        if self.recent_keys.len() == self.capacity
            && let Some(oldest) = self.recent_keys.pop_front()
        {
            self.remove((oldest, self.next_serial - self.capacity as u64));
        }
        let number = match self.key_numbers.get(key) {
            Some(number) => *number,
            None => {
                let number = self.key_numbers.len();
                self.key_numbers.insert(key.into(), number);
                number
            }
        };
        let serial = self.next_serial;
        self.next_serial += 1;
        self.recent_keys.push_back(number);
        if !id.is_empty() {
            self.latest_by_id.insert((number, id.into()), serial);
        }
        self.entries.insert((number, serial), Entry { id: id.into(), value });
    }

    /// Takes out the key's latest entry with this id, or its latest entry if `id` is empty.
    pub(super) fn take(&mut self, key: &[u8], id: &[u8]) -> Option<T> {
        let number = *self.key_numbers.get(key)?;
        let serial = match id {
            [] => self.latest(number)?,
            _ => *self.latest_by_id.get(&(number, id.into()))?,
        };
        self.remove((number, serial))
    }

    /// Drops all entries of the key.
    pub(super) fn forget(&mut self, key: &[u8]) {
        let Some(&number) = self.key_numbers.get(key) else { return };
        while let Some(serial) = self.latest(number) {
            self.remove((number, serial));
        }
    }

    fn latest(&self, number: usize) -> Option<u64> {
        self.entries.range((number, 0)..=(number, u64::MAX)).next_back().map(|((_, serial), _)| *serial)
    }

    fn remove(&mut self, (number, serial): (usize, u64)) -> Option<T> {
        let Entry { id, value } = self.entries.remove(&(number, serial))?;
        let named = (number, id);
        // A later entry may have the same id.
        if self.latest_by_id.get(&named) == Some(&serial) {
            self.latest_by_id.remove(&named);
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outstanding(capacity: usize, entries: &[(&str, &str, u32)]) -> Outstanding<u32> {
        let mut outstanding = Outstanding::new(capacity);
        for (key, id, value) in entries {
            outstanding.insert(key.as_bytes(), id.as_bytes(), *value);
        }
        outstanding
    }

    #[test]
    fn without_an_id_the_latest_of_the_key_comes_first() {
        let mut outstanding = outstanding(9, &[("a", "", 1), ("b", "", 2), ("a", "r", 3), ("a", "", 4)]);
        let taken: Vec<_> = (0..4).map(|_| outstanding.take(b"a", b"")).collect();
        assert_eq!(taken, [Some(4), Some(3), Some(1), None]);
        assert_eq!(
            [outstanding.take(b"b", b""), outstanding.take(b"b", b""), outstanding.take(b"c", b"")],
            [Some(2), None, None]
        );
    }

    #[test]
    fn an_id_belongs_to_a_key_and_its_latest_use() {
        let mut outstanding = outstanding(9, &[("a", "r", 1), ("b", "r", 2), ("a", "r", 3)]);
        assert_eq!(
            [outstanding.take(b"a", b"s"), outstanding.take(b"a", b"r"), outstanding.take(b"a", b"r")],
            [None, Some(3), None]
        );
        assert_eq!([outstanding.take(b"a", b""), outstanding.take(b"b", b"r")], [Some(1), Some(2)]);
        assert!(outstanding.latest_by_id.is_empty() && outstanding.entries.is_empty());
    }

    #[test]
    fn the_oldest_is_dropped_beyond_the_capacity() {
        let mut outstanding = outstanding(2, &[("a", "r", 1), ("b", "", 2), ("a", "", 3), ("b", "", 4)]);
        assert_eq!(
            [outstanding.take(b"a", b"r"), outstanding.take(b"a", b""), outstanding.take(b"a", b"")],
            [None, Some(3), None]
        );
        assert_eq!([outstanding.take(b"b", b""), outstanding.take(b"b", b"")], [Some(4), None]);
        (5..100).for_each(|value| outstanding.insert(b"c", b"x", value));
        assert_eq!(
            (outstanding.entries.len(), outstanding.latest_by_id.len(), outstanding.recent_keys.len()),
            (2, 1, 2)
        );
    }

    #[test]
    fn a_forgotten_key_has_nothing_to_give_back() {
        let mut outstanding = outstanding(9, &[("a", "r", 1), ("a", "", 2), ("b", "", 3)]);
        outstanding.forget(b"a");
        assert_eq!(
            [outstanding.take(b"a", b"r"), outstanding.take(b"a", b""), outstanding.take(b"b", b"")],
            [None, None, Some(3)]
        );
    }
}
