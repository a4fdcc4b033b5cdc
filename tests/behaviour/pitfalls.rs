//! Ten ways in which other limiters went wrong, each as a promise of this one.
//!
//! The comment of a test says which limiter goes wrong there. Pitfalls of interleavings belong to `loom-tests`, those of
//! volume to `tests/threads/stress`, and those of one verb to the file of that verb.

mod clocks;
mod degenerate;
mod eviction;
mod kept;
mod remainders;
mod waits;
mod windows;

use std::time::Duration;

use tollgate::{Algorithm, GlobalLimiter, ManualClock, Rate, Timestamp, TokenBucket};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The uptime that every limit accepted must stand.
const UPTIME: u64 = 10 * 31_557_600 * SECOND;

/// `count` in `nanos` nanoseconds.
fn per(count: u64, nanos: u64) -> Rate {
    Rate::new(count, Duration::from_nanos(nanos))
}

/// A token bucket of `count` a second.
fn bucket(count: u64, burst: u64) -> TokenBucket {
    TokenBucket::new(Rate::per_second(count)).burst(burst)
}

/// One limit; every call brings its own time.
struct One<A: Algorithm>(GlobalLimiter<A, ManualClock>);

impl<A: Algorithm> One<A> {
    fn new(quota: A) -> Self {
        Self(GlobalLimiter::builder(quota).clock(ManualClock::new()).build().unwrap())
    }

    fn check(&self, at: u64) -> bool {
        self.check_n(at, 1)
    }

    fn check_n(&self, at: u64, cost: u64) -> bool {
        self.0.check_n_at(cost, Timestamp::from_nanos(at)).is_allowed()
    }

    /// The wait told to a request of this cost, looked at only; `None` if it would pass.
    fn wait(&self, at: u64, cost: u64) -> Option<u64> {
        let wait = self.0.peek_n_at(cost, Timestamp::from_nanos(at)).retry_after();
        wait.map(|wait| u64::try_from(wait.as_nanos()).unwrap())
    }

    fn remaining(&self, at: u64) -> u64 {
        self.0.peek_n_at(0, Timestamp::from_nanos(at)).remaining()
    }

    /// How many requests of cost 1 pass at this moment, before one is refused; looks no further than 1000.
    fn drain(&self, at: u64) -> u64 {
        (0..1_000).take_while(|_| self.check(at)).count() as u64
    }
}
