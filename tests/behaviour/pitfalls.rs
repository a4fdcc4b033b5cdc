//! Ten defects of other limiters, each as a promise of this one.
//!
//! The comment of a test names the limiter with the defect. Pitfalls of interleavings are in
//! `loom-tests`, of volume in `tests/threads/stress`, and of one verb in the file of that verb.

mod clocks;
mod degenerate;
mod eviction;
mod kept;
mod remainders;
mod waits;
mod windows;

use std::time::Duration;

use tollgate::{Algorithm, GlobalLimiter, Limiter, ManualClock, Rate, Timestamp, TokenBucket};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Every accepted limit must support this uptime.
const UPTIME: u64 = 10 * 31_557_600 * SECOND;

/// `count` in `nanos` nanoseconds.
fn per(count: u64, nanos: u64) -> Rate {
    Rate::new(count, Duration::from_nanos(nanos))
}

/// A token bucket of `count` a second.
fn bucket(count: u64, burst: u64) -> TokenBucket {
    TokenBucket::new(Rate::per_second(count)).burst(burst)
}

/// One limit; each call passes its own time.
struct One<A: Algorithm>(GlobalLimiter<A, 1, ManualClock>);

impl<A: Algorithm> One<A> {
    fn new(quota: A) -> Self {
        Self(Limiter::builder(quota).clock(ManualClock::new()).build().unwrap())
    }

    fn check(&self, at: u64) -> bool {
        self.check_n(at, 1)
    }

    fn check_n(&self, at: u64, cost: u64) -> bool {
        self.0.account(()).at(Timestamp::from_nanos(at)).check_n(cost).is_allowed()
    }

    /// Returns the wait of a request, from a peek; `None` if it would be admitted.
    fn wait(&self, at: u64, cost: u64) -> Option<u64> {
        let wait = self.0.account(()).at(Timestamp::from_nanos(at)).peek_n(cost).retry_after();
        wait.map(|wait| u64::try_from(wait.as_nanos()).unwrap())
    }

    fn remaining(&self, at: u64) -> u64 {
        self.0.account(()).at(Timestamp::from_nanos(at)).peek_n(0).remaining()
    }

    /// Returns how many requests of cost 1 are admitted at `at`, 1000 at most.
    fn drain(&self, at: u64) -> u64 {
        (0..1_000).take_while(|_| self.check(at)).count() as u64
    }
}
