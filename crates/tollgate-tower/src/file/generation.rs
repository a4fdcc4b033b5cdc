//! What the layer derives from one generation of rules.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::{Clock, Timestamp};
use tollgate_http::HttpRules;
use tollgate_rules::{Limit, Limits, Line, Mode, OfRules, Rule};

use super::FileSet;
use super::stores::{RuleStores, Stores};
use crate::ClientAddress;
use crate::rule::{QueueTurns, SharedClock};
use crate::telemetry::RuleTelemetry;

/// A generation of rules, with what the layer needs to apply them to requests of HTTP.
pub(super) struct Generation {
    pub(super) http: HttpRules<SharedClock>,
    /// Where rules keep their counts that do not keep them here. `None`: there is none.
    pub(super) stores: Option<Arc<RuleStores>>,
    rules: Box<[PerRule]>,
    /// The latest departure in a queue that is or was free, in nanoseconds.
    latest_free: Arc<AtomicU64>,
}

struct PerRule {
    /// The same in all generations of a rule, by its name and mode: it counts on, and warns once.
    telemetry: Arc<RuleTelemetry>,
    /// Of the rule's own limits, and of those of its tiers. `None` unless the only limit by time is
    /// a queue: another one beside it would not charge a request that claimed a turn.
    turns: Box<[Option<Arc<QueueTurns>>]>,
}

impl Generation {
    /// `before` is the generation that was met before.
    pub(super) fn new(
        set: Arc<FileSet>,
        peer: &ClientAddress,
        stores: &Stores,
        before: Option<&Self>,
    ) -> Self {
        let latest_free = Arc::default();
        let known: HashMap<_, _> = before.into_iter().flat_map(Self::telemetries).collect();
        let per_rule = |rule: &Rule| PerRule {
            telemetry: known.get(&(&*rule.name, rule.mode == Mode::Shadow)).map_or_else(
                || Arc::new(RuleTelemetry::new(&rule.name, rule.mode == Mode::Shadow)),
                |known| Arc::clone(known),
            ),
            turns: [&rule.limits]
                .into_iter()
                .chain(rule.tiers.iter().map(|tier| &tier.limits))
                .map(|limits| is_queue(limits).then(|| QueueTurns::telling(&latest_free)))
                .collect(),
        };
        Self {
            rules: set.rules().rules.iter().map(per_rule).collect(),
            stores: stores.of(&set),
            http: HttpRules::new(set, peer),
            latest_free,
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
    pub(super) fn telemetry_of(&self, rule: usize) -> &RuleTelemetry {
        &self.rules[rule].telemetry
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
        self.rules[line.rule].turns[line.tier.map_or(0, |tier| tier + 1)].as_ref()
    }

    /// Returns the time by which the rules decide.
    pub(super) fn now(&self) -> Timestamp {
        self.http.set().clock().now()
    }
}

impl OfRules<SharedClock> for Generation {
    fn rules(&self) -> &Arc<FileSet> {
        self.http.set()
    }
}

/// Returns whether the only limit by time is a queue.
fn is_queue(limits: &Limits) -> bool {
    let Limits::Each(limits) = limits else { return false };
    let mut quotas =
        limits.iter().filter_map(|limit| if let Limit::Quota(quota) = limit { Some(quota) } else { None });
    quotas.next().is_some_and(|quota| quota.is_queue()) && quotas.next().is_none()
}
