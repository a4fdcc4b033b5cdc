//! Instants on a limiter's clock.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// An instant: nanoseconds since the zero of the clock that it was read from.
///
/// A `u64` of nanoseconds reaches 584 years. Arithmetic saturates: an instant never wraps around to
/// an earlier one.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::Timestamp;
///
/// let noon = Timestamp::ZERO + Duration::from_secs(3);
/// assert_eq!(noon.as_nanos(), 3_000_000_000);
/// assert!(noon < noon + Duration::from_nanos(1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The clock's own zero.
    pub const ZERO: Self = Self(0);

    /// The instant `nanos` nanoseconds after the clock's zero.
    #[must_use]
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's zero.
    #[must_use]
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero when it is not.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(nanos(later)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

/// How many nanoseconds later a new clock shows an instant than the saved clock did. Negative:
/// earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift(i128);

/// What a clock shows at an instant, and the Unix time in nanoseconds at that instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) at: u64,
    pub(crate) unix: u64,
}

impl Shift {
    /// Between a clock and itself.
    pub(crate) const NONE: Self = Self(0);

    /// From the clock that was `saved` to one that shows `now` later. The Unix times tell how much
    /// time has passed between: if they were set back, none, so that no debt becomes longer.
    pub(crate) fn between(saved: Reading, now: Reading) -> Self {
        let passed = now.unix.saturating_sub(saved.unix);
        Self(i128::from(now.at) - i128::from(saved.at) - i128::from(passed))
    }

    pub(crate) fn nanos(self) -> i128 {
        self.0
    }
}

/// `numerator / denominator`, rounded up.
pub(crate) fn div_ceil(numerator: i128, denominator: u64) -> i128 {
    let denominator = i128::from(denominator);
    numerator.div_euclid(denominator) + i128::from(numerator.rem_euclid(denominator) > 0)
}

/// A duration in whole nanoseconds, at most `u64::MAX`.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
