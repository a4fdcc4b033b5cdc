//! The two limiters: one for many keys, one for a single limit.

mod batch;
mod builder;
mod global;
mod keyed;
mod prepared;
mod reserve;
mod restore;
mod save;
mod wait;

pub use batch::Batch;
pub use builder::Builder;
pub use global::{GlobalBuilder, GlobalLimiter};
pub use keyed::{Limiter, Tier};
pub use prepared::Prepared;
pub use reserve::{Books, Reservation, ReserveError};

use crate::algorithm::{AnyRule, Rule};

/// A rule, and the same as one of the five for the numbers of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiled<R> {
    pub(crate) rule: R,
    pub(crate) any: AnyRule,
}

impl<R: Rule> Compiled<R> {
    pub(crate) fn new(rule: R) -> Self {
        Self { rule, any: rule.any() }
    }
}
