//! Rules with their limiters.

use std::fmt;
use std::time::Duration;

use tollgate::{BuildError, Clock, Inherit, TscClock};

use crate::matcher::{Concerned, Matcher};
use crate::rule::Rules;
use crate::set::allowance::{Allowance, Limited, realign};
use crate::set::stored::SetId;

/// Rules with their limiters: decides requests.
///
/// Immutable but for the limiters' state: threads share one.
///
/// **Guarantee.** Every enforced rule that concerns a request must admit it, all or nothing:
/// refused by one, charged to none. No limit ever admits more than it would alone, from any number
/// of threads. A limit that refuses a request and [counts](tollgate::CountPolicy::All) refused
/// requests counts it, and a rule with a `ban` bans the key that it refuses. Rules in shadow mode
/// are decided and charged each alone, independent of the others. When no other thread interferes
/// every answer is exact.
///
/// **What a concurrent caller can see.** A request that all limits would admit, and one then
/// refuses because another thread was faster, was charged to others for a short time, as
/// [`together`](tollgate::together) says of its limits. It errs by refusing. Of a request that a
/// limit refuses from the start nothing can be seen.
///
/// **Cost.** A request reads the clock once. Each rule hashes its key and looks at its limits,
/// which are charged then by [offers](tollgate::together). Nothing blocks and nothing is allocated
/// once the [`Scratch`](crate::Scratch) has grown, but for a limit of requests in flight with a
/// `ttl`: it takes a mutex and memory for each request that it admits. A request of more than 32
/// limits takes memory for their offers.
///
/// # Examples
///
/// ```
/// use tollgate::ManualClock;
/// use tollgate_rules::{PlainRequest, RuleSet, Scratch};
/// use tollgate_rules_file::{Memory, read};
///
/// let text = "version = 1\nrule = [{ name = 'each', key = 'client', limits = '10/s,burst=20' }]";
/// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
/// let set = RuleSet::new(rules, ManualClock::new())?;
/// let mut scratch = Scratch::default();
/// let request = PlainRequest { client: Some([203, 0, 113, 9].into()), ..Default::default() };
/// assert!((0..20).all(|_| set.check(&request, &mut scratch).is_admitted()));
/// assert!(!set.check(&request, &mut scratch).is_admitted());
/// # Ok::<(), tollgate_rules::SetError>(())
/// ```
pub struct RuleSet<C = TscClock> {
    pub(super) rules: Rules,
    pub(super) matcher: Matcher,
    pub(super) limited: Box<[Limited<C>]>,
    /// The numbers of the rules, sorted by name.
    pub(super) by_name: Box<[usize]>,
    pub(super) clock: C,
    /// Whether a store keeps the counts of a rule.
    pub(super) has_stores: bool,
    pub(super) id: SetId,
}

impl<C> RuleSet<C> {
    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The matcher, which explains what concerns a request.
    #[must_use]
    pub fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Whether a store keeps the counts of a rule.
    #[must_use]
    #[inline]
    pub fn has_stores(&self) -> bool {
        self.has_stores
    }

    #[inline]
    pub(super) fn limited(&self, one: &Concerned) -> &Limited<C> {
        &self.limited[one.rule]
    }

    #[inline]
    pub(super) fn allowance(&self, one: &Concerned) -> &Allowance<C> {
        self.limited(one).allowance(one.tier)
    }
}

impl<C: Clock + 'static> RuleSet<C> {
    /// Forgives all keys of a rule, or of one of its tiers, their debts to limits by time.
    pub(crate) fn forgive(&self, rule: usize, tier: Option<usize>) -> Result<bool, BuildError> {
        let limited = self.limited.get(rule);
        let allowance = limited.and_then(|limited| limited.allowances.get(tier.map_or(0, |tier| tier + 1)));
        let current = allowance.and_then(|allowance| allowance.quotas.as_ref());
        let Some((limiter, current)) = current.and_then(|current| Some((current.shared.own()?, current)))
        else {
            return Ok(false);
        };
        limiter.change().to(current.quotas.to_vec()).inherit(Inherit::Reset).apply()?;
        Ok(true)
    }

    /// Aligns the windows of all rules: see [`realign`].
    pub(crate) fn realign(&self, unix_at_zero: Duration) -> Result<(), (Box<str>, BuildError)> {
        realign(self.rules.rules.iter().zip(&self.limited), unix_at_zero)
    }
}

impl<C> fmt::Debug for RuleSet<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleSet").field("rules", &self.rules.rules.len()).finish_non_exhaustive()
    }
}
