//! A key of a rule: what an operator does to it.

use tollgate::Clock;

use crate::request::Request;
use crate::set::allowance::Allowance;
use crate::set::{RuleSet, Scratch};

/// A key of a rule: see [`RuleSet::key`].
pub struct RuleKey<'s, C> {
    set: &'s RuleSet<C>,
    rule: usize,
    allowance: &'s Allowance<C>,
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
        Some(RuleKey { set: self, rule, allowance: self.allowance(one), key: found.key(one) })
    }
}

impl<C: Clock + Clone + 'static> RuleKey<'_, C> {
    /// Gives the key up to `units` of every limit by time, and says how many: the least that one
    /// of them gave. See [`Account::credit`](tollgate::Account::credit). A ban stays.
    pub fn credit(&self, units: u64) -> u64 {
        let current = self.allowance.quotas.as_ref();
        current.map_or(0, |current| current.shared.limiter.account(self.key).credit(units))
    }

    /// Forgives the key its debt to every limit by time, and its ban. Requests in flight stay.
    /// `false` if there was nothing to forgive; `true` may also be of a debt that has run out. See
    /// [`Account::reset`](tollgate::Account::reset).
    pub fn reset(&self) -> bool {
        let current = self.allowance.quotas.as_ref();
        let forgave = current.is_some_and(|current| current.shared.limiter.account(self.key).reset());
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
