//! What the rules say of a request.

use smallvec::SmallVec;
use tollgate_http::{LimitState, RuleOutcome};

use super::refusal::RuleRefusal;
use super::response_headers::ResponseHeaders;
use crate::rule::MAX_RULES;

/// The result of an evaluation. It does not borrow from the limits.
#[derive(Default)]
pub(crate) struct Verdict {
    /// The reports for hooks, counters and events, in the order of the decisions. Empty if none of
    /// them is used. A rule whose backend failed may have two reports.
    pub(crate) reports: SmallVec<[RuleReport; MAX_RULES]>,
    pub(crate) headers: ResponseHeaders,
    /// `None` if the request is admitted.
    pub(crate) refusal: Option<Box<RuleRefusal>>,
}

/// The outcome of one rule, for hooks, counters and events.
pub(crate) struct RuleReport {
    /// The index of the rule.
    pub(crate) rule: usize,
    pub(crate) outcome: RuleOutcome,
    pub(crate) cost: u64,
    /// The state of the limit that decides. `None` if no hook and no handler sees it, or if no
    /// limit decides.
    pub(crate) limit: Option<LimitState>,
}
