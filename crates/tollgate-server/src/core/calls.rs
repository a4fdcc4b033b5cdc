//! The keys of `CL.THROTTLE`, of which there are never more than so many.
//!
//! A table has room for more keys than it is built for. So the keys in debt are counted, by a
//! number that may be too high: a key that is new adds one, and one whose debt has run out takes
//! none away. Before the number reaches the bound, the table is counted.
//!
//! ```text
//!   large table:   0                         3/4 of it                 1,024 before its bound
//!                  |  new keys come at once  |  one by one, and the    |  no new keys
//!                  |                         |  table is counted       |
//!                  |                         |  beside the calls       |
//!   small table:                             0                         its bound
//! ```
//!
//! The number may be too low by the new keys that came at once, and are charged and not yet added.
//! They are one a thread: the last 1,024 keys of a large table are theirs.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use crossbeam::utils::CachePadded;
use tollgate::{Account, BuildError, Builder, CallQuota, Decision, Lent, Limiter, Timestamp};

use crate::clock::ServerClock;

/// A limiter whose quotas come with the calls.
pub(crate) type CallLimiter = Limiter<[u8], CallQuota, 1, ServerClock>;

/// A key of a call that is decided at the time of `T`.
pub(crate) type CallKey<'l, T = Timestamp> = Account<'l, CallQuota, 1, ServerClock, T>;

/// There is no room for the key of a call, and nothing was charged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full {
    /// How many keys are in debt: this number may be too high.
    pub(crate) keys: usize,
}

/// The limiter of `CL.THROTTLE`, which is exchanged for a new one when all keys are forgotten.
pub(crate) struct Calls {
    room: ArcSwap<Room>,
    clock: ServerClock,
    max_keys: usize,
}

/// A limiter, and the number of its keys.
pub(crate) struct Room {
    limiter: CallLimiter,
    is_small: bool,
    /// From this number on, new keys come one by one.
    one_by_one: usize,
    /// From this number on, there are no new keys.
    most: usize,
    /// Never less than there are keys in debt, but for those of calls that are being decided.
    ///
    /// Relaxed: the threads that add to it near the bound hold `near`.
    keys: CachePadded<AtomicUsize>,
    near: Mutex<Near>,
    own: Weak<Self>,
}

/// What concerns a number that is near the bound.
#[derive(Default)]
struct Near {
    /// When a count ended, and how long it took.
    counted: Option<(Instant, Duration)>,
    /// Whether one is under way on a thread of its own.
    is_counting: bool,
}

/// The answer to a call.
pub(crate) type Decided<'q> = Result<Decision<'q>, Full>;

/// The calls that may be decided at the same time: `--threads` is no more.
const AT_ONCE: usize = 1_024;

/// The most keys of a small table. A larger one is counted on a thread of its own.
const SMALL: usize = 1 << 16;

/// The part of the time that counts at the bound take at most.
const PART: u32 = 20;

impl Calls {
    pub(super) fn new(max_keys: usize, clock: ServerClock) -> Result<Self, BuildError> {
        let room = Room::new(build(max_keys, &clock)?, max_keys, 0);
        Ok(Self { room: ArcSwap::new(room), clock, max_keys })
    }

    /// The limiter, for one batch of calls.
    pub(crate) fn load(&self) -> Guard<Arc<Room>> {
        self.room.load()
    }

    /// Forgets all keys. A call that is decided meanwhile may be forgotten, too.
    ///
    /// It frees the old table: not for a thread of the runtime.
    pub(crate) fn clear(&self) -> Result<(), BuildError> {
        self.room.store(Room::new(build(self.max_keys, &self.clock)?, self.max_keys, 0));
        Ok(())
    }

    /// Puts another limiter in its place, as one whose state was restored.
    pub(crate) fn put(&self, limiter: CallLimiter) {
        let keys = limiter.usage().live_keys;
        self.room.store(Room::new(limiter, self.max_keys, keys));
    }
}

fn build(max_keys: usize, clock: &ServerClock) -> Result<CallLimiter, BuildError> {
    call_builder(max_keys, clock).build()
}

/// The settings of a limiter of calls. Each call brings its quota, so the limiter's own is any.
pub(crate) fn call_builder(max_keys: usize, clock: &ServerClock) -> Builder<[u8], CallQuota, 1, ServerClock> {
    let Ok(any) = CallQuota::from_nanos(1, 1) else { unreachable!("a nanosecond is in range") };
    Limiter::builder(any).per().max_keys(max_keys).clock(Arc::clone(clock))
}

impl Room {
    fn new(limiter: CallLimiter, bound: usize, keys: usize) -> Arc<Self> {
        let is_small = bound <= SMALL;
        let (one_by_one, most) = if is_small { (0, bound) } else { (bound - bound / 4, bound - AT_ONCE) };
        let (keys, near) = (CachePadded::new(AtomicUsize::new(keys)), Mutex::default());
        Arc::new_cyclic(|own| Self { limiter, is_small, one_by_one, most, keys, near, own: Weak::clone(own) })
    }

    /// Decides a call, and charges its key this many nanoseconds if it is admitted. `quota` has
    /// them as its emission interval.
    ///
    /// **Cost.** As of the limiter, and one load; of a new key, one addition. In a small table and
    /// near the bound, a peek more, and a new key takes a lock.
    ///
    /// # Errors
    ///
    /// [`Full`]: the limiter has no slot for the key, or the key is new, and one too many.
    #[inline]
    pub(crate) fn decide<'l: 'q, 'q>(&self, key: CallKey<'l>, quota: &'q Lent, charge: u64) -> Decided<'q> {
        if self.keys.load(Relaxed) >= self.one_by_one {
            return self.check_near(key, quota, charge);
        }
        self.check_counted(key, quota, charge)
    }

    /// Checks a key, and counts it if it is new.
    #[inline]
    fn check_counted<'l: 'q, 'q>(&self, key: CallKey<'l>, quota: &'q Lent, charge: u64) -> Decided<'q> {
        let decision = self.found(key.under(quota).check())?;
        if is_new(&decision, charge) {
            self.keys.fetch_add(1, Relaxed);
        }
        Ok(decision)
    }

    #[cold]
    #[inline(never)]
    fn check_near<'l: 'q, 'q>(&self, key: CallKey<'l>, quota: &'q Lent, charge: u64) -> Decided<'q> {
        if !self.found(key.under(quota).peek_n(0))?.reset_after().is_zero() {
            // It may be new all the same: it was forgotten meanwhile.
            return self.check_counted(key, quota, charge);
        }
        let mut near = self.lock();
        self.count(&mut near);
        if self.keys.load(Relaxed) >= self.most {
            return Err(self.full());
        }
        // Before the key is there: a count must not miss it.
        self.keys.fetch_add(1, Relaxed);
        let decided = self.check_counted(key, quota, charge);
        // It was counted once more, or is no new key.
        self.keys.fetch_sub(1, Relaxed);
        decided
    }

    /// The decision, if its key has a slot or may have one.
    #[inline]
    pub(crate) fn found<'q>(&self, decision: Decision<'q>) -> Decided<'q> {
        if decision.is_full() { Err(self.full()) } else { Ok(decision) }
    }

    #[cold]
    fn full(&self) -> Full {
        Full { keys: self.keys.load(Relaxed) }
    }

    /// Counts the keys where it is time to: a small table at the bound, a large one before it.
    fn count(&self, near: &mut Near) {
        let is_early = near.counted.is_some_and(|(ended, took)| ended.elapsed() < took * PART);
        if near.is_counting || is_early || (self.is_small && self.keys.load(Relaxed) < self.most) {
            return;
        }
        let (begun, before) = (Instant::now(), self.keys.load(Relaxed));
        if self.is_small {
            self.counted(before, self.limiter.usage().live_keys);
            near.counted = Some((Instant::now(), begun.elapsed()));
            return;
        }
        let Some(own) = self.own.upgrade() else { return };
        let counts = move || {
            let live = own.limiter.usage().live_keys;
            let mut near = own.lock();
            own.counted(before, live);
            *near = Near { counted: Some((Instant::now(), begun.elapsed())), is_counting: false };
        };
        // Without a thread the number stays: new keys are refused too early, and none too late.
        near.is_counting = std::thread::Builder::new().name("tollgate-keys".into()).spawn(counts).is_ok();
    }

    /// The table had this many keys, beside those that were added since the number was `before`.
    fn counted(&self, before: usize, live: usize) {
        let since = |now: usize| Some(live + now.saturating_sub(before));
        // It always succeeds.
        let _ = self.keys.fetch_update(Relaxed, Relaxed, since);
    }

    fn lock(&self) -> MutexGuard<'_, Near> {
        self.near.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the call was charged to a key without debt.
fn is_new(decision: &Decision<'_>, charge: u64) -> bool {
    decision.is_allowed() && decision.reset_after().as_nanos() == u128::from(charge)
}

impl Deref for Room {
    type Target = CallLimiter;

    fn deref(&self) -> &CallLimiter {
        &self.limiter
    }
}

#[cfg(test)]
mod tests {
    use tollgate::ManualClock;

    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    /// How many of these keys are admitted, once each.
    fn admitted(room: &Room, keys: std::ops::Range<u64>) -> usize {
        let quota = CallQuota::from_nanos(HOUR, HOUR).unwrap().lend();
        let admits = |key: &u64| {
            let key = room.account(&key.to_be_bytes()[..]).at(room.now());
            room.decide(key, &quota, HOUR).is_ok_and(|decision| decision.is_allowed())
        };
        keys.filter(admits).count()
    }

    #[test]
    fn there_are_never_more_keys_than_the_bound() {
        for most in [1, 7, 1_000, 5_000] {
            let clock = Arc::new(ManualClock::new());
            let calls = Calls::new(most, Arc::clone(&clock) as ServerClock).unwrap();
            let loaded = calls.load();
            let room: &Room = &loaded;
            let threads: Vec<usize> = std::thread::scope(|scope| {
                let own = |thread: u64| thread * 1_000_000..thread * 1_000_000 + 2_000;
                let spawned: Vec<_> =
                    (0..4).map(|thread| scope.spawn(move || admitted(room, own(thread)))).collect();
                spawned.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let sum: usize = threads.iter().sum();
            assert_eq!(room.usage().live_keys, sum);
            // A bucket of the table may be full before.
            assert!(sum <= most && sum * 100 >= most * 98, "{sum} of {most}");
            // Known keys go on, and keys that owe nothing any more make room.
            clock.advance(Duration::from_nanos(HOUR + 1));
            let counted = room.lock().counted;
            if let Some((ended, took)) = counted {
                std::thread::sleep((took * PART).saturating_sub(ended.elapsed()));
            }
            let again = admitted(room, 9_000_000..9_010_000);
            assert!(again <= most && again * 100 >= most * 98, "{again} of {most} again");
        }
    }

    #[test]
    fn large_tables_keep_places_for_keys_that_come_at_once() {
        let bound = SMALL + 5_000;
        let calls = Calls::new(bound, Arc::new(ManualClock::new())).unwrap();
        let found = admitted(&calls.load(), 0..2 * bound as u64);
        // A key that comes while the table is counted may be counted twice.
        assert!(found <= bound - AT_ONCE && found * 100 >= bound * 85, "{found} of {bound}");
    }

    #[test]
    fn a_large_table_is_counted_before_its_bound() {
        let (most, clock) = (SMALL + 40_000, Arc::new(ManualClock::new()));
        let calls = Calls::new(most, Arc::clone(&clock) as ServerClock).unwrap();
        let room = calls.load();
        for begin in [0, 1_000_000, 2_000_000] {
            let found = admitted(&room, begin..begin + 90_000);
            assert!(found > 89_000, "{found} from {begin}");
            clock.advance(Duration::from_nanos(HOUR + 1));
            let (begun, mut next) = (Instant::now(), begin + 500_000);
            while room.keys.load(Relaxed) > most / 2 {
                assert!(begun.elapsed() < Duration::from_secs(20), "{}", room.keys.load(Relaxed));
                assert_eq!(admitted(&room, next..next + 1), 1, "there is room meanwhile");
                next += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
