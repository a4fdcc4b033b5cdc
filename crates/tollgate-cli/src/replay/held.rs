//! What a trace has taken and may yet give back: by key, by id, and the latest first.
//!
//! It is bounded, because a trace need not give back anything: the oldest goes when one more than `most` comes, and
//! giving that back later finds nothing.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// Things taken under a key, each to be given back once.
#[derive(Debug)]
pub(super) struct Held<T> {
    most: usize,
    /// Keys by number, so that each is kept once. Grows with keys, as the tallies do.
    numbers: HashMap<Box<[u8]>, usize, ahash::RandomState>,
    /// By key, and within it by age.
    things: BTreeMap<(usize, u64), Thing<T>>,
    /// The latest age of an id under its key. Never of one that is gone.
    ages: HashMap<(usize, Box<[u8]>), u64, ahash::RandomState>,
    /// Whose the last `most` things were, given back or not: ages count on from the first.
    order: VecDeque<usize>,
    next: u64,
}

#[derive(Debug)]
struct Thing<T> {
    /// Empty: none.
    id: Box<[u8]>,
    thing: T,
}

impl<T> Held<T> {
    /// Room for so many.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            numbers: HashMap::default(),
            things: BTreeMap::new(),
            ages: HashMap::default(),
            order: VecDeque::new(),
            next: 0,
        }
    }

    /// Keeps what was taken; an empty id is none.
    pub(super) fn put(&mut self, key: &[u8], id: &[u8], thing: T) {
        if self.order.len() == self.most
            && let Some(number) = self.order.pop_front()
        {
            self.remove((number, self.next - self.most as u64));
        }
        let number = match self.numbers.get(key) {
            Some(number) => *number,
            None => {
                let number = self.numbers.len();
                self.numbers.insert(key.into(), number);
                number
            }
        };
        let age = self.next;
        self.next += 1;
        self.order.push_back(number);
        if !id.is_empty() {
            self.ages.insert((number, id.into()), age);
        }
        self.things.insert((number, age), Thing { id: id.into(), thing });
    }

    /// Takes out the key's latest of this id, or its latest of all when there is none.
    pub(super) fn take(&mut self, key: &[u8], id: &[u8]) -> Option<T> {
        let number = *self.numbers.get(key)?;
        let age = if id.is_empty() { self.latest(number)? } else { *self.ages.get(&(number, id.into()))? };
        self.remove((number, age))
    }

    /// Drops all that was taken under the key.
    pub(super) fn forget(&mut self, key: &[u8]) {
        let Some(&number) = self.numbers.get(key) else { return };
        while let Some(age) = self.latest(number) {
            self.remove((number, age));
        }
    }

    fn latest(&self, number: usize) -> Option<u64> {
        self.things.range((number, 0)..=(number, u64::MAX)).next_back().map(|((_, age), _)| *age)
    }

    fn remove(&mut self, place: (usize, u64)) -> Option<T> {
        let Thing { id, thing } = self.things.remove(&place)?;
        if !id.is_empty() {
            let named = (place.0, id);
            // A later one may have the same id.
            if self.ages.get(&named) == Some(&place.1) {
                self.ages.remove(&named);
            }
        }
        Some(thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(most: usize, things: &[(&str, &str, u32)]) -> Held<u32> {
        let mut held = Held::new(most);
        things.iter().for_each(|(key, id, thing)| held.put(key.as_bytes(), id.as_bytes(), *thing));
        held
    }

    #[test]
    fn without_an_id_the_latest_of_the_key_comes_first_and_each_once() {
        let mut held = held(9, &[("a", "", 1), ("b", "", 2), ("a", "r", 3), ("a", "", 4)]);
        let taken: Vec<_> = (0..4).map(|_| held.take(b"a", b"")).collect();
        assert_eq!(taken, [Some(4), Some(3), Some(1), None]);
        assert_eq!([held.take(b"b", b""), held.take(b"b", b""), held.take(b"c", b"")], [Some(2), None, None]);
    }

    #[test]
    fn an_id_is_its_keys_own_and_the_later_of_two_alike() {
        let mut held = held(9, &[("a", "r", 1), ("b", "r", 2), ("a", "r", 3)]);
        assert_eq!(
            [held.take(b"a", b"s"), held.take(b"a", b"r"), held.take(b"a", b"r")],
            [None, Some(3), None]
        );
        assert_eq!([held.take(b"a", b""), held.take(b"b", b"r")], [Some(1), Some(2)]);
        assert!(held.ages.is_empty() && held.things.is_empty());
    }

    #[test]
    fn the_oldest_goes_when_there_is_no_more_room() {
        let mut held = held(2, &[("a", "r", 1), ("b", "", 2), ("a", "", 3), ("b", "", 4)]);
        assert_eq!(
            [held.take(b"a", b"r"), held.take(b"a", b""), held.take(b"a", b"")],
            [None, Some(3), None]
        );
        assert_eq!([held.take(b"b", b""), held.take(b"b", b"")], [Some(4), None]);
        (5..100).for_each(|thing| held.put(b"c", b"x", thing));
        assert_eq!((held.things.len(), held.ages.len(), held.order.len()), (2, 1, 2));
    }

    #[test]
    fn a_key_that_is_forgotten_has_nothing_to_give_back() {
        let mut held = held(9, &[("a", "r", 1), ("a", "", 2), ("b", "", 3)]);
        held.forget(b"a");
        assert_eq!(
            [held.take(b"a", b"r"), held.take(b"a", b""), held.take(b"b", b"")],
            [None, None, Some(3)]
        );
    }
}
