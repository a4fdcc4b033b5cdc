//! A clock that moves only when it is told to.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use crate::time::{Timestamp, nanos};

/// A clock for tests, simulations and replays: it moves when told to. Clones share one time.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, Rate, TokenBucket};
///
/// let clock = ManualClock::new();
/// let quota = TokenBucket::new(Rate::per_second(1));
/// let limiter = Limiter::builder(quota).per::<u64>().clock(clock.clone()).build()?;
/// assert!(limiter.check(&7).is_allowed());
/// assert!(!limiter.check(&7).is_allowed());
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.check(&7).is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    now: Arc<AtomicU64>,
    unix_at_zero: Duration,
}

impl ManualClock {
    /// A clock that shows [`Timestamp::ZERO`].
    #[must_use]
    pub fn new() -> Self {
        Self::starting_at(Duration::ZERO)
    }

    /// A clock that shows [`Timestamp::ZERO`], which is this Unix time.
    #[must_use]
    pub fn starting_at(unix: Duration) -> Self {
        Self { now: Arc::new(AtomicU64::new(0)), unix_at_zero: unix }
    }

    /// Moves the clock ahead, at most to its end.
    pub fn advance(&self, by: Duration) {
        // Never an error: the update always returns a value.
        let _ = self.now.fetch_update(Relaxed, Relaxed, |now| Some(now.saturating_add(nanos(by))));
    }

    /// Sets the clock, ahead or back.
    pub fn set(&self, now: Timestamp) {
        self.now.store(now.as_nanos(), Relaxed);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now.load(Relaxed))
    }

    /// Looks every millisecond whether the clock has been moved that far.
    fn sleep_until(&self, when: Timestamp) {
        while self.now() < when {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn unix_at_zero(&self) -> Duration {
        self.unix_at_zero
    }
}
