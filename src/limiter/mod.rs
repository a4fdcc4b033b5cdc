//! The limiters: one limit for each of many keys, several for each, one for everything, and one for what is in flight.

mod batch;
mod builder;
mod global;
mod in_flight;
mod in_force;
mod keyed;
mod lease;
mod prepared;
mod reconfigure;
mod reserve;
mod resets;
mod restore;
mod save;
mod several;
mod space;
mod versions;
mod wait;

pub use batch::Batch;
pub use builder::Builder;
pub use global::{GlobalBuilder, GlobalLimiter};
pub use in_flight::{AcquireError, InFlight, InFlightBuilder, InFlightLimiter};
pub use keyed::{Limiter, Tier};
pub use lease::{Lease, Leased, Lender};
pub use prepared::Prepared;
pub use reserve::{Books, Reservation, ReserveError};
pub use several::{LimitDecision, MultiBuilder, MultiDecision, MultiLimiter};

use crate::algorithm::{AnyRule, Numbers};
use crate::table::kept;

/// A rule, and the same as one of the five for the numbers of a decision.
#[derive(Debug)]
pub(crate) struct Compiled<R> {
    pub(crate) rule: R,
    pub(crate) any: AnyRule,
    /// The number of the version that it is of, and of the tier in it.
    version: u64,
    tier: usize,
}

impl<R: Numbers> Compiled<R> {
    fn new(rule: R, version: u64, tier: usize) -> Self {
        Self { any: rule.clone().any(), rule, version, tier }
    }
}
