//! The turns of requests in a queue of a rule: those that requests wait for, and those that
//! are free since their requests left.
//!
//! ```text
//!   departures     1 s    2 s    3 s    4 s     now 0.5 s; the engine's next departure is 5 s
//!   requests        A      B      C      D
//!                   A      C      D      -      B left: C and D move up, and the next request
//!                                               departs at 4 s
//! ```
//!
//! The last turn of a queue goes back to the engine, which shortens the queue. An earlier turn
//! cannot go back, because the engine has promised the departures behind it. The requests behind
//! move up instead, each to the departure before it. The departure of the last one is free, for the
//! next request with the same key.
//!
//! No departure is made or lost by that, so those that requests use are as far apart as the engine
//! made them. A request that has moved up departs by a turn for which another one was charged. So
//! its own receipt is of a turn that another request may have, and never goes back to the engine:
//! see [`QueueTurn::is_own`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tollgate::Timestamp;

use super::turn::{Held, Place, QueueTurn};

/// The most free turns kept, over all keys of a queue. Further abandoned turns are lost.
const MAX_TURNS: usize = 65_536;

/// The most bytes of keys kept with the free turns: a client chooses the length of its key.
const MAX_KEY_BYTES: usize = 16 << 20;

/// The most turns of one key that a search examines. It bounds the time that a client can cost
/// others by abandoning many small turns.
const MAX_EXAMINED: usize = 64;

/// The most requests that move up at a time, for the same reason. Those behind them move up when
/// the next request comes, departs or leaves; no newcomer overtakes them.
const MAX_MOVED: usize = 64;

/// The turns of all keys of a queue.
#[derive(Default)]
pub(crate) struct QueueTurns {
    turns: Mutex<Turns>,
    /// The number of free turns, so that a request takes no lock while there are none.
    len: AtomicUsize,
    /// The latest departure that is or was free, in nanoseconds, also of other queues.
    latest: Arc<AtomicU64>,
    /// How often a debt was taken from a key of these queues, or of others that share this.
    change_count: Arc<AtomicU64>,
}

#[derive(Default)]
struct Turns {
    by_key: HashMap<Arc<[u8]>, Departures>,
    /// The free turns ordered by departure, to find those that have passed.
    by_time: BTreeSet<(Timestamp, Arc<[u8]>)>,
    /// The total length of the keys in `by_time`.
    key_bytes: usize,
}

/// The departures of one key.
#[derive(Default)]
struct Departures {
    /// With the units that each has room for.
    free: BTreeMap<Timestamp, u64>,
    waiting: BTreeMap<Timestamp, Waiter>,
}

/// A request that may move up.
struct Waiter {
    cost: u64,
    place: Arc<Place>,
}

/// Requests that have moved up, to be woken without a lock.
type Moved = Vec<Waker>;

impl QueueTurns {
    /// Turns that tell others the latest free departure, and how often debts were taken from keys.
    pub(crate) fn telling(latest: &Arc<AtomicU64>, change_count: &Arc<AtomicU64>) -> Arc<Self> {
        let (latest, change_count) = (Arc::clone(latest), Arc::clone(change_count));
        Arc::new(Self { latest, change_count, ..Self::default() })
    }

    /// Returns how often a debt was taken from a key. With it go the turns that were charged
    /// before.
    pub(crate) fn change_count(&self) -> u64 {
        self.change_count.load(Ordering::Acquire)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    /// Returns the turn of a request that the engine was charged for.
    pub(crate) fn charged(
        self: &Arc<Self>,
        key: &[u8],
        departure: Timestamp,
        cost: u64,
        change_count: u64,
    ) -> QueueTurn {
        let held = Held { departure, units: cost, is_own: true, waker: None };
        QueueTurn::new(Arc::clone(self), key.into(), cost, change_count, held)
    }

    /// Removes and returns the earliest free turn of `key` between `now` and `latest` that has room
    /// for `cost`, and for no request that waits behind it.
    pub(crate) fn claim(
        self: &Arc<Self>,
        key: &[u8],
        cost: u64,
        now: Timestamp,
        latest: Timestamp,
    ) -> Option<QueueTurn> {
        self.with_turns(now, |turns, _| {
            let (key, departures) = turns.by_key.get_key_value(key)?;
            let mut in_time = departures.free.range(..=latest).take(MAX_EXAMINED);
            let (&departure, &units) = in_time.find(|&(&departure, &units)| {
                units >= cost && departures.first_behind(departure, units).is_none()
            })?;
            let key = Arc::clone(key);
            turns.remove(departure, &key);
            let held = Held { departure, units, is_own: false, waker: None };
            // No debt is taken from a key of this queue now: that holds the lock.
            Some(QueueTurn::new(Arc::clone(self), key, cost, self.change_count(), held))
        })
    }

    /// Lets a request that waits move up.
    pub(super) fn wait(&self, turn: &mut QueueTurn, now: Timestamp) {
        self.with_turns(now, |turns, moved| {
            if turn.change_count == self.change_count() {
                let waiter = Waiter { cost: turn.cost, place: Arc::clone(&turn.place) };
                let departures = turns.by_key.entry(Arc::clone(&turn.key)).or_default();
                departures.waiting.insert(turn.departure(), waiter);
                turn.waits = true;
                turns.move_up(&turn.key, moved);
            }
        });
    }

    /// Lets a request move up no more.
    pub(super) fn withdraw(&self, key: &Arc<[u8]>, place: &Arc<Place>) {
        let mut turns = self.lock();
        let Some(departures) = turns.by_key.get_mut(key) else { return };
        let departure = place.lock().departure;
        if departures.waiting.get(&departure).is_some_and(|waiter| Arc::ptr_eq(&waiter.place, place)) {
            departures.waiting.remove(&departure);
        }
        turns.forget_if_empty(key);
    }

    /// Lets requests move up that could not before: they were too many.
    pub(super) fn move_up(&self, key: &Arc<[u8]>, now: Timestamp) {
        if !self.is_empty() {
            self.with_turns(now, |turns, moved| turns.move_up(key, moved));
        }
    }

    /// Frees a turn that the engine still counts, unless its departure has passed or a debt was
    /// taken from a key since. Those behind it move up.
    pub(super) fn offer(&self, turn: &QueueTurn, now: Timestamp) {
        let held = turn.place.lock().clone();
        self.with_turns(now, |turns, moved| {
            let is_current = turn.change_count == self.change_count() && held.departure >= now;
            if is_current && turns.have_room(&turn.key) {
                turns.insert(held.departure, Arc::clone(&turn.key), held.units);
                turns.move_up(&turn.key, moved);
            }
        });
    }

    /// Runs `act` on the turns, of which those that are free have not passed. Then it wakes those
    /// that have moved.
    fn with_turns<T>(&self, now: Timestamp, act: impl FnOnce(&mut Turns, &mut Moved) -> T) -> T {
        let (mut turns, mut moved) = (self.lock(), Moved::new());
        turns.remove_before(now);
        let result = act(&mut turns, &mut moved);
        self.len.store(turns.by_time.len(), Ordering::Relaxed);
        if let Some((last, _)) = turns.by_time.last() {
            self.latest.fetch_max(last.as_nanos(), Ordering::Relaxed);
        }
        drop(turns);
        moved.into_iter().for_each(Waker::wake);
        result
    }

    /// Runs `change`, which takes debt from a key. All turns are forgotten: those that clients
    /// abandoned, or hold now and abandon later. The engine may give them to new requests.
    pub(crate) fn change_debt<T>(&self, change: impl FnOnce() -> T) -> T {
        // Locked meanwhile, so that no turn that was charged before is claimed afterwards.
        let mut turns = self.lock();
        let result = change();
        *turns = Turns::default();
        self.len.store(0, Ordering::Relaxed);
        self.change_count.fetch_add(1, Ordering::Release);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        // A change that panics has not touched the turns.
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Departures {
    /// The departure of the first request that waits behind a free one, and has room in it.
    fn first_behind(&self, free: Timestamp, units: u64) -> Option<Timestamp> {
        let behind = self.waiting.range((Excluded(free), Unbounded)).take(MAX_EXAMINED);
        behind.into_iter().find(|(_, waiter)| waiter.cost <= units).map(|(departure, _)| *departure)
    }

    /// The first free departure that has room for a request behind it.
    fn first_to_fill(&self) -> Option<(Timestamp, u64)> {
        let mut free = self.free.iter().take(MAX_EXAMINED).map(|(&departure, &units)| (departure, units));
        free.find(|&(departure, units)| self.first_behind(departure, units).is_some())
    }
}

impl Turns {
    /// Moves requests up that wait behind a free departure, each to the one before it.
    fn move_up(&mut self, key: &Arc<[u8]>, moved: &mut Moved) {
        let Some(departures) = self.by_key.get_mut(key) else { return };
        let Some((first, room)) = departures.first_to_fill() else { return };
        let (mut free, mut units) = (first, room);
        for _ in 0..MAX_MOVED {
            let Some(behind) = departures.first_behind(free, units) else { break };
            let Some(waiter) = departures.waiting.remove(&behind) else { break };
            let mut held = waiter.place.lock();
            let own_units = held.units;
            (held.departure, held.units, held.is_own) = (free, units, false);
            moved.extend(held.waker.take());
            drop(held);
            departures.waiting.insert(free, waiter);
            (free, units) = (behind, own_units);
        }
        self.remove(first, key);
        self.insert(free, Arc::clone(key), units);
    }

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
        self.by_key.entry(key).or_default().free.insert(departure, units);
    }

    fn remove(&mut self, departure: Timestamp, key: &Arc<[u8]>) {
        if self.by_time.remove(&(departure, Arc::clone(key))) {
            self.key_bytes -= key.len();
        }
        if let Some(departures) = self.by_key.get_mut(key) {
            departures.free.remove(&departure);
        }
        self.forget_if_empty(key);
    }

    fn forget_if_empty(&mut self, key: &Arc<[u8]>) {
        if self.by_key.get(key).is_some_and(|of| of.free.is_empty() && of.waiting.is_empty()) {
            self.by_key.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(seconds)
    }

    /// A turn that its request was charged for.
    fn turn(turns: &Arc<QueueTurns>, key: &[u8], departure: u64, cost: u64) -> QueueTurn {
        turns.charged(key, at(departure), cost, 0)
    }

    /// Frees a turn.
    fn offer(turns: &Arc<QueueTurns>, key: &[u8], departure: u64, units: u64, now: u64) {
        turn(turns, key, departure, units).abandon(at(now));
    }

    /// A request that waits from the start.
    fn waiter(turns: &Arc<QueueTurns>, departure: u64, cost: u64) -> QueueTurn {
        let mut turn = turn(turns, b"a", departure, cost);
        turn.wait(at(0));
        turn
    }

    /// Claims a turn and returns its departure.
    fn claim(turns: &Arc<QueueTurns>, key: &[u8], cost: u64, now: u64, latest: u64) -> Option<Timestamp> {
        turns.claim(key, cost, at(now), at(latest)).map(|turn| turn.departure())
    }

    fn departures(waiting: &[QueueTurn]) -> Vec<u64> {
        waiting.iter().map(|turn| turn.departure().as_nanos() / 1_000_000_000).collect()
    }

    #[test]
    fn those_behind_move_up_and_a_newcomer_is_last() {
        let turns = Arc::default();
        let mut waiting: Vec<_> = (1..=5).map(|second| waiter(&turns, second, 1)).collect();
        waiting.remove(1).abandon(at(0));
        assert_eq!(departures(&waiting), [1, 2, 3, 4]);
        assert_eq!(waiting.iter().map(QueueTurn::is_own).collect::<Vec<_>>(), [true, false, false, false]);
        // One leaves that has moved up.
        waiting.remove(2).abandon(at(0));
        assert_eq!(departures(&waiting), [1, 2, 3]);
        assert_eq!([claim(&turns, b"a", 1, 0, 9), claim(&turns, b"a", 1, 0, 9)], [Some(at(4)), Some(at(5))]);
        assert!(turns.is_empty());
        drop(waiting);
        assert!(turns.lock().by_key.is_empty());
    }

    #[test]
    fn a_request_moves_up_only_where_it_has_room() {
        let turns = Arc::default();
        let mut waiting: Vec<_> = [(1, 1), (4, 3), (5, 1), (6, 1)]
            .into_iter()
            .map(|(second, cost)| waiter(&turns, second, cost))
            .collect();
        waiting.remove(0).abandon(at(0));
        assert_eq!(departures(&waiting), [4, 1, 5], "one of cost 3 cannot");
        waiting.remove(0).abandon(at(0));
        assert_eq!(departures(&waiting), [1, 4]);
        assert_eq!((waiting[1].units(), claim(&turns, b"a", 3, 0, 9)), (3, None));
        assert_eq!([claim(&turns, b"a", 1, 0, 9), claim(&turns, b"a", 1, 0, 9)], [Some(at(5)), Some(at(6))]);
    }

    #[test]
    fn many_that_wait_move_up_in_parts_before_newcomers() {
        let turns = Arc::default();
        let most = MAX_MOVED as u64;
        let mut waiting: Vec<_> = (1..=3 * most).map(|second| waiter(&turns, second, 1)).collect();
        waiting.remove(0).abandon(at(0));
        let moved = |waiting: &[QueueTurn]| waiting.iter().filter(|turn| !turn.is_own()).count();
        assert_eq!(moved(&waiting), MAX_MOVED);
        assert_eq!(claim(&turns, b"a", 1, 0, 9_999), None, "others wait behind it");
        waiting.remove(0).depart(at(1));
        assert_eq!(moved(&waiting), 2 * MAX_MOVED - 1);
        waiting.push(waiter(&turns, 3 * most + 1, 1));
        assert_eq!(departures(&waiting), (2..=3 * most).collect::<Vec<_>>());
        assert_eq!(claim(&turns, b"a", 1, 0, 9_999), Some(at(3 * most + 1)));
    }

    #[test]
    fn none_moves_up_to_a_departure_that_has_passed() {
        let turns = Arc::default();
        let mut waiting: Vec<_> = (1..=4).map(|second| waiter(&turns, second, 1)).collect();
        waiting.remove(0).abandon(at(2));
        assert_eq!(departures(&waiting), [2, 3, 4]);
        assert!(turns.is_empty());
        waiting.remove(0).abandon(at(2));
        assert_eq!(departures(&waiting), [2, 3]);
    }

    #[test]
    fn one_that_moves_up_is_woken() {
        let turns = Arc::default();
        let [first, second, third] = [1, 2, 3].map(|second| waiter(&turns, second, 1));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        [&first, &second].into_iter().for_each(|turn| turn.watch(&waker));
        third.abandon(at(0));
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        first.abandon(at(0));
        assert_eq!((second.departure(), woken.0.load(Ordering::Relaxed)), (at(1), 1));
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_earliest_turn_goes_once_to_its_own_key() {
        let turns = Arc::default();
        offer(&turns, b"a", 5, 1, 0);
        offer(&turns, b"a", 3, 1, 0);
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
        let turns = Arc::default();
        for number in 0..MAX_TURNS as u64 + 10 {
            offer(&turns, &number.to_le_bytes(), 1 + number % 2, 1, 0);
        }
        assert_eq!(turns.len.load(Ordering::Relaxed), MAX_TURNS);
        offer(&turns, b"a", 3, 1, 2);
        assert_eq!(turns.len.load(Ordering::Relaxed), MAX_TURNS / 2 + 1);
        assert_eq!(claim(&turns, b"unknown", 1, 3, 9), None);
        assert_eq!(turns.len.load(Ordering::Relaxed), 1, "a search forgets them too");
        offer(&turns, b"b", 2, 1, 3);
        assert_eq!(turns.lock().by_key.len(), 1);
    }

    #[test]
    fn the_bytes_of_kept_keys_are_bounded() {
        let turns = Arc::default();
        let (large, small) = (vec![0; MAX_KEY_BYTES / 4], [1]);
        for second in 1..=9 {
            offer(&turns, &large, second, 1, 0);
        }
        offer(&turns, &small, 5, 1, 0);
        assert_eq!(turns.len.load(Ordering::Relaxed), 4);
        // A turn that is claimed, or has passed, makes room.
        assert_eq!(claim(&turns, &large, 1, 1, 9), Some(at(1)));
        offer(&turns, &small, 5, 1, 3);
        offer(&turns, &large, 6, 1, 3);
        assert_eq!(turns.len.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn a_search_examines_a_bounded_number_of_turns() {
        let turns = Arc::default();
        (1..=MAX_EXAMINED as u64).for_each(|second| offer(&turns, b"a", second, 1, 0));
        offer(&turns, b"a", 1_000, 2, 0);
        assert_eq!(claim(&turns, b"a", 2, 0, 2_000), None);
        assert_eq!(claim(&turns, b"a", 2, 2, 2_000), Some(at(1_000)));
    }

    #[test]
    fn a_debt_that_is_taken_forgets_all_earlier_turns() {
        let turns = Arc::default();
        offer(&turns, b"a", 5, 1, 0);
        assert_eq!(turns.change_debt(|| 7), 7);
        assert_eq!(claim(&turns, b"a", 1, 0, 9), None);
        offer(&turns, b"a", 6, 1, 0);
        assert_eq!(claim(&turns, b"a", 1, 0, 9), None, "charged before the change");
        turns.charged(b"a", at(6), 1, turns.change_count()).abandon(at(0));
        assert_eq!(claim(&turns, b"a", 1, 0, 9), Some(at(6)));
    }
}
