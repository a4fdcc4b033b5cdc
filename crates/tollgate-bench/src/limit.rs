//! The limits of the workloads: never reached, or always.
//!
//! A key without debt takes no memory in Tollgate, but it does in a map. So there are two kinds of
//! limits for many keys. Under [`MANY`] and [`SKEWED`], which refill slowly, every key is in debt
//! until the workload ends. Under [`Limit::per_second`] a key recovers between two checks.

use std::time::Duration;

/// One unit each `every`, at most `burst` at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// The time in which one unit comes back.
    pub(crate) every: Duration,
    /// The most units at once.
    pub(crate) burst: u32,
}

impl Limit {
    /// `rate` a second and 20 at once, for keys that recover.
    pub(crate) const fn per_second(rate: u32) -> Self {
        Self { every: Duration::from_nanos(1_000_000_000 / rate as u64), burst: 20 }
    }
}

/// For one hot key.
pub(crate) const HOT: Limit = Limit { every: Duration::from_millis(1), burst: 1_000_000_000 };

/// For many keys with the same number of checks.
pub(crate) const MANY: Limit = Limit { every: Duration::from_secs(300), burst: 1_000_000 };

/// For many keys of which a few get most of the checks.
pub(crate) const SKEWED: Limit = Limit { every: Duration::from_secs(30), burst: 10_000_000 };

/// One unit an hour, spent before the measurement.
pub(crate) const SPENT: Limit = Limit { every: Duration::from_secs(3_600), burst: 1 };

/// The answers that a contestant must give during the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Every check is admitted.
    Allowed,
    /// Every check is refused.
    Denied,
    /// Contestants with a full table may admit or refuse; the report says how many they admitted.
    Any,
}
