//! Rates: a count of units in a period.

use std::fmt;
use std::time::Duration;

use crate::time::nanos;

/// `count` units in each `period`.
///
/// A rate is a count and a period, never an interval: `Rate::per_second(100)` is a hundred a
/// second. Any pair can be written down; a limiter's `build` judges it, and names the number that
/// is wrong.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::Rate;
///
/// assert_eq!(Rate::per_minute(60), Rate::new(60, Duration::from_secs(60)));
/// assert_eq!(Rate::new(5, Duration::from_secs(10)).to_string(), "5/10s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    count: u64,
    period: Duration,
}

impl Rate {
    /// `count` units in each `period`.
    #[must_use]
    pub const fn new(count: u64, period: Duration) -> Self {
        Self { count, period }
    }

    /// `count` units a second.
    #[must_use]
    pub const fn per_second(count: u64) -> Self {
        Self::new(count, Duration::from_secs(1))
    }

    /// `count` units a minute.
    #[must_use]
    pub const fn per_minute(count: u64) -> Self {
        Self::new(count, Duration::from_secs(60))
    }

    /// `count` units an hour.
    #[must_use]
    pub const fn per_hour(count: u64) -> Self {
        Self::new(count, Duration::from_secs(3_600))
    }

    /// `count` units a day of 24 hours.
    #[must_use]
    pub const fn per_day(count: u64) -> Self {
        Self::new(count, Duration::from_secs(86_400))
    }

    /// `count` units a week of seven days.
    #[must_use]
    pub const fn per_week(count: u64) -> Self {
        Self::new(count, Duration::from_secs(604_800))
    }

    /// The units a period.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.count
    }

    /// The period.
    #[must_use]
    pub const fn period(self) -> Duration {
        self.period
    }

    /// The period in nanoseconds, at most `u64::MAX`.
    pub(crate) fn period_nanos(self) -> u64 {
        nanos(self.period)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(Duration, &str); 5] = [
            (Duration::from_secs(1), "s"),
            (Duration::from_secs(60), "min"),
            (Duration::from_secs(3_600), "h"),
            (Duration::from_secs(86_400), "d"),
            (Duration::from_secs(604_800), "w"),
        ];
        match UNITS.iter().find(|(unit, _)| *unit == self.period) {
            Some((_, name)) => write!(f, "{}/{name}", self.count),
            None => write!(f, "{}/{:?}", self.count, self.period),
        }
    }
}
