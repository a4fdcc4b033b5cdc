//! A key of a rule: what an operator does to it.

use tollgate::Clock;

use crate::request::Request;
use crate::set::allowance::{Allowance, Kind, Shared};
use crate::set::line::Line;
use crate::set::{RuleSet, Scratch};

/// A key of a rule: see [`RuleSet::key`].
pub struct RuleKey<'s, C> {
    set: &'s RuleSet<C>,
    rule: usize,
    tier: Option<usize>,
    key: &'s [u8],
}

impl<C: Clock + Clone + 'static> RuleSet<C> {
    /// The key under which a rule counts a request, for an operator. `None` if the rule does not
    /// concern the request, or refuses it for want of a key.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{PlainRequest, RuleSet, Scratch};
    /// use tollgate_rules_file::{Memory, read};
    ///
    /// let text = "version = 1\nrule = [{ name = 'each', key = 'client', limits = '10/h' }]";
    /// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
    /// let set = RuleSet::new(rules, ManualClock::new())?;
    /// let mut scratch = Scratch::default();
    /// let alice = PlainRequest { client: Some([203, 0, 113, 9].into()), ..Default::default() };
    /// assert!((0..10).all(|_| set.check(&alice, &mut scratch).is_admitted()));
    ///
    /// assert_eq!(set.key(0, &alice, &mut scratch).unwrap().credit(4), 4);
    /// assert_eq!(set.peek(&alice, &mut scratch).lines()[0].remaining, 3);
    /// assert!(set.key(0, &alice, &mut scratch).unwrap().reset());
    /// assert_eq!(set.peek(&alice, &mut scratch).lines()[0].remaining, 9);
    /// # Ok::<(), tollgate_rules::SetError>(())
    /// ```
    #[must_use]
    pub fn key<'s>(
        &'s self,
        rule: usize,
        request: &dyn Request,
        scratch: &'s mut Scratch,
    ) -> Option<RuleKey<'s, C>> {
        scratch.clear();
        self.matcher.find(request, &mut scratch.found);
        let found = &scratch.found;
        let one = found.concerned().iter().find(|one| one.rule == rule && !one.is_refused_without_key)?;
        Some(RuleKey { set: self, rule, tier: one.tier, key: found.key(one) })
    }

    /// A key of a rule, by its bytes: see [`Found::key`](crate::Found::key). It is that of a tier,
    /// by the index in [`Rule::tiers`](crate::Rule::tiers); `None`: of [`Rule::limits`]. `None` if
    /// there is no such rule or tier, or if the keys are kept elsewhere: by a store, or under
    /// quotas that come with requests.
    ///
    /// [`Rule::limits`]: crate::Rule::limits
    #[must_use]
    pub fn key_at<'s>(&'s self, rule: usize, tier: Option<usize>, key: &'s [u8]) -> Option<RuleKey<'s, C>> {
        let allowance = self.limited.get(rule)?.allowances.get(tier.map_or(0, |tier| tier + 1))?;
        let is_own = allowance.quotas.as_ref().is_none_or(|current| current.shared.own().is_some());
        let is_here = is_own && allowance.kind != Kind::Stored;
        is_here.then_some(RuleKey { set: self, rule, tier, key })
    }
}

impl<C: Clock + Clone + 'static> RuleKey<'_, C> {
    fn allowance(&self) -> &Allowance<C> {
        self.set.limited[self.rule].allowance(self.tier)
    }

    /// What the rule would say of a request of this cost, as far as its limits and bans go. Changes
    /// nothing.
    #[must_use]
    pub fn peek(&self, cost: u64) -> Line {
        let (limited, now) = (&self.set.limited[self.rule], self.set.clock.now());
        let allowance = self.allowance();
        let mut line = Line::new(self.rule, self.tier, limited.is_shadow, cost);
        for limit in &allowance.at_once {
            let error = limit.shared.peek(self.key, cost, now).err();
            line.add_at_once(limit.shared.state(self.key), error);
        }
        if let Some(current) = allowance.asked()
            && let Some(limiter) = current.shared.own()
        {
            let decision = limiter.account(self.key).at(now).peek_n(cost);
            line.add_quotas(decision.outcome(), decision.parts(), current, limited.max_wait);
        }
        if let Some(left) = limited.bans.as_ref().and_then(|bans| bans.left(self.key, now)) {
            line.ban(left);
        }
        line
    }

    /// The index of the tier whose limits these are; `None`: the rule's own.
    #[must_use]
    pub fn tier(&self) -> Option<usize> {
        self.tier
    }

    /// The limiter by time whose key it is.
    fn shared(&self) -> Option<&Shared<C>> {
        self.allowance().quotas.as_ref().map(|current| &*current.shared)
    }

    /// Gives the key up to `units` of every limit by time, and says how many: the least that one
    /// of them gave. See [`Account::credit`](tollgate::Account::credit). A ban stays.
    pub fn credit(&self, units: u64) -> u64 {
        let limiter = self.shared().and_then(Shared::own);
        limiter.map_or(0, |limiter| limiter.account(self.key).credit(units))
    }

    /// Forgives the key its debt to every limit by time, and its ban. Requests in flight stay.
    /// `false` if there was nothing to forgive; `true` may also be of a debt that has run out. See
    /// [`Account::reset`](tollgate::Account::reset).
    pub fn reset(&self) -> bool {
        let limiter = self.shared().and_then(Shared::own);
        let forgave = limiter.is_some_and(|limiter| limiter.account(self.key).reset());
        let bans = self.set.limited[self.rule].bans.as_ref();
        bans.is_some_and(|bans| bans.lift(self.key)) | forgave
    }

    /// The key: see [`Found::key`](crate::Found::key).
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.key
    }
}

impl<C> std::fmt::Debug for RuleKey<'_, C> {
    /// Without the key, which may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuleKey").field("rule", &self.rule).finish_non_exhaustive()
    }
}
