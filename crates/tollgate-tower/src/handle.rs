//! Access to the limits of a rule while its layer serves, for operators and handlers.

use std::fmt;
use std::sync::Arc;

use tollgate::{Stats, Usage};

use crate::RateLimitLayer;
use crate::decide::LayerState;
use crate::rule::CompiledRule;

/// The limits of one rule of a layer, while the layer serves: see [`RateLimitLayer::handle`].
///
/// A handle is small, owned and `Clone`: keep it in the state of a server.
///
/// # Examples
///
/// ```
/// use tollgate::{Rate, TokenBucket};
/// use tollgate_tower::{RateLimitLayer, Rule};
///
/// let rule = Rule::new("api", [TokenBucket::new(Rate::per_second(10))]).max_keys(1_000_000);
/// let layer = RateLimitLayer::builder().rule(rule).build()?;
/// let api = layer.handle("api").ok_or("no such rule")?;
/// assert_eq!(api.stats().refused_full, 0);
/// assert_eq!(api.usage().map(|usage| usage.live_keys), Some(0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RuleHandle {
    state: Arc<LayerState>,
    /// The index of the rule.
    rule: usize,
}

impl<R> RateLimitLayer<R> {
    /// Returns a handle on the limits of the rule with this name. `None` if there is no such rule.
    #[must_use]
    pub fn handle(&self, rule: &str) -> Option<RuleHandle> {
        let index = self.rules().iter().position(|compiled| *compiled.name == *rule)?;
        Some(RuleHandle { state: Arc::clone(self.state()), rule: index })
    }
}

impl RuleHandle {
    fn rule(&self) -> &CompiledRule {
        &self.state.rules[self.rule]
    }

    /// Returns how often keys came, went, and found the table full, since the layer was built: the
    /// sum over all limits, tiers and keys of the rule that this process decides.
    ///
    /// If `evicted_with_debt`, `shared`, `refused_full` or `admitted_uncounted` increases, there
    /// are more keys in debt than [`max_keys`](crate::Rule::max_keys): new keys are refused, or
    /// admitted, as [`when_full`](crate::Rule::when_full) says.
    ///
    /// **Cost.** Some hundred loads for each limit. No request waits for it.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let sets = self.rule().decider.limit_sets();
        sets.iter().map(|set| set.limiter.stats()).fold(Stats::default(), sum)
    }

    /// Returns how many keys are in debt, how many there may be, and how much memory the tables
    /// use: the sum over all tiers and keys of the rule. A key is counted once in each tier. `None`
    /// if this process has no limits of the rule.
    ///
    /// **Cost.** It reads all tables. No request waits for it.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        let sets = self.rule().decider.limit_sets();
        sets.iter().map(|set| set.limiter.usage()).reduce(|mut total, usage| {
            total.live_keys += usage.live_keys;
            total.max_keys += usage.max_keys;
            total.memory_in_use += usage.memory_in_use;
            total
        })
    }
}

/// Adds counters of two tables.
pub(crate) fn sum(mut total: Stats, stats: Stats) -> Stats {
    total.inserted += stats.inserted;
    total.recycled += stats.recycled;
    total.evicted_with_debt += stats.evicted_with_debt;
    total.shared += stats.shared;
    total.refused_full += stats.refused_full;
    total.admitted_uncounted += stats.admitted_uncounted;
    total.retried += stats.retried;
    total.clock_stepped_back += stats.clock_stepped_back;
    total
}

impl fmt::Debug for RuleHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleHandle").field("rule", &self.rule().name).finish_non_exhaustive()
    }
}
