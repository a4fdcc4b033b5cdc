//! The Unix time of an instant of a limiter's clock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate::{Clock, Timestamp};

/// The Unix time at which a clock showed zero.
///
/// It stays, so that one instant is the same second in all responses, unless the system's clock is
/// set or the two clocks have drifted apart by a quarter of a second. Keep one for as long
/// as the clock is used.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{ManualClock, Timestamp};
/// use tollgate_http::UnixZero;
///
/// let (clock, zero) = (ManualClock::new(), UnixZero::default());
/// let now = zero.unix_time(&clock, Timestamp::ZERO);
/// assert_eq!(zero.unix_time(&clock, Timestamp::ZERO), now);
/// let next = zero.unix_time(&clock, Timestamp::ZERO + Duration::from_secs(1));
/// assert_eq!(next - now, Duration::from_secs(1));
/// ```
#[derive(Debug, Default)]
pub struct UnixZero {
    /// In nanoseconds.
    nanos: AtomicU64,
}

/// How far the two clocks may be apart.
const TOLERANCE: Duration = Duration::from_millis(250);

impl UnixZero {
    /// Returns the Unix time of an instant of the clock.
    pub fn unix_time(&self, clock: &impl Clock, instant: Timestamp) -> Duration {
        // A clock that does not know the Unix time says that it began in 1970.
        let unix_now = match clock.unix_at_zero().is_zero() {
            true => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            false => clock.unix_now(),
        };
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let measured = nanos(unix_now.saturating_sub(clock.now().saturating_since(Timestamp::ZERO)));
        let kept = self.nanos.load(Relaxed);
        let zero = if kept.abs_diff(measured) <= nanos(TOLERANCE) { kept } else { measured };
        if zero != kept {
            self.nanos.store(zero, Relaxed);
        }
        Duration::from_nanos(zero).saturating_add(instant.saturating_since(Timestamp::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that stands still, and a Unix time that may be set.
    struct Unix(AtomicU64);

    impl Clock for Unix {
        fn now(&self) -> Timestamp {
            Timestamp::ZERO
        }

        fn unix_at_zero(&self) -> Duration {
            Duration::from_secs(1)
        }

        fn unix_now(&self) -> Duration {
            Duration::from_millis(self.0.load(Relaxed))
        }
    }

    #[test]
    fn unix_time_follows_the_system_only_when_far_off() {
        let (clock, zero) = (Unix(AtomicU64::new(10_000)), UnixZero::default());
        for (system, shown) in [(10_000, 10_000), (10_250, 10_000), (9_750, 10_000), (10_251, 10_251), (5, 5)]
        {
            clock.0.store(system, Relaxed);
            let at = zero.unix_time(&clock, Timestamp::ZERO + Duration::from_secs(1));
            assert_eq!(at, Duration::from_millis(shown) + Duration::from_secs(1));
        }
    }
}
