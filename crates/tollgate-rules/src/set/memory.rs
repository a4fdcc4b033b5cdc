//! The memory that rules may come to take.

use tollgate::{BuildError, CallQuota, InFlightLimiter, Limiter};

use crate::rule::{Limits, Rule, Rules};
use crate::set::SetError;
use crate::set::allowance::{Room, parts};
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
        let by_time = |quotas: &[tollgate::Quota], room: Room| {
            room.apply(Limiter::builder(quotas.to_vec()).per::<[u8]>()).memory()
        };
        let in_flight = |most: u64, room: Room| {
            let builder = InFlightLimiter::builder(most).per::<[u8]>();
            if let Some(keys) = room.max_keys { builder.max_keys(keys) } else { builder }.memory()
        };
        let mut bytes = match &rule.ban {
            Some(length) => by_time(&[ban::quota(length.0)], Room::of(rule, None))?,
            None => 0,
        };
        let tiers = rule.tiers.iter().map(|tier| (&tier.limits, Some(tier)));
        for (limits, tier) in std::iter::once((&rule.limits, None)).chain(tiers) {
            let room = Room::of(rule, tier);
            let limits = match limits {
                Limits::Each(limits) => limits,
                Limits::PerRequest => {
                    let builder = Limiter::builder(CallQuota::from_nanos(1, 1)?).per::<[u8]>();
                    bytes = bytes.saturating_add(room.apply(builder).memory()?);
                    continue;
                }
                Limits::Unlimited | Limits::Block | Limits::Elsewhere => continue,
            };
            let (quotas, at_once) = parts(limits);
            if !quotas.is_empty() {
                bytes = bytes.saturating_add(by_time(&quotas, room)?);
            }
            for (most, _) in at_once {
                bytes = bytes.saturating_add(in_flight(most, room)?);
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
