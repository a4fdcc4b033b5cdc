//! What happened because a limit's table was full.

use tollgate::Stats;

use super::limit::Limit;

/// What happened because a limit's table was full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Overflow {
    pub(crate) limit: String,
    pub(crate) max_keys: usize,
    /// Keys that evicted another key and inherited its debt.
    pub(crate) evicted_with_debt: u64,
    /// Requests that shared an allowance.
    pub(crate) shared: u64,
    /// Requests that were refused because the table was full.
    pub(crate) refused_full: u64,
}

impl Overflow {
    /// `None` when there was room for all keys.
    pub(super) fn of(limit: &Limit, max_keys: usize, stats: Stats) -> Option<Self> {
        let Stats { evicted_with_debt, shared, refused_full, .. } = stats;
        let happened = evicted_with_debt + shared + refused_full > 0;
        happened.then(|| Self { limit: limit.to_string(), max_keys, evicted_with_debt, shared, refused_full })
    }
}
