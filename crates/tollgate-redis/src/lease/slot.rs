//! The leases of one key in this process, and who waits for permits.
//!
//! ```text
//!   check ---- permits are left ------------------------------------> admitted
//!     |
//!     +------- a trip is under way and has room --> waits for it ---> admitted, or refused
//!     |
//!     +------- one permit is asked for, or no room -----------------> a strict check
//!     |
//!     +------- begins a trip for n permits and waits for it
//!
//!   lease:   sent ....... granted ... spent, spent, spent ... sent + ttl: the rest goes back
//!                                           half is spent: the next trip leaves
//! ```
//!
//! Everything here is told the time and sends nothing: the limiter and the simulation run it. A
//! waiting request is a `W`.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use super::pace::Pace;
use super::permits::{Ended, Generation, Permits, Spent, Terms};
use crate::deny::Fingerprint;

/// The settings of a limiter's leases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) ttl: Duration,
    pub(crate) limit: u64,
    pub(crate) nodes: u32,
}

/// A key's leases: one that is spent, and the next one, asked for ahead.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Slot<W> {
    key: AtomicU64,
    /// Which lease is spent first: its end comes first.
    first: AtomicUsize,
    leases: [Permits; 2],
    /// Never locked across an await, nor where permits are left.
    state: Mutex<State<W>>,
}

#[derive(Debug)]
struct State<W> {
    pace: Pace,
    /// Which lease was granted last, and how many permits.
    newest: (usize, u64),
    /// When the last request came that found no permits.
    asked: Duration,
    trip: Option<Trip<W>>,
}

/// A trip to the store that is under way.
#[derive(Debug)]
struct Trip<W> {
    asked: u64,
    /// The requests that wait, with their costs: no more than it asks for.
    waiting: Vec<(u64, W)>,
    promised: u64,
    /// Whether the key was reset meanwhile: what the trip brings may be from before.
    is_void: bool,
}

/// How a request that found no permits goes on.
#[derive(Debug)]
pub(crate) enum Asked<R> {
    /// Another thread has brought permits meanwhile.
    Spent(usize, Spent),
    /// It waits for a trip that is under way.
    Waits(R),
    /// It begins a trip for at least its own cost and at most this many permits, and waits for it.
    Begins(u64, R),
    /// A strict check decides.
    Strict,
}

/// Which lease a permit is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) lease: usize,
    pub(crate) generation: Generation,
}

/// Where the permits of a trip are.
#[derive(Debug)]
pub(crate) enum Kept {
    /// This lease has them. The rest of the lease before it has lapsed.
    Lease(Place, Ended),
    /// They came after their end, or after a reset.
    Late,
}

impl<W> Slot<W> {
    pub(crate) fn new(rules: &Rules) -> Self {
        let state = State {
            pace: Pace::new(rules.limit, rules.nodes),
            newest: (0, 0),
            asked: Duration::ZERO,
            trip: None,
        };
        Self { key: 0.into(), first: 0.into(), leases: Default::default(), state: state.into() }
    }

    pub(crate) fn is_of(&self, key: Fingerprint) -> bool {
        self.key.load(Acquire) == key
    }

    /// Gives the slot to a key, if the one that has it is idle: no trip, no permits, and no request
    /// for a ttl. False if it is not idle.
    pub(crate) fn give(&self, key: Fingerprint, rules: &Rules, now: Duration) -> bool {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let is_free = self.is_of(0);
        let is_busy = state.trip.is_some() || now < state.asked + rules.ttl;
        if !is_free && (is_busy || self.leases.iter().any(|lease| lease.left(now) > 0)) {
            return false;
        }
        state.pace = Pace::new(rules.limit, rules.nodes);
        (state.asked, state.newest) = (now, (0, 0));
        self.key.store(key, Release);
        true
    }

    /// Spends permits that this process holds.
    pub(crate) fn spend(&self, key: Fingerprint, cost: u64, now: Duration) -> Option<(usize, Spent)> {
        let first = self.first.load(Relaxed) % 2;
        let spend = |lease: usize| Some((lease, self.leases[lease].spend(key, cost, now)?));
        spend(first).or_else(|| spend(1 - first))
    }

    /// Decides how a request that found no permits goes on. `wait` makes the two ends by which it
    /// waits.
    pub(crate) fn ask<R>(
        &self,
        key: Fingerprint,
        cost: u64,
        now: Duration,
        rules: &Rules,
        wait: impl FnOnce() -> (W, R),
    ) -> Asked<R> {
        let mut state = self.lock();
        if !self.is_of(key) {
            return Asked::Strict;
        }
        if let Some((lease, spent)) = self.spend(key, cost, now) {
            return Asked::Spent(lease, spent);
        }
        state.asked = state.asked.max(now);
        if let Some(trip) = &mut state.trip {
            // Beyond what it asks for, a request would wait for the next one, and the one after.
            if trip.promised + cost > trip.asked {
                return Asked::Strict;
            }
            let (waiting, answer) = wait();
            trip.promised += cost;
            trip.waiting.push((cost, waiting));
            return Asked::Waits(answer);
        }
        let permits = self.next(&mut state, now, rules);
        if permits <= cost || !self.has_room(now) {
            // The permits of a strict check are spent at once.
            state.pace.granted(now, cost, cost);
            state.newest = (0, 0);
            return Asked::Strict;
        }
        let (waiting, answer) = wait();
        state.trip =
            Some(Trip { asked: permits, waiting: vec![(cost, waiting)], promised: cost, is_void: false });
        Asked::Begins(permits, answer)
    }

    /// Begins a trip although permits are left, when half are spent: for how many permits.
    pub(crate) fn ask_ahead(
        &self,
        key: Fingerprint,
        spent: &Spent,
        now: Duration,
        rules: &Rules,
    ) -> Option<u64> {
        // Another thread that has the lock does it, or the next request.
        let mut state = self.state.try_lock().ok()?;
        let may = state.trip.is_none() && self.is_of(key) && self.has_room(now);
        if !may || !state.pace.asks_ahead(spent.size) {
            return None;
        }
        let permits = self.next(&mut state, now, rules);
        state.trip = Some(Trip { asked: permits, waiting: Vec::new(), promised: 0, is_void: false });
        Some(permits)
    }

    /// A strict check of this key was refused.
    pub(crate) fn refused_strictly(&self, key: Fingerprint) {
        let mut state = self.lock();
        if self.is_of(key) {
            state.pace.refused();
        }
    }

    /// The trip that was sent at `sent` has brought `granted` permits. A lease keeps them; each
    /// waiting request gets its own, in turn, as long as they last. `tell` says whether the request
    /// is still there.
    pub(crate) fn granted(
        &self,
        key: Fingerprint,
        granted: u64,
        (sent, now): (Duration, Duration),
        terms: Terms,
        mut tell: impl FnMut(W, Option<Place>) -> bool,
    ) -> Kept {
        let mut state = self.lock();
        let trip = state.trip.take();
        let is_void = trip.as_ref().is_some_and(|trip| trip.is_void);
        let (asked, waiting) = trip.map_or((granted, Vec::new()), |trip| (trip.asked, trip.waiting));
        state.pace.granted(sent, asked, granted);
        if is_void || now >= terms.until {
            state.pace.lapsed();
            state.newest = (0, 0);
            for (_, waiting) in waiting {
                tell(waiting, None);
            }
            return Kept::Late;
        }
        let mut left = granted;
        let has = |cost: u64| left.checked_sub(cost).map(|rest| left = rest).is_some();
        let served: Vec<bool> = waiting.iter().map(|(cost, _)| *cost).map(has).collect();
        let lease = self.emptier(now);
        let (generation, before) = self.leases[lease].open(key, granted, left, terms);
        let place = Place { lease, generation };
        state.newest = (lease, granted);
        self.first.store(1 - lease, Relaxed);
        for ((cost, waiting), served) in waiting.into_iter().zip(served) {
            if !tell(waiting, served.then_some(place)) && served {
                self.leases[lease].put_back(generation, cost, now);
            }
        }
        Kept::Lease(place, before)
    }

    /// The trip has brought no permits; returns the requests that waited for it.
    pub(crate) fn not_granted(&self) -> Vec<W> {
        let mut state = self.lock();
        let Some(trip) = state.trip.take() else { return Vec::new() };
        state.pace.refused();
        trip.waiting.into_iter().map(|(_, waiting)| waiting).collect()
    }

    /// Closes a lease at the end of its ttl. `None` if it has ended before.
    pub(crate) fn close(&self, place: Place) -> Option<Ended> {
        let mut state = self.lock();
        let ended = self.leases[place.lease % 2].close(place.generation)?;
        if ended.left > 0 {
            state.pace.lapsed();
        }
        Some(ended)
    }

    /// Ends the leases of a key: its permits are void, also those on their way. A request that
    /// waits for them is told so when its `W` is dropped.
    pub(crate) fn end(&self, key: Fingerprint) -> Ended {
        let mut state = self.lock();
        if let Some(trip) = state.trip.as_mut().filter(|_| self.is_of(key)) {
            (trip.is_void, trip.promised) = (true, trip.asked);
            trip.waiting.clear();
        }
        let [one, other] = self.leases.each_ref().map(|lease| lease.close_if_of(key));
        Ended { spent: one.spent + other.spent, left: one.left + other.left }
    }

    /// Gives spent permits back to their lease. False if that has ended.
    pub(crate) fn put_back(&self, place: Place, cost: u64, now: Duration) -> bool {
        self.leases[place.lease % 2].put_back(place.generation, cost, now)
    }

    /// How many permits the next trip asks for.
    fn next(&self, state: &mut State<W>, now: Duration, rules: &Rules) -> u64 {
        let (newest, size) = state.newest;
        let left = self.leases[newest].left(now).min(size);
        state.pace.next(now, rules.ttl, left)
    }

    /// Whether a lease can be opened without ending one that has permits.
    fn has_room(&self, now: Duration) -> bool {
        self.leases[self.emptier(now)].left(now) == 0
    }

    fn emptier(&self, now: Duration) -> usize {
        usize::from(self.leases[1].left(now) < self.leases[0].left(now))
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        // What it protects is whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { ttl: Duration::from_millis(50), limit: 1_000, nodes: 1 };
    const KEY: Fingerprint = 7;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A slot whose next trip asks for 4 permits, at 2 ms.
    fn warm() -> Slot<u8> {
        let slot = Slot::new(&RULES);
        assert!(slot.give(KEY, &RULES, ms(0)));
        assert!(matches!(ask(&slot, 0, ms(0)), Asked::Strict));
        assert!(matches!(ask(&slot, 1, ms(1)), Asked::Begins(2, ())));
        let _ = grant(&slot, 2, ms(1), ms(1));
        assert!(slot.spend(KEY, 1, ms(2)).is_some());
        slot
    }

    /// All that is granted is used by the one who waits, or kept.
    fn grant(slot: &Slot<u8>, permits: u64, sent: Duration, now: Duration) -> Place {
        match slot.granted(KEY, permits, (sent, now), terms(sent), |_, place| place.is_some()) {
            Kept::Lease(place, _) => place,
            Kept::Late => panic!("late"),
        }
    }

    fn ask(slot: &Slot<u8>, waiting: u8, now: Duration) -> Asked<()> {
        slot.ask(KEY, 1, now, &RULES, || (waiting, ()))
    }

    fn terms(sent: Duration) -> Terms {
        Terms { until: sent + RULES.ttl, ..Terms::default() }
    }

    #[test]
    fn waiting_checks_share_one_trip() {
        let slot = warm();
        assert!(matches!(ask(&slot, 1, ms(2)), Asked::Begins(4, ())));
        for waiting in 2..=4 {
            assert!(matches!(ask(&slot, waiting, ms(2)), Asked::Waits(())));
        }
        assert!(matches!(ask(&slot, 5, ms(2)), Asked::Strict), "it asks for four");
        let mut told = Vec::new();
        let kept = slot.granted(KEY, 3, (ms(2), ms(3)), terms(ms(2)), |waiting, place| {
            told.push((waiting, place.is_some()));
            // The second one's caller has gone away.
            waiting != 2
        });
        assert_eq!(told, [(1, true), (2, true), (3, true), (4, false)]);
        let Kept::Lease(place, _) = kept else { panic!("late") };
        assert_eq!(slot.close(place), Some(Ended { spent: 2, left: 1 }));
    }

    #[test]
    fn what_the_waiting_do_not_need_is_a_lease() {
        let slot = warm();
        assert!(matches!(ask(&slot, 1, ms(2)), Asked::Begins(4, ())));
        let place = grant(&slot, 4, ms(2), ms(3));
        for left in [2, 1, 0] {
            assert_eq!(slot.spend(KEY, 1, ms(51)).unwrap().1.left, left);
        }
        assert!(slot.spend(KEY, 1, ms(51)).is_none());
        assert_eq!(slot.close(place), Some(Ended { spent: 4, left: 0 }));
    }

    #[test]
    fn permits_that_come_after_their_end_are_not_used() {
        let slot = warm();
        assert!(matches!(ask(&slot, 1, ms(2)), Asked::Begins(4, ())));
        let kept = slot.granted(KEY, 4, (ms(2), ms(52)), terms(ms(2)), |_, place| {
            assert!(place.is_none());
            true
        });
        assert!(matches!(kept, Kept::Late) && slot.spend(KEY, 1, ms(52)).is_none());
    }

    #[test]
    fn a_busy_key_keeps_its_slot() {
        let slot = warm();
        assert!(!slot.give(8, &RULES, ms(50)), "a request came 50 ms ago");
        assert!(matches!(ask(&slot, 1, ms(10)), Asked::Begins(4, ())));
        assert!(!slot.give(8, &RULES, ms(200)), "a trip is under way");
        let _ = grant(&slot, 4, ms(199), ms(200));
        assert!(!slot.give(8, &RULES, ms(248)), "permits are left");
        assert!(slot.give(8, &RULES, ms(249)) && !slot.is_of(KEY));
        assert!(matches!(ask(&slot, 1, ms(249)), Asked::Strict), "it is another key's");
    }

    #[test]
    fn the_next_permits_are_asked_for_when_half_are_spent() {
        let slot = warm();
        for (size, now) in [(4, 2), (8, 3), (16, 4)] {
            assert!(matches!(ask(&slot, 1, ms(now)), Asked::Begins(asked, ()) if asked == size));
            let _ = grant(&slot, size, ms(now), ms(now));
            if size == 16 {
                break;
            }
            while slot.spend(KEY, 1, ms(now)).is_some() {}
        }
        let mut ahead = Vec::new();
        while let Some((_, spent)) = slot.spend(KEY, 1, ms(5)) {
            let asked = spent.passes_half(1).then(|| slot.ask_ahead(KEY, &spent, ms(5), &RULES));
            ahead.extend(asked.flatten().map(|asked| (spent.left, asked)));
            if ahead.len() == 1 && spent.left == 4 {
                let _ = grant(&slot, 32, ms(5), ms(6));
                assert_eq!(slot.spend(KEY, 1, ms(6)).unwrap().1.left, 3, "the older ones first");
            }
        }
        assert_eq!(ahead, [(8, 32), (16, 64)]);
    }

    #[test]
    fn a_reset_voids_the_permits_on_their_way() {
        let slot = warm();
        assert!(matches!(ask(&slot, 1, ms(2)), Asked::Begins(4, ())));
        let _ = slot.end(KEY);
        assert!(matches!(ask(&slot, 2, ms(3)), Asked::Strict), "nothing is worth waiting for");
        let kept = slot.granted(KEY, 4, (ms(2), ms(3)), terms(ms(2)), |_, _| unreachable!("none waits"));
        assert!(matches!(kept, Kept::Late) && slot.spend(KEY, 1, ms(3)).is_none());
        assert!(matches!(ask(&slot, 1, ms(4)), Asked::Begins(..)), "the next trip is another one");
    }

    #[test]
    fn a_reset_ends_the_leases() {
        let slot = warm();
        assert!(matches!(ask(&slot, 1, ms(2)), Asked::Begins(4, ())));
        let place = grant(&slot, 4, ms(2), ms(3));
        let (lease, spent) = slot.spend(KEY, 1, ms(4)).unwrap();
        assert_eq!(slot.end(KEY).left, 2);
        assert!(slot.spend(KEY, 1, ms(4)).is_none());
        assert!(slot.close(place).is_none(), "nothing is given back");
        assert!(!slot.put_back(Place { lease, generation: spent.generation }, 1, ms(4)));
    }
}
