//! The memory that rules may come to take.

use tollgate::{BuildError, InFlightLimiter, Limiter};

use crate::rule::{Limits, Rule, Rules};
use crate::set::SetError;
use crate::set::allowance::{max_keys, parts};
use crate::set::ban;

impl Rule {
    /// The bytes that all tables of the rule may come to take: none, if a store keeps its counts.
    ///
    /// # Errors
    ///
    /// [`BuildError`]: a limit or the ban cannot be built.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_rules::{Key, Limit, Limits, Rule};
    ///
    /// let limits = Limits::Each(vec![Limit::Quota("10/s".parse()?)]);
    /// let mut rule = Rule::new("all", Key::Everyone, limits);
    /// let one = rule.memory()?;
    /// rule.key = Key::Attributes(vec![tollgate_rules::Attribute::Client]);
    /// assert!(rule.memory()? > one);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory(&self) -> Result<usize, BuildError> {
        let rule = self;
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
}

/// Checks that rules may take so much. Rules that cannot be built take nothing.
pub(super) fn check(rules: &Rules) -> Result<(), SetError> {
    let of = |rule: &Rule| rule.memory().unwrap_or_default();
    let needed = rules.rules.iter().map(of).fold(0, usize::saturating_add);
    // Of equals, the first.
    match rules.rules.iter().rev().max_by_key(|rule| of(rule)) {
        Some(largest) if needed > rules.memory_budget => {
            let (budget, largest) = (rules.memory_budget, largest.name.clone());
            Err(SetError::OverBudget { needed, budget, largest })
        }
        _ => Ok(()),
    }
}
