//! The counters of rare events. `tests/behaviour/pitfalls` and `tests/behaviour/several.rs` test
//! those of full buckets.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use tollgate::{Clock, InFlightLimiter, Limiter, ManualClock, Rate, Stats, Timestamp, TokenBucket};

const PLENTY: TokenBucket = TokenBucket::new(Rate::per_second(1_000_000_000)).burst(1_000_000_000);

/// Runs `work` on four threads until `stats` shows contention.
fn meet(work: impl Fn() + Sync, stats: impl Fn() -> Stats) {
    let start = Instant::now();
    while stats().retried == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "four threads on one key never met");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50_000).for_each(|_| work()));
            }
        });
    }
}

#[test]
fn contention_between_threads_is_counted() {
    let limiter = Limiter::builder(PLENTY).per::<u64>().build().unwrap();
    (0..1_000).for_each(|_| assert!(limiter.check(1).is_allowed()));
    assert_eq!(limiter.stats().retried, 0, "one thread is in nobody's way");
    meet(|| assert!(limiter.check(1).is_allowed()), || limiter.stats());

    let several = Limiter::builder([PLENTY, PLENTY.burst(1_000_000)]).per::<u64>().build().unwrap();
    meet(|| drop(several.check(1)), || several.stats());

    let in_flight = InFlightLimiter::builder(100).per::<u64>().build().unwrap();
    meet(|| drop(in_flight.try_acquire(1)), || in_flight.stats());
}

/// A clock that goes a second ahead or back at every reading: 10, 11, 10.
struct Fickle(AtomicU64);

impl Clock for Fickle {
    fn now(&self) -> Timestamp {
        let reading = self.0.fetch_add(1, SeqCst);
        Timestamp::from_nanos((10 + reading % 2) * 1_000_000_000)
    }
}

#[test]
fn a_clock_that_steps_back_under_an_insertion_is_counted() {
    let builder = || Limiter::builder(PLENTY).per::<u64>();
    let limiter = builder().clock(Fickle(AtomicU64::new(0))).build().unwrap();
    // The two readings of the first new key go ahead. Those of the second, after one reading in
    // between, go back.
    assert!(limiter.check(1).is_allowed());
    let _ = limiter.now();
    assert!(limiter.check(2).is_allowed());
    let stepped = limiter.stats().clock_stepped_back;
    let steady = builder().clock(ManualClock::new()).build().unwrap();
    assert!(steady.check(1).is_allowed() && steady.check(2).is_allowed());
    assert_eq!((stepped, steady.stats().clock_stepped_back), (1, 0));
}

/// One limit has forgotten the key each time, the other has not.
#[test]
fn one_thread_is_not_in_its_own_way() {
    let clock = ManualClock::new();
    let limits = [TokenBucket::new(Rate::per_second(10)), TokenBucket::new(Rate::per_hour(100))];
    let limiter = Limiter::builder(limits).per::<u64>().clock(clock.clone()).build().unwrap();
    for _ in 0..10 {
        assert!((0..2_000).all(|key| limiter.check(key).is_allowed()));
        clock.advance(Duration::from_secs(2));
        assert!((2_000..4_000).all(|key| limiter.check(key).is_allowed()));
    }
    assert_eq!(limiter.stats().retried, 0);
}
