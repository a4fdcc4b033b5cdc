//! What a replay tells of one request: the numbers of a line of `--decisions`, of one limit or of several together.

use std::time::Duration;

use tollgate::{LimitDecision, MultiDecision};

/// The answer to a request, in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    /// Of the limit that leaves the least, the first of them.
    pub(crate) limit: u64,
    /// The least that any limit leaves.
    pub(crate) remaining: u64,
    /// The longest wait of those that refuse; `None` when all admit, or when no wait will help.
    pub(crate) retry_after_ns: Option<u64>,
    /// Until the last limit is as good as new.
    pub(crate) reset_after_ns: u64,
    /// The longest delay.
    pub(crate) delay_ns: u64,
    /// Whether the cost is above some limit.
    pub(crate) never: bool,
    /// The limits that refuse, in their order; when the cost is above some of them, those.
    pub(crate) refused_by: Vec<usize>,
}

/// A length of time as the summary has it, 584 years at most.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl From<&MultiDecision<'_>> for Answer {
    fn from(decision: &MultiDecision<'_>) -> Self {
        let tightest = decision.parts().min_by_key(LimitDecision::remaining);
        Self {
            allowed: decision.is_allowed(),
            limit: tightest.map_or(0, |part| part.limit()),
            remaining: tightest.map_or(0, |part| part.remaining()),
            retry_after_ns: decision.retry_after().map(nanos),
            reset_after_ns: nanos(decision.reset_after()),
            delay_ns: nanos(decision.delay()),
            never: decision.is_never(),
            refused_by: decision.parts().filter(LimitDecision::refuses).map(|part| part.number()).collect(),
        }
    }
}
