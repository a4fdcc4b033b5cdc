//! The limits of a rule, or of one of its tiers, as headers show them.

use tollgate::Quota;
use tollgate_rules::{Limit, Limits};

use crate::QuotaPolicies;

/// The limits of a rule, or of one of its tiers, with their names in headers.
pub(super) struct NamedLimits {
    /// Of the limits by time; `None` if there are none.
    pub(super) policies: Option<QuotaPolicies>,
    /// The name of the limits of requests in flight.
    pub(super) in_flight: Box<str>,
    pub(super) counts_in_flight: bool,
}

impl NamedLimits {
    pub(super) fn new(rule: &str, limits: &Limits) -> Self {
        let quotas: Vec<Quota> = quotas(limits).collect();
        let counts_in_flight = match limits {
            Limits::Each(limits) => limits.iter().any(|limit| matches!(limit, Limit::InFlight { .. })),
            Limits::Unlimited | Limits::Block => false,
        };
        let (policies, in_flight) = match &*quotas {
            [] => (None, rule.into()),
            quotas => (Some(QuotaPolicies::new(rule, quotas)), format!("{rule}/in-flight").into()),
        };
        Self { policies, in_flight, counts_in_flight }
    }
}

/// The limits by time, in the order in which lines number them.
pub(super) fn quotas(limits: &Limits) -> impl Iterator<Item = Quota> {
    let each = if let Limits::Each(each) = limits { &**each } else { &[] };
    each.iter().filter_map(|limit| if let Limit::Quota(quota) = limit { Some(*quota) } else { None })
}
