//! The limits of a rule or tier that a store keeps, as the rules say them.

use std::sync::Arc;

use tollgate::Quota;
use tollgate_rules::{Limit, Limits, Mode, Rule, Rules, StoreFailure, StoreLeases, StoreServer};

use crate::OnFailure;
use crate::rules::name;

/// The limits of a rule, or of its tier. Limiters of equal plans are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The name of the rule.
    pub(crate) rule: Box<str>,
    pub(crate) tier: Option<Box<str>>,
    /// The name in the store.
    pub(crate) name: String,
    pub(crate) server: Arc<StoreServer>,
    pub(crate) quotas: Vec<Quota>,
    pub(crate) on_failure: StoreFailure,
    pub(crate) deny_cache: usize,
    pub(crate) leases: Option<StoreLeases>,
    /// Whether the rule is in shadow mode: no request waits for the store.
    pub(crate) is_shadow: bool,
}

/// For each rule, the plan of its own limits and those of its tiers.
pub(crate) type Plans = Box<[Box<[Option<Arc<Plan>>]>]>;

/// The plans of rules.
pub(crate) fn of(rules: &Rules) -> Plans {
    let of_rule = |rule: &Rule| {
        let tiers = rule.tiers.iter().map(|tier| plan(rule, Some(&tier.name), &tier.limits));
        std::iter::once(plan(rule, None, &rule.limits)).chain(tiers).collect()
    };
    rules.rules.iter().map(of_rule).collect()
}

fn plan(rule: &Rule, tier: Option<&str>, limits: &Limits) -> Option<Arc<Plan>> {
    let store = rule.store.as_ref().filter(|_| rule.mode != Mode::Off)?;
    let Limits::Each(limits) = limits else { return None };
    let quota = |limit: &Limit| if let Limit::Quota(quota) = limit { Some(*quota) } else { None };
    Some(Arc::new(Plan {
        rule: rule.name.clone(),
        tier: tier.map(Into::into),
        name: name::of(&rule.name, tier),
        server: Arc::clone(&store.server),
        quotas: limits.iter().filter_map(quota).collect(),
        on_failure: store.on_failure,
        deny_cache: store.deny_cache,
        leases: store.leases,
        is_shadow: rule.mode == Mode::Shadow,
    }))
}

impl Plan {
    /// Whether each check is a trip.
    pub(crate) fn mode(&self) -> crate::Mode {
        self.leases.map_or_else(Default::default, |leases| crate::Mode::Leased {
            ttl: leases.ttl,
            nodes: leases.nodes,
        })
    }

    pub(crate) fn on_failure(&self) -> OnFailure {
        match self.on_failure {
            StoreFailure::Allow => OnFailure::Allow,
            StoreFailure::Local { nodes } => OnFailure::Local { nodes },
            // The rules refuse: the answer is another one than that of a limit.
            _ => OnFailure::Error,
        }
    }
}
