//! A request, as a rule sees it.

use std::time::Duration;

use tollgate::CallQuota;

/// How a rule applies to a request.
pub(crate) enum RuleMatch<'k> {
    /// The rule does not apply.
    DoesNotApply,
    /// The rule refuses the request because it has no key.
    NoKey,
    /// The rule's limits decide.
    Check(CheckRequest<'k>),
}

/// A request as a rule's limits see it.
#[derive(Clone, Copy)]
pub(crate) struct CheckRequest<'k> {
    pub(crate) key: &'k [u8],
    pub(crate) cost: u64,
    /// The index of the limit set that decides.
    pub(crate) set: usize,
    /// The longest wait in a queue.
    pub(crate) max_wait: Duration,
    /// The quota that comes with the request, if its rule has such quotas.
    pub(crate) quota: Option<CallQuota>,
}
