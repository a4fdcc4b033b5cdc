//! The counters of the rules in force, by their indices.

use std::hash::RandomState;
use std::sync::Arc;

use tollgate_rules::{Limit, Limits, Mode, Rule, RuleSet};

use super::rule::RuleCounts;
use crate::clock::ServerClock;

/// The counters of a generation of rules.
pub(crate) struct Generation {
    /// Kept, so that no other rules can be at its address: by that a verdict tells whose it is.
    pub(crate) set: Arc<RuleSet<ServerClock>>,
    pub(crate) counts: Box<[Arc<RuleCounts>]>,
    /// Whether each rule limits requests in flight.
    pub(super) limits_in_flight: Box<[bool]>,
}

impl Generation {
    /// The counters of these rules: those of `before` where name and mode are the same.
    pub(super) fn new(
        set: Arc<RuleSet<ServerClock>>,
        before: Option<&Self>,
        hasher: &RandomState,
        shows_keys: bool,
    ) -> Self {
        let counts = |rule: &Rule| {
            let mode = mode(rule.mode);
            let kept = before.and_then(|before| before.named(&rule.name)).filter(|old| old.mode == mode);
            kept.cloned().unwrap_or_else(|| Arc::new(RuleCounts::new(rule, mode, hasher, shows_keys)))
        };
        let counts = set.rules().rules.iter().map(counts).collect();
        let limits_in_flight = set.rules().rules.iter().map(limits_in_flight).collect();
        Self { set, counts, limits_in_flight }
    }

    /// Whether a verdict's rules are these.
    #[inline]
    pub(super) fn is_of(&self, rules: &[Rule]) -> bool {
        std::ptr::eq(self.set.rules().rules.as_slice(), rules)
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Arc<RuleCounts>> {
        self.position(name).map(|rule| &self.counts[rule])
    }

    /// The index of a rule.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.counts.iter().position(|counts| &*counts.name == name)
    }
}

fn limits_in_flight(rule: &Rule) -> bool {
    let mut all = std::iter::once(&rule.limits).chain(rule.tiers.iter().map(|tier| &tier.limits));
    let is_in_flight = |limit: &Limit| matches!(limit, Limit::InFlight { .. });
    all.any(|limits| matches!(limits, Limits::Each(limits) if limits.iter().any(is_in_flight)))
}

/// A mode as labels say it.
pub(crate) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforced",
        Mode::Shadow => "shadow",
        Mode::Off => "off",
    }
}
