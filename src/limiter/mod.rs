//! The limiters: one limit for each of many keys, several for each, one for everything, and one for what is in flight.

mod batch;
mod builder;
mod global;
mod in_flight;
mod keyed;
mod lease;
mod prepared;
mod reserve;
mod resets;
mod restore;
mod save;
mod several;
mod shrink;
mod space;
mod wait;

pub use batch::Batch;
pub use builder::Builder;
pub use global::{GlobalBuilder, GlobalLimiter};
pub use in_flight::{AcquireError, InFlight, InFlightBuilder, InFlightLimiter};
pub use keyed::{Limiter, Tier};
pub use lease::{Lease, Leased, Lender};
pub use prepared::Prepared;
pub use reserve::{Books, Reservation, ReserveError};
pub use several::{MultiBuilder, MultiDecision, MultiLimiter, Part};

use crate::algorithm::{AnyRule, Numbers};
use crate::table::kept;

/// A rule, and the same as one of the five for the numbers of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiled<R> {
    pub(crate) rule: R,
    pub(crate) any: AnyRule,
}

impl<R: Numbers> Compiled<R> {
    pub(crate) fn new(rule: R) -> Self {
        Self { rule, any: rule.any() }
    }
}
