//! What the layer derives from one generation of rules.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed};

use tollgate::{Clock, Timestamp};
use tollgate_http::{HeaderStyles, HttpRules};
use tollgate_rules::{Limit, Limits, Line, Mode, OfRules, Rule};

use super::LayerSet;
use super::stores::{RuleStores, Stores};
use crate::ClientAddress;
use crate::queue::QueueTurns;
use crate::rule::SharedClock;
use crate::telemetry::RuleTelemetry;

/// A generation of rules, with what the layer needs to apply them to requests of HTTP.
pub(crate) struct Generation {
    pub(crate) http: HttpRules<SharedClock>,
    /// Where rules keep their counts that do not keep them here. `None`: there is none.
    pub(crate) stores: Option<Arc<RuleStores>>,
    rules: Box<[PerRule]>,
    /// The latest departure in a queue that is or was free, in nanoseconds.
    latest_free: Arc<AtomicU64>,
    /// How often a debt was taken from a key of a queue.
    taken_debts: Arc<AtomicU64>,
}

struct PerRule {
    /// The same in all generations of a rule, by its name and mode: it counts on, and warns once.
    telemetry: Arc<RuleTelemetry>,
    /// Of the rule's own limits, and of those of its tiers. `None` unless the only limit by time is
    /// a queue: another one beside it would not charge a request that claimed a turn.
    turns: Box<[Option<Arc<QueueTurns>>]>,
    /// Whether the rule charges by the response's status, or counts requests in flight.
    awaits_response: bool,
}

impl Generation {
    /// `before` is the generation that was met before.
    pub(crate) fn new(
        set: Arc<LayerSet>,
        peer: &ClientAddress,
        stores: &Stores,
        styles: Option<HeaderStyles>,
        before: Option<&Self>,
    ) -> Self {
        let (latest_free, taken_debts) = Default::default();
        let known: HashMap<_, _> = before.into_iter().flat_map(Self::telemetries).collect();
        let per_rule = |rule: &Rule| PerRule {
            telemetry: known.get(&(&*rule.name, rule.mode == Mode::Shadow)).map_or_else(
                || Arc::new(RuleTelemetry::new(&rule.name, rule.mode == Mode::Shadow)),
                |known| Arc::clone(known),
            ),
            turns: limits_of(rule)
                .map(|limits| is_queue(limits).then(|| QueueTurns::telling(&latest_free, &taken_debts)))
                .collect(),
            awaits_response: rule.charge_if.is_some() || limits_of(rule).any(Limits::counts_in_flight),
        };
        Self {
            rules: set.rules().rules.iter().map(per_rule).collect(),
            stores: stores.of(&set),
            http: match styles {
                Some(styles) => HttpRules::new(set, peer).with_styles(styles),
                None => HttpRules::new(set, peer),
            },
            latest_free,
            taken_debts,
        }
    }

    /// Returns the counters of each rule, by its name and whether it is in shadow mode.
    fn telemetries(&self) -> impl Iterator<Item = ((&str, bool), &Arc<RuleTelemetry>)> {
        let rules = self.http.set().rules().rules.iter().zip(&self.rules);
        rules.map(|(rule, per_rule)| ((&*rule.name, rule.mode == Mode::Shadow), &per_rule.telemetry))
    }

    pub(super) fn telemetry(&self, line: &Line) -> &RuleTelemetry {
        self.telemetry_of(line.rule)
    }

    /// Returns the counters of a rule by its index.
    pub(crate) fn telemetry_of(&self, rule: usize) -> &RuleTelemetry {
        &self.rules[rule].telemetry
    }

    /// Whether a request of a rule may give something back when it has been answered.
    pub(super) fn awaits_response(&self, rule: usize) -> bool {
        self.rules[rule].awaits_response
    }

    /// Returns whether a turn may be free whose departure is still to come.
    pub(super) fn may_have_turns(&self) -> bool {
        self.http.has_queues()
            && match self.latest_free.load(Relaxed) {
                0 => false,
                last => last >= self.now().as_nanos(),
            }
    }

    /// Returns the turns of a line's queue, if requests may give theirs to others.
    pub(super) fn turns(&self, line: &Line) -> Option<&Arc<QueueTurns>> {
        self.turns_of(line.rule, line.tier)
    }

    /// Returns the turns of the queue of a rule, or of one of its tiers.
    pub(crate) fn turns_of(&self, rule: usize, tier: Option<usize>) -> Option<&Arc<QueueTurns>> {
        self.rules[rule].turns[tier.map_or(0, |tier| tier + 1)].as_ref()
    }

    /// Returns how often a debt was taken from a key of a queue. Read it before a turn is charged.
    pub(super) fn taken_debts(&self) -> u64 {
        self.taken_debts.load(Acquire)
    }

    /// Returns the time by which the rules decide.
    pub(super) fn now(&self) -> Timestamp {
        self.http.set().clock().now()
    }
}

impl OfRules<SharedClock> for Generation {
    fn rules(&self) -> &Arc<LayerSet> {
        self.http.set()
    }
}

/// The limits of a rule, and those of its tiers.
fn limits_of(rule: &Rule) -> impl Iterator<Item = &Limits> {
    std::iter::once(&rule.limits).chain(rule.tiers.iter().map(|tier| &tier.limits))
}

/// Returns whether the only limit by time is a queue.
fn is_queue(limits: &Limits) -> bool {
    let Limits::Each(limits) = limits else { return false };
    let mut quotas =
        limits.iter().filter_map(|limit| if let Limit::Quota(quota) = limit { Some(quota) } else { None });
    quotas.next().is_some_and(|quota| quota.is_queue()) && quotas.next().is_none()
}
