//! The memory that rules may come to take.

use tollgate::{BuildError, InFlightLimiter, Limiter};

use crate::rule::{Limits, Rule, Rules};
use crate::set::SetError;
use crate::set::allowance::{max_keys, parts};
use crate::set::ban;

/// Returns the bytes that all tables of a rule may come to take.
pub(crate) fn of_rule(rule: &Rule) -> Result<usize, BuildError> {
    if rule.store.is_some() {
        return Ok(0);
    }
    let max_keys = max_keys(rule);
    let by_time = |quotas: &[tollgate::Quota]| {
        let builder = Limiter::builder(quotas.to_vec()).per::<[u8]>();
        if let Some(keys) = max_keys { builder.max_keys(keys) } else { builder }.memory()
    };
    let in_flight = |most: u64| {
        let builder = InFlightLimiter::builder(most).per::<[u8]>();
        if let Some(keys) = max_keys { builder.max_keys(keys) } else { builder }.memory()
    };
    let mut bytes = match &rule.ban {
        Some(length) => by_time(&[ban::quota(length.0)])?,
        None => 0,
    };
    for limits in std::iter::once(&rule.limits).chain(rule.tiers.iter().map(|tier| &tier.limits)) {
        let Limits::Each(limits) = limits else { continue };
        let (quotas, at_once) = parts(limits);
        if !quotas.is_empty() {
            bytes = bytes.saturating_add(by_time(&quotas)?);
        }
        for (most, _) in at_once {
            bytes = bytes.saturating_add(in_flight(most)?);
        }
    }
    Ok(bytes)
}

/// What rules may come to take.
pub(crate) struct Needed {
    pub(crate) bytes: usize,
    /// The index of the rule that takes most, and its bytes.
    pub(crate) largest: Option<(usize, usize)>,
}

/// Returns what these rules may come to take, without those that cannot be built.
pub(crate) fn needed<'r>(rules: impl IntoIterator<Item = &'r Rule>) -> Needed {
    let mut needed = Needed { bytes: 0, largest: None };
    for (index, rule) in rules.into_iter().enumerate() {
        let bytes = of_rule(rule).unwrap_or_default();
        needed.bytes = needed.bytes.saturating_add(bytes);
        if needed.largest.is_none_or(|(_, most)| bytes > most) {
            needed.largest = Some((index, bytes));
        }
    }
    needed
}

/// Checks that rules may take so much.
pub(super) fn check(rules: &Rules) -> Result<(), SetError> {
    let (Needed { bytes, largest }, budget) = (needed(&rules.rules), rules.memory_budget);
    match largest {
        Some((index, _)) if bytes > budget => {
            Err(SetError::OverBudget { needed: bytes, budget, largest: rules.rules[index].name.clone() })
        }
        _ => Ok(()),
    }
}
