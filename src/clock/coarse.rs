//! A clock that a thread keeps up to date, so that reading it costs one load.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::clock::{Clock, SystemClock};
use crate::error::{BuildError, within};
use crate::sync::{AtomicU64, Ordering::Relaxed};
use crate::time::Timestamp;

/// A clock that a thread of its own refreshes every `period`. Reading it is one load.
///
/// The time it shows is up to `period` (and the scheduler's delay) old, and never steps back. A
/// request is decided as if it had come that much earlier, so tokens come late and never early.
/// Dropping the last clone stops the thread and waits for its end; a limiter that owns the clock
/// does so with itself.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{CoarseClock, Limiter, Rate, TokenBucket};
///
/// let clock = CoarseClock::new(Duration::from_micros(500))?;
/// let quota = TokenBucket::new(Rate::per_second(1));
/// let limiter = Limiter::builder(quota).per::<u64>().clock(clock).build()?;
/// assert!(limiter.check(&7).is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CoarseClock {
    now: Arc<CachePadded<AtomicU64>>,
    source: SystemClock,
    /// Dropped with the last clone.
    _refresher: Arc<Refresher>,
}

impl CoarseClock {
    /// Starts a clock that is refreshed every `period`, from 1 microsecond to 1 second.
    ///
    /// # Errors
    ///
    /// [`BuildError::OutOfRange`] for another period, [`BuildError::NoThread`] when the operating
    /// system refuses the thread.
    pub fn new(period: Duration) -> Result<Self, BuildError> {
        within("refresh.period", period.as_nanos(), 1_000_u64, 1_000_000_000_u64)?;
        let source = SystemClock::new();
        let now = Arc::new(CachePadded::new(AtomicU64::new(0)));
        let refreshed = Arc::clone(&now);
        let (stop, stopped) = channel::<()>();
        let refresh = move || {
            while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                refreshed.store(source.now().as_nanos(), Relaxed);
            }
        };
        let thread =
            Builder::new().name("tollgate-clock".into()).spawn(refresh).map_err(|_| BuildError::NoThread)?;
        let refresher = Refresher { stop: Some(stop), thread: Some(thread) };
        Ok(Self { now, source, _refresher: Arc::new(refresher) })
    }
}

impl Clock for CoarseClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now.load(Relaxed))
    }

    fn unix_at_zero(&self) -> Duration {
        self.source.unix_at_zero()
    }

    fn unix_now(&self) -> Duration {
        // The clock lags behind, and its Unix time must lag by as much.
        let lag = self.source.now().saturating_since(self.now());
        self.source.unix_now().saturating_sub(lag)
    }
}

/// The refreshing thread's owner.
#[derive(Debug)]
struct Refresher {
    /// Dropping it wakes the thread, which then ends.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Refresher {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread must not become one here.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_and_its_thread_stops_with_the_last_clone() {
        let clock = CoarseClock::new(Duration::from_micros(100)).unwrap();
        let refreshed = Arc::downgrade(&clock.now);
        let clone = clock.clone();
        drop(clock);
        let seen = clone.now();
        while clone.now() <= seen {
            std::thread::yield_now();
        }
        drop(clone);
        assert!(refreshed.upgrade().is_none(), "the thread still holds the time");
    }

    #[test]
    fn a_period_out_of_range_is_an_error() {
        for period in [Duration::ZERO, Duration::from_secs(2)] {
            assert!(matches!(
                CoarseClock::new(period),
                Err(BuildError::OutOfRange { field: "refresh.period", .. })
            ));
        }
    }
}
