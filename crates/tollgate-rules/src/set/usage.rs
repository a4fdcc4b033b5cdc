//! How full the tables of a rule are.

use tollgate::{Clock, Stats, Usage};

use crate::set::RuleSet;
use crate::set::allowance::Limited;

impl<C: Clock + Clone + 'static> RuleSet<C> {
    /// How often keys came, went, and found a table full, since the rule's limiters were built: the
    /// sum over its limits, tiers and bans. `None` if there is no such rule, by its index.
    ///
    /// **Cost.** Some hundred loads for each limiter. No request waits for it.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{PlainRequest, RuleSet, Scratch};
    /// use tollgate_rules_file::{Memory, read};
    ///
    /// let rule = "{ name = 'each', key = 'client', limits = '10/s', max_keys = 1000 }";
    /// let text = format!("version = 1\nrule = [{rule}]");
    /// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
    /// let set = RuleSet::new(rules, ManualClock::new())?;
    /// let request = PlainRequest { client: Some([203, 0, 113, 9].into()), ..Default::default() };
    /// assert!(set.check(&request, &mut Scratch::default()).is_admitted());
    ///
    /// assert_eq!(set.stats(0).map(|stats| (stats.inserted, stats.refused_full)), Some((1, 0)));
    /// assert_eq!(set.usage(0).map(|usage| (usage.live_keys, usage.max_keys)), Some((1, 1000)));
    /// assert!(set.stats(1).is_none());
    /// # Ok::<(), tollgate_rules::SetError>(())
    /// ```
    #[must_use]
    pub fn stats(&self, rule: usize) -> Option<Stats> {
        let Limited { allowances, bans, .. } = self.limited.get(rule)?;
        let quotas = allowances.iter().flat_map(|one| &one.quotas).map(|one| one.shared.stats());
        let in_flight = allowances.iter().flat_map(|one| &one.at_once).map(|one| one.shared.limiter.stats());
        Some(quotas.chain(in_flight).chain(bans.iter().map(|bans| bans.limiter.stats())).sum())
    }

    /// How many keys of a rule are in debt, how many there may be, and how much memory its tables
    /// use: the sum over its limits, tiers and bans. A key is counted once in each of them. `None`
    /// if there is no such rule, by its index.
    ///
    /// **Cost.** It reads all tables. No request waits for it.
    #[must_use]
    pub fn usage(&self, rule: usize) -> Option<Usage> {
        let Limited { allowances, bans, .. } = self.limited.get(rule)?;
        let quotas = allowances.iter().flat_map(|one| &one.quotas).map(|one| one.shared.usage());
        let in_flight = allowances.iter().flat_map(|one| &one.at_once).map(|one| one.shared.limiter.usage());
        Some(quotas.chain(in_flight).chain(bans.iter().map(|bans| bans.limiter.usage())).sum())
    }
}
