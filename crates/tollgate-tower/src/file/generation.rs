//! What the layer derives from one generation of rules.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::{Clock, Timestamp};
use tollgate_http::HttpRules;
use tollgate_rules::{Limit, Limits, Line, Mode, Rule};

use super::FileSet;
use super::stores::{RuleStores, Stores};
use crate::ClientAddress;
use crate::rule::{AbandonedTurns, QueueTurn, SharedClock};
use crate::telemetry::RuleTelemetry;

/// A generation of rules, with what the layer needs to apply them to requests of HTTP.
pub(super) struct Generation {
    pub(super) http: HttpRules<SharedClock>,
    /// Where rules keep their counts that do not keep them here. `None`: there is none.
    pub(super) stores: Option<Arc<RuleStores>>,
    rules: Box<[PerRule]>,
    /// The latest departure of a turn that was abandoned, in nanoseconds.
    last_abandoned: AtomicU64,
}

struct PerRule {
    /// The same in all generations of a rule, by its name and mode: it counts on, and warns once.
    telemetry: Arc<RuleTelemetry>,
    /// Of the rule's own limits, and of those of its tiers. `None` unless the only limit by time is
    /// a queue: another one beside it would not charge a request that claimed a turn.
    abandoned: Box<[Option<AbandonedTurns>]>,
}

impl Generation {
    /// `before` is the generation that was met before.
    pub(super) fn new(
        set: Arc<FileSet>,
        peer: &ClientAddress,
        stores: &Stores,
        before: Option<&Self>,
    ) -> Self {
        let known: HashMap<_, _> = before.into_iter().flat_map(Self::telemetries).collect();
        let per_rule = |rule: &Rule| PerRule {
            telemetry: known.get(&(&*rule.name, rule.mode == Mode::Shadow)).map_or_else(
                || Arc::new(RuleTelemetry::new(&rule.name, rule.mode == Mode::Shadow)),
                |known| Arc::clone(known),
            ),
            abandoned: [&rule.limits]
                .into_iter()
                .chain(rule.tiers.iter().map(|tier| &tier.limits))
                .map(|limits| is_queue(limits).then(AbandonedTurns::default))
                .collect(),
        };
        Self {
            rules: set.rules().rules.iter().map(per_rule).collect(),
            stores: stores.of(&set),
            http: HttpRules::new(set, peer),
            last_abandoned: AtomicU64::new(0),
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

    /// Returns whether a turn may have been abandoned whose departure is still to come.
    pub(super) fn may_have_turns(&self) -> bool {
        self.http.has_queues()
            && match self.last_abandoned.load(Relaxed) {
                0 => false,
                last => last >= self.http.set().clock().now().as_nanos(),
            }
    }

    /// Returns the abandoned turns of a line's queue, if it may have any.
    pub(super) fn abandoned(&self, line: &Line) -> Option<&AbandonedTurns> {
        self.rules[line.rule].abandoned[line.tier.map_or(0, |tier| tier + 1)].as_ref()
    }

    /// Keeps an abandoned turn of a line's queue for other requests.
    pub(super) fn offer(&self, line: &Line, turn: QueueTurn, now: Timestamp) {
        if let Some(abandoned) = self.abandoned(line) {
            self.last_abandoned.fetch_max(turn.departure.as_nanos(), Relaxed);
            abandoned.offer(turn, now);
        }
    }
}

/// Returns whether the only limit by time is a queue.
fn is_queue(limits: &Limits) -> bool {
    let Limits::Each(limits) = limits else { return false };
    let mut quotas =
        limits.iter().filter_map(|limit| if let Limit::Quota(quota) = limit { Some(quota) } else { None });
    quotas.next().is_some_and(|quota| quota.is_queue()) && quotas.next().is_none()
}
