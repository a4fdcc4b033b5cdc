//! Places in a queue that were left before their time.
//!
//! ```text
//!   departures     1 s    2 s    3 s    4 s          now 0.5 s; the engine's next is 5 s
//!   who waits       A      -      C      D
//!                          ^ B is gone: the next who comes departs at 2 s, and C and D as they were promised
//! ```
//!
//! Whoever stands last gives its place back to the engine. One in the middle cannot: those behind it keep their
//! departures, so the engine's queue stays as long as it was. Its departure is free all the same, and is kept here for
//! the next of its key.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate::Timestamp;

/// How many are kept, of all keys of a rule's limits together. What is left beyond is lost until its time has passed.
const MOST: usize = 65_536;

/// How many bytes of keys are kept with them: a key is as long as a client makes it.
const MOST_BYTES: usize = 16 << 20;

/// How many of a key's places are looked at for one with room: who leaves many that are small makes nobody's search long.
const LOOKED_AT: usize = 64;

/// A request's place in the queue of its key.
pub(crate) struct Place {
    pub(crate) key: Arc<[u8]>,
    pub(crate) departure: Timestamp,
    /// What the engine's queue was charged for it.
    pub(crate) units: u64,
    /// The [era](Vacant::era) in which it was charged, read before.
    pub(crate) era: u64,
}

/// The places that somebody may take.
#[derive(Default)]
pub(crate) struct Vacant {
    places: Mutex<Places>,
    /// How many there are, so that requests need no lock where there is none.
    count: AtomicUsize,
    era: AtomicU64,
}

#[derive(Default)]
struct Places {
    /// The departures of each key, and the units that each has room for.
    by_key: HashMap<Arc<[u8]>, BTreeMap<Timestamp, u64>>,
    /// The same departures, for those that have passed to be found.
    by_time: BTreeSet<(Timestamp, Arc<[u8]>)>,
    /// The bytes of their keys.
    bytes: usize,
}

impl Vacant {
    /// How often the limits were changed. A change may forget what keys owe, and with it the places of before.
    pub(crate) fn era(&self) -> u64 {
        self.era.load(Ordering::Acquire)
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// The earliest place of a key, from `now` to `latest`, in which a request of this cost has room. It is nobody
    /// else's then.
    pub(crate) fn take(&self, key: &[u8], cost: u64, now: Timestamp, latest: Timestamp) -> Option<Place> {
        self.with_places(now, |places| {
            let (key, departures) = places.by_key.get_key_value(key)?;
            let mut near = departures.range(..=latest).take(LOOKED_AT);
            let (&departure, &units) = near.find(|(_, units)| **units >= cost)?;
            let key = Arc::clone(key);
            places.remove(departure, &key);
            // No change comes in between: it has the lock.
            Some(Place { key, departure, units, era: self.era() })
        })
    }

    /// Takes back a place that the engine still counts. One that has passed is of no use.
    pub(crate) fn leave(&self, place: Place, now: Timestamp) {
        let Place { key, departure, units, era } = place;
        self.with_places(now, |places| {
            if era == self.era() && departure >= now && places.have_room(&key) {
                places.insert(departure, key, units);
            }
        });
    }

    /// Does something with those that have not passed.
    fn with_places<T>(&self, now: Timestamp, act: impl FnOnce(&mut Places) -> T) -> T {
        let mut places = self.lock();
        places.forget_before(now);
        let done = act(&mut places);
        self.count.store(places.by_time.len(), Ordering::Relaxed);
        done
    }

    /// Changes the limits, and begins another era when that succeeds. Changes take turns.
    pub(crate) fn change<E>(&self, change: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        // Locked meanwhile, so that no place of the old limits is taken under the new ones.
        let mut places = self.lock();
        change()?;
        *places = Places::default();
        self.count.store(0, Ordering::Relaxed);
        self.era.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        // Nobody panics while holding it.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn forget_before(&mut self, now: Timestamp) {
        while let Some((departure, key)) =
            self.by_time.first().filter(|(departure, _)| *departure < now).cloned()
        {
            self.remove(departure, &key);
        }
    }

    fn have_room(&self, key: &[u8]) -> bool {
        self.by_time.len() < MOST && self.bytes + key.len() <= MOST_BYTES
    }

    fn insert(&mut self, departure: Timestamp, key: Arc<[u8]>, units: u64) {
        if self.by_time.insert((departure, Arc::clone(&key))) {
            self.bytes += key.len();
        }
        self.by_key.entry(key).or_default().insert(departure, units);
    }

    fn remove(&mut self, departure: Timestamp, key: &Arc<[u8]>) {
        if self.by_time.remove(&(departure, Arc::clone(key))) {
            self.bytes -= key.len();
        }
        if let Some(departures) = self.by_key.get_mut(key) {
            departures.remove(&departure);
            if departures.is_empty() {
                self.by_key.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(seconds)
    }

    fn place(key: &[u8], departure: u64, units: u64) -> Place {
        Place { key: key.into(), departure: at(departure), units, era: 0 }
    }

    fn taken(vacant: &Vacant, key: &[u8], cost: u64, now: u64, latest: u64) -> Option<Timestamp> {
        vacant.take(key, cost, at(now), at(latest)).map(|place| place.departure)
    }

    #[test]
    fn a_place_is_taken_once_by_its_own_key_and_the_earliest_first() {
        let vacant = Vacant::default();
        vacant.leave(place(b"a", 5, 1), at(0));
        vacant.leave(place(b"a", 3, 1), at(0));
        assert_eq!(taken(&vacant, b"b", 1, 0, 9), None);
        assert_eq!(taken(&vacant, b"a", 1, 0, 2), None, "later than it may be");
        assert_eq!(taken(&vacant, b"a", 2, 0, 9), None, "no room");
        assert_eq!(taken(&vacant, b"a", 1, 3, 9), Some(at(3)));
        assert_eq!(taken(&vacant, b"a", 1, 4, 9), Some(at(5)));
        assert!(vacant.is_empty());
        assert_eq!(taken(&vacant, b"a", 1, 0, 9), None);
    }

    #[test]
    fn what_has_passed_is_forgotten_and_there_are_never_more_than_so_many() {
        let vacant = Vacant::default();
        for number in 0..MOST as u64 + 10 {
            vacant.leave(place(&number.to_le_bytes(), 1 + number % 2, 1), at(0));
        }
        assert_eq!(vacant.count.load(Ordering::Relaxed), MOST);
        vacant.leave(place(b"a", 3, 1), at(2));
        assert_eq!(vacant.count.load(Ordering::Relaxed), MOST / 2 + 1);
        assert_eq!(taken(&vacant, b"nobody", 1, 3, 9), None);
        assert_eq!(vacant.count.load(Ordering::Relaxed), 1, "who only looks forgets them, too");
        vacant.leave(place(b"b", 2, 1), at(3));
        assert_eq!(vacant.lock().by_key.len(), 1);
    }

    #[test]
    fn long_keys_take_no_more_memory_than_short_ones_may() {
        let vacant = Vacant::default();
        let (large, small) = (vec![0; MOST_BYTES / 4], [1]);
        for second in 1..=9 {
            vacant.leave(place(&large, second, 1), at(0));
        }
        vacant.leave(place(&small, 5, 1), at(0));
        assert_eq!(vacant.count.load(Ordering::Relaxed), 4);
        // What is taken, or has passed, makes room.
        assert_eq!(taken(&vacant, &large, 1, 1, 9), Some(at(1)));
        vacant.leave(place(&small, 5, 1), at(3));
        vacant.leave(place(&large, 6, 1), at(3));
        assert_eq!(vacant.count.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn a_search_ends_after_so_many_places_without_room() {
        let vacant = Vacant::default();
        (1..=LOOKED_AT as u64).for_each(|second| vacant.leave(place(b"a", second, 1), at(0)));
        vacant.leave(place(b"a", 1_000, 2), at(0));
        assert_eq!(taken(&vacant, b"a", 2, 0, 2_000), None);
        assert_eq!(taken(&vacant, b"a", 2, 2, 2_000), Some(at(1_000)));
    }

    #[test]
    fn a_change_forgets_places_and_those_who_stand_in_one_of_before_leave_none() {
        let vacant = Vacant::default();
        vacant.leave(place(b"a", 5, 1), at(0));
        assert_eq!(vacant.change(|| Err(7)), Err(7));
        assert!(!vacant.is_empty(), "nothing was changed");
        vacant.change(|| Ok::<_, Infallible>(())).unwrap();
        assert_eq!(taken(&vacant, b"a", 1, 0, 9), None);
        vacant.leave(place(b"a", 6, 1), at(0));
        assert_eq!(taken(&vacant, b"a", 1, 0, 9), None);
        vacant.leave(Place { era: vacant.era(), ..place(b"a", 6, 1) }, at(0));
        assert_eq!(taken(&vacant, b"a", 1, 0, 9), Some(at(6)));
    }
}
