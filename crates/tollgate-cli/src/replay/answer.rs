//! What all limits together say of one request.

use tollgate::Decision;

/// The decisions of all limits on one request, as one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Answer {
    /// Of the limit that leaves the least.
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
    /// The limits that refuse, in their order.
    pub(crate) refused_by: Vec<usize>,
    seen: bool,
}

impl Answer {
    /// Adds the decision of limit `index`.
    pub(crate) fn add(&mut self, index: usize, decision: &Decision<'_>) {
        let nanos = |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let remaining = decision.remaining();
        if !self.seen || remaining < self.remaining {
            (self.limit, self.remaining) = (decision.limit(), remaining);
        }
        self.seen = true;
        self.reset_after_ns = self.reset_after_ns.max(nanos(decision.reset_after()));
        self.delay_ns = self.delay_ns.max(nanos(decision.delay()));
        self.never |= decision.is_never();
        if !decision.is_allowed() {
            self.refused_by.push(index);
        }
        let wait = decision.retry_after().map(nanos);
        self.retry_after_ns = if self.never { None } else { self.retry_after_ns.max(wait) };
    }
}
