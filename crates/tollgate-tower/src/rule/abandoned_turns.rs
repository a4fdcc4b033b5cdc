//! Turns in a queue that were given up before their departure.
//!
//! ```text
//!   departures     1 s    2 s    3 s    4 s     now 0.5 s; the engine's next departure is 5 s
//!   requests        A      -      C      D
//!                          ^ B left: the next request departs at 2 s, C and D as promised
//! ```
//!
//! The last turn of a queue goes back to the engine, which shortens the queue. An earlier turn
//! cannot go back, because the requests behind it keep the departures that they were promised. Its
//! departure is kept here instead, for the next request with the same key.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate::Timestamp;

/// The most turns kept, over all keys of a limit set. Further abandoned turns are lost.
const MAX_TURNS: usize = 65_536;

/// The most bytes of keys kept with the turns: a client chooses the length of its key.
const MAX_KEY_BYTES: usize = 16 << 20;

/// The most turns of one key that a search examines. It bounds the time that a client can cost
/// others by abandoning many small turns.
const MAX_EXAMINED: usize = 64;

/// The turn of a request in the queue of its key.
pub(crate) struct QueueTurn {
    pub(crate) key: Arc<[u8]>,
    pub(crate) departure: Timestamp,
    /// The cost that the engine's queue was charged for it.
    pub(crate) units: u64,
    /// The [change count](AbandonedTurns::change_count), read before the charge.
    pub(crate) change_count: u64,
}

/// The abandoned turns of all keys of a limit set.
#[derive(Default)]
pub(crate) struct AbandonedTurns {
    turns: Mutex<Turns>,
    /// The number of turns, so that a request takes no lock while there are none.
    len: AtomicUsize,
    change_count: AtomicU64,
}

#[derive(Default)]
struct Turns {
    /// For each key the departures, with the units that each has room for.
    by_key: HashMap<Arc<[u8]>, BTreeMap<Timestamp, u64>>,
    /// The same turns ordered by departure, to find those that have passed.
    by_time: BTreeSet<(Timestamp, Arc<[u8]>)>,
    /// The total length of the keys in `by_time`.
    key_bytes: usize,
}

impl AbandonedTurns {
    /// Returns how often the limits were changed. A change may forget the debt of a key, and with
    /// it the turns that were charged before.
    pub(crate) fn change_count(&self) -> u64 {
        self.change_count.load(Ordering::Acquire)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    /// Removes and returns the earliest turn of `key` between `now` and `latest` that has room for
    /// `cost`.
    pub(crate) fn claim(
        &self,
        key: &[u8],
        cost: u64,
        now: Timestamp,
        latest: Timestamp,
    ) -> Option<QueueTurn> {
        self.with_turns(now, |turns| {
            let (key, departures) = turns.by_key.get_key_value(key)?;
            let mut in_time = departures.range(..=latest).take(MAX_EXAMINED);
            let (&departure, &units) = in_time.find(|(_, units)| **units >= cost)?;
            let key = Arc::clone(key);
            turns.remove(departure, &key);
            // The limits cannot change now: a change holds the lock.
            Some(QueueTurn { key, departure, units, change_count: self.change_count() })
        })
    }

    /// Keeps a turn that the engine still counts, unless its departure has passed or the limits
    /// have changed since.
    pub(crate) fn offer(&self, turn: QueueTurn, now: Timestamp) {
        let QueueTurn { key, departure, units, change_count } = turn;
        self.with_turns(now, |turns| {
            if change_count == self.change_count() && departure >= now && turns.have_room(&key) {
                turns.insert(departure, key, units);
            }
        });
    }

    /// Runs `act` on the turns whose departure has not passed.
    fn with_turns<T>(&self, now: Timestamp, act: impl FnOnce(&mut Turns) -> T) -> T {
        let mut turns = self.lock();
        turns.remove_before(now);
        let result = act(&mut turns);
        self.len.store(turns.by_time.len(), Ordering::Relaxed);
        result
    }

    /// Runs `change`, which changes the limits. If it succeeds, all turns are forgotten. Changes
    /// exclude one another.
    pub(crate) fn change_limits<T, E>(&self, change: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        // Locked during the change, so that no turn of the old limits is claimed under the new
        // ones.
        let mut turns = self.lock();
        let result = change()?;
        *turns = Turns::default();
        self.len.store(0, Ordering::Relaxed);
        self.change_count.fetch_add(1, Ordering::Release);
        Ok(result)
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        // A change that panics has not touched the turns.
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turns {
    fn remove_before(&mut self, now: Timestamp) {
        while let Some((departure, key)) =
            self.by_time.first().filter(|(departure, _)| *departure < now).cloned()
        {
            self.remove(departure, &key);
        }
    }

    fn have_room(&self, key: &[u8]) -> bool {
        self.by_time.len() < MAX_TURNS && self.key_bytes + key.len() <= MAX_KEY_BYTES
    }

    fn insert(&mut self, departure: Timestamp, key: Arc<[u8]>, units: u64) {
        if self.by_time.insert((departure, Arc::clone(&key))) {
            self.key_bytes += key.len();
        }
        self.by_key.entry(key).or_default().insert(departure, units);
    }

    fn remove(&mut self, departure: Timestamp, key: &Arc<[u8]>) {
        if self.by_time.remove(&(departure, Arc::clone(key))) {
            self.key_bytes -= key.len();
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

    fn turn(key: &[u8], departure: u64, units: u64) -> QueueTurn {
        QueueTurn { key: key.into(), departure: at(departure), units, change_count: 0 }
    }

    /// Claims a turn and returns its departure.
    fn claim(turns: &AbandonedTurns, key: &[u8], cost: u64, now: u64, latest: u64) -> Option<Timestamp> {
        turns.claim(key, cost, at(now), at(latest)).map(|turn| turn.departure)
    }

    #[test]
    fn the_earliest_turn_goes_once_to_its_own_key() {
        let turns = AbandonedTurns::default();
        turns.offer(turn(b"a", 5, 1), at(0));
        turns.offer(turn(b"a", 3, 1), at(0));
        assert_eq!(claim(&turns, b"b", 1, 0, 9), None);
        assert_eq!(claim(&turns, b"a", 1, 0, 2), None, "later than `latest`");
        assert_eq!(claim(&turns, b"a", 2, 0, 9), None, "no room for the cost");
        assert_eq!(claim(&turns, b"a", 1, 3, 9), Some(at(3)));
        assert_eq!(claim(&turns, b"a", 1, 4, 9), Some(at(5)));
        assert!(turns.is_empty());
        assert_eq!(claim(&turns, b"a", 1, 0, 9), None);
    }

    #[test]
    fn passed_turns_are_forgotten_and_their_number_is_bounded() {
        let turns = AbandonedTurns::default();
        for number in 0..MAX_TURNS as u64 + 10 {
            turns.offer(turn(&number.to_le_bytes(), 1 + number % 2, 1), at(0));
        }
        assert_eq!(turns.len.load(Ordering::Relaxed), MAX_TURNS);
        turns.offer(turn(b"a", 3, 1), at(2));
        assert_eq!(turns.len.load(Ordering::Relaxed), MAX_TURNS / 2 + 1);
        assert_eq!(claim(&turns, b"unknown", 1, 3, 9), None);
        assert_eq!(turns.len.load(Ordering::Relaxed), 1, "a search forgets them too");
        turns.offer(turn(b"b", 2, 1), at(3));
        assert_eq!(turns.lock().by_key.len(), 1);
    }

    #[test]
    fn the_bytes_of_kept_keys_are_bounded() {
        let turns = AbandonedTurns::default();
        let (large, small) = (vec![0; MAX_KEY_BYTES / 4], [1]);
        for second in 1..=9 {
            turns.offer(turn(&large, second, 1), at(0));
        }
        turns.offer(turn(&small, 5, 1), at(0));
        assert_eq!(turns.len.load(Ordering::Relaxed), 4);
        // A turn that is claimed, or has passed, makes room.
        assert_eq!(claim(&turns, &large, 1, 1, 9), Some(at(1)));
        turns.offer(turn(&small, 5, 1), at(3));
        turns.offer(turn(&large, 6, 1), at(3));
        assert_eq!(turns.len.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn a_search_examines_a_bounded_number_of_turns() {
        let turns = AbandonedTurns::default();
        (1..=MAX_EXAMINED as u64).for_each(|second| turns.offer(turn(b"a", second, 1), at(0)));
        turns.offer(turn(b"a", 1_000, 2), at(0));
        assert_eq!(claim(&turns, b"a", 2, 0, 2_000), None);
        assert_eq!(claim(&turns, b"a", 2, 2, 2_000), Some(at(1_000)));
    }

    #[test]
    fn a_change_of_limits_forgets_all_earlier_turns() {
        let turns = AbandonedTurns::default();
        turns.offer(turn(b"a", 5, 1), at(0));
        assert_eq!(turns.change_limits(|| Err::<(), _>(7)), Err(7));
        assert!(!turns.is_empty(), "the change failed");
        turns.change_limits(|| Ok::<_, Infallible>(())).unwrap();
        assert_eq!(claim(&turns, b"a", 1, 0, 9), None);
        turns.offer(turn(b"a", 6, 1), at(0));
        assert_eq!(claim(&turns, b"a", 1, 0, 9), None, "charged before the change");
        turns.offer(QueueTurn { change_count: turns.change_count(), ..turn(b"a", 6, 1) }, at(0));
        assert_eq!(claim(&turns, b"a", 1, 0, 9), Some(at(6)));
    }
}
