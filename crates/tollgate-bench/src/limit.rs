//! The limits: never reached, or always.
//!
//! A key that owes nothing takes no room in Tollgate, but does in a map. So that all do the same work, the limits of many
//! keys refill so slowly that every key still owes when the workload ends.

use std::time::Duration;

/// One unit each `every`, and at most `burst` at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// The time in which one unit comes back.
    pub(crate) every: Duration,
    /// Units that may be spent at once.
    pub(crate) burst: u32,
}

/// For one hot key, which owes as long as it is asked.
pub(crate) const HOT: Limit = Limit { every: Duration::from_millis(1), burst: 1_000_000_000 };

/// For many keys that are asked alike.
pub(crate) const MANY: Limit = Limit { every: Duration::from_secs(300), burst: 1_000_000 };

/// For many keys of which a few are asked most.
pub(crate) const SKEWED: Limit = Limit { every: Duration::from_secs(30), burst: 10_000_000 };

/// One unit an hour: spent before the clock is started.
pub(crate) const SPENT: Limit = Limit { every: Duration::from_secs(3_600), burst: 1 };

/// What every answer must be while the clock runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// All are admitted.
    Allow,
    /// All are refused.
    Deny,
    /// Whatever a full table does with its newcomers; the report says how many were admitted.
    Either,
}
