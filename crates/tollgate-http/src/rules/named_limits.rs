//! The limits of a rule, or of one of its tiers, as headers show them.

use tollgate::Quota;
use tollgate_rules::{Limit, Limits};

use crate::QuotaPolicies;

/// The limits of a rule, or of one of its tiers, with their names in headers.
pub(super) struct NamedLimits {
    /// Of the limits by time; `None` if there are none.
    pub(super) policies: Option<QuotaPolicies>,
    /// The name of a limit that has no policy: of requests in flight, one that comes with each
    /// request, one of a store.
    pub(super) other: Box<str>,
    pub(super) counts_in_flight: bool,
    /// Whether the numbers of the limit are known only when it has decided.
    pub(super) is_told_late: bool,
}

impl NamedLimits {
    pub(super) fn new(rule: &str, limits: &Limits) -> Self {
        let quotas: Vec<Quota> = quotas(limits).collect();
        let counts_in_flight = limits.counts_in_flight();
        let (policies, other) = match &*quotas {
            [] => (None, rule.into()),
            quotas => (Some(QuotaPolicies::new(rule, quotas)), format!("{rule}/in-flight").into()),
        };
        let is_told_late = matches!(limits, Limits::PerRequest | Limits::Elsewhere);
        Self { policies, other, counts_in_flight, is_told_late }
    }
}

/// The limits by time, in the order in which lines number them.
pub(super) fn quotas(limits: &Limits) -> impl Iterator<Item = Quota> {
    let each = if let Limits::Each(each) = limits { &**each } else { &[] };
    each.iter().filter_map(|limit| if let Limit::Quota(quota) = limit { Some(*quota) } else { None })
}
