//! `RateLimit-Policy` of the rules that decide requests together.

use std::sync::OnceLock;

use crate::headers::{KnownText, Policy};
use crate::{QuotaPolicies, ValueText};

/// How many sets of rules are remembered. The policies of others are written for each response.
const SETS: usize = 16;

/// The policies of the sets of rules that were met first. They never change: other rules are
/// another generation.
#[derive(Default)]
pub(super) struct Policies([OnceLock<Set>; SETS]);

/// The rules of one set, each by its index and that of its tier, and their policies.
struct Set {
    rules: Box<[(usize, Option<usize>)]>,
    text: KnownText,
}

impl Policies {
    /// Returns the policies of these rules.
    pub(super) fn of<'p>(
        &self,
        rules: impl Iterator<Item = (usize, Option<usize>)> + Clone,
        policies: impl Iterator<Item = &'p QuotaPolicies> + Clone,
    ) -> Policy<'_> {
        // That of one rule is a value already.
        if policies.clone().nth(1).is_none() {
            return QuotaPolicies::header_of_all(policies).into();
        }
        for place in &self.0 {
            let set = place.get_or_init(|| Set::new(rules.clone().collect(), policies.clone()));
            if set.rules.iter().copied().eq(rules.clone()) {
                return Policy::Known(&set.text);
            }
        }
        QuotaPolicies::header_of_all(policies).into()
    }
}

impl Set {
    fn new<'p>(
        rules: Box<[(usize, Option<usize>)]>,
        policies: impl Iterator<Item = &'p QuotaPolicies> + Clone,
    ) -> Self {
        let write = |text: &mut ValueText<'_>| QuotaPolicies::write_all(policies.clone(), text);
        Self { rules, text: KnownText::new(write) }
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{Quota, Rate, TokenBucket};

    use super::*;

    #[test]
    fn each_set_of_rules_has_its_own_policy() {
        let quota = |rule: u64| Quota::from(TokenBucket::new(Rate::per_second(rule + 1)));
        let rules: Vec<_> =
            (0..5).map(|rule| QuotaPolicies::new(&format!("rule-{rule}"), &[quota(rule)])).collect();
        let policies = Policies::default();
        for set in (0..32).cycle().take(100) {
            let set = || (0..5).filter(move |rule| set & 1 << rule != 0);
            let own = || set().map(|rule: usize| &rules[rule]);
            let tier = |rule| (rule % 2 == 0).then_some(rule);
            let policy = policies.of(set().map(|rule| (rule, tier(rule))), own());
            assert_eq!(policy.value(), QuotaPolicies::header_of_all(own()));
        }
        // The same rules with other tiers are another set.
        let policies = Policies::default();
        for tier in [None, Some(3), None, Some(2)] {
            let own = || [&rules[0], &rules[tier.unwrap_or(1)]].into_iter();
            let policy = policies.of([(0, None), (1, tier)].into_iter(), own());
            assert_eq!(policy.value(), QuotaPolicies::header_of_all(own()));
        }
    }
}
