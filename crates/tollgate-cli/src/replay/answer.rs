//! The answer to one request in the numbers of `--decisions`, from one limit or several together.

use std::time::Duration;

use tollgate::{Decision, MOST_LIMITS, Part};

/// The answer to a request, in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    /// The `limit` of the limit with the least `remaining`; of equals, the first.
    pub(crate) limit: u64,
    /// The least that any limit has left.
    pub(crate) remaining: u64,
    /// The longest wait of the limits that refuse; `None` when all admit, or when no wait will
    /// help.
    pub(crate) retry_after_ns: Option<u64>,
    /// How long until all limits are back in their initial state.
    pub(crate) reset_after_ns: u64,
    /// The longest delay.
    pub(crate) delay_ns: u64,
    /// How much was charged, where that is not told by the cost: of a check up to a cost, and of a
    /// debit.
    pub(crate) charged: Option<u64>,
    /// Whether the cost is above a limit's maximum.
    pub(crate) never: bool,
    /// The numbers of the limits that refuse; of a cost above a maximum, only those limits.
    pub(crate) refused_by: Vec<usize>,
}

/// A duration in nanoseconds, at most 584 years.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl From<&Decision<'_>> for Answer {
    fn from(decision: &Decision<'_>) -> Self {
        Self {
            allowed: decision.is_allowed(),
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after_ns: decision.retry_after().map(nanos),
            reset_after_ns: nanos(decision.reset_after()),
            delay_ns: nanos(decision.delay()),
            charged: None,
            never: decision.is_never(),
            // By none of the limits.
            refused_by: Vec::new(),
        }
    }
}

impl From<&Decision<'_, MOST_LIMITS>> for Answer {
    fn from(decision: &Decision<'_, MOST_LIMITS>) -> Self {
        let tightest = decision.parts().min_by_key(Part::remaining);
        Self {
            allowed: decision.is_allowed(),
            limit: tightest.map_or(0, |part| part.limit()),
            remaining: tightest.map_or(0, |part| part.remaining()),
            retry_after_ns: decision.retry_after().map(nanos),
            reset_after_ns: nanos(decision.reset_after()),
            delay_ns: nanos(decision.delay()),
            charged: None,
            never: decision.is_never(),
            refused_by: decision.parts().filter(Part::refuses).map(|part| part.number()).collect(),
        }
    }
}
