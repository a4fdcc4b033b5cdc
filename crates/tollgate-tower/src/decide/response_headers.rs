//! The rate limit headers of a response, and the instant from which their times count.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use tollgate::{Clock, Timestamp, TscClock};
use tollgate_http::LimitHeaders;

use crate::rule::SharedClock;

/// The clock of all layers that have no other. A future reads it without a reference counter, which
/// all cores would share.
static DEFAULT_CLOCK: LazyLock<TscClock> = LazyLock::new(TscClock::new);

/// The clock of a layer, for the future of a response.
#[derive(Clone, Default)]
pub(crate) struct ResponseClock(Option<SharedClock>);

impl ResponseClock {
    /// `None` stands for the clock of all layers that have no other.
    pub(crate) fn new(clock: Option<SharedClock>) -> Self {
        Self(clock)
    }

    /// Returns the clock for the limits of the layer.
    pub(crate) fn shared(&self) -> SharedClock {
        self.0.clone().unwrap_or_else(|| Arc::new(DEFAULT_CLOCK.clone()))
    }

    #[inline]
    fn now(&self) -> Timestamp {
        self.0.as_ref().map_or_else(|| DEFAULT_CLOCK.now(), |clock| clock.now())
    }
}

/// The rate limit headers of a response that is not there yet.
#[derive(Default)]
pub(crate) struct ResponseHeaders {
    headers: LimitHeaders,
    decided_at: Timestamp,
    clock: ResponseClock,
}

impl ResponseHeaders {
    #[inline]
    pub(crate) fn new(headers: LimitHeaders, decided_at: Timestamp, clock: &ResponseClock) -> Self {
        Self { headers, decided_at, clock: clock.clone() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// Adds the headers to the response to an admitted request.
    pub(crate) fn write(&mut self, headers: &mut HeaderMap) {
        if !self.is_empty() {
            self.headers.write(headers, self.clock.now().saturating_since(self.decided_at));
        }
    }

    /// Adds the headers to the response to a request that was just refused.
    pub(crate) fn write_refusal(&mut self, headers: &mut HeaderMap, retry_after: Option<Duration>) {
        self.headers.write_refusal(headers, retry_after);
    }
}

/// The Unix time at which the layer's clock showed zero, in nanoseconds.
///
/// It stays, so that one instant is the same second in all responses, unless the system's clock is
/// set or the two clocks have drifted apart.
#[derive(Default)]
pub(crate) struct UnixZero(AtomicU64);

/// How far the two clocks may be apart.
const TOLERANCE: Duration = Duration::from_millis(250);

impl UnixZero {
    /// Returns the Unix time of an instant of the clock.
    pub(crate) fn unix_time(&self, clock: &SharedClock, instant: Timestamp) -> Duration {
        // A clock that does not know the Unix time says that it began in 1970.
        let unix_now = match clock.unix_at_zero().is_zero() {
            true => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            false => clock.unix_now(),
        };
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let measured = nanos(unix_now.saturating_sub(clock.now().saturating_since(Timestamp::ZERO)));
        let kept = self.0.load(Ordering::Relaxed);
        let zero = if kept.abs_diff(measured) <= nanos(TOLERANCE) { kept } else { measured };
        if zero != kept {
            self.0.store(zero, Ordering::Relaxed);
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
            Duration::from_millis(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn unix_time_follows_the_system_only_when_far_off() {
        let unix = Arc::new(Unix(AtomicU64::new(10_000)));
        let (clock, zero): (SharedClock, _) = (Arc::clone(&unix) as _, UnixZero::default());
        for (system, shown) in [(10_000, 10_000), (10_250, 10_000), (9_750, 10_000), (10_251, 10_251), (5, 5)]
        {
            unix.0.store(system, Ordering::Relaxed);
            let at = zero.unix_time(&clock, Timestamp::ZERO + Duration::from_secs(1));
            assert_eq!(at, Duration::from_millis(shown) + Duration::from_secs(1));
        }
    }
}
