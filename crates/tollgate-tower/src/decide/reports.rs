//! Reports of decisions.

use tollgate_http::{RefusalReason, RequestHead, RuleOutcome};
use tollgate_rules::{Limits, Line, Ruling};

use super::generation::Generation;
use super::state::LayerState;
use super::view::Labels;
use crate::RuleDecision;

/// Why a line refuses. `None` if it admits.
fn reason(line: &Line) -> Option<RefusalReason> {
    match line.ruling {
        Ruling::Admitted => None,
        Ruling::Refused => Some(RefusalReason::Limited),
        Ruling::Unavailable => Some(RefusalReason::BackendFailed),
        Ruling::Never => Some(RefusalReason::CostAboveLimit),
        Ruling::NoKey => Some(RefusalReason::NoKey),
        Ruling::Blocked => Some(RefusalReason::Blocked),
    }
}

impl LayerState {
    /// Reports what each rule says of a request. `failed` has a bit for each rule whose backend has
    /// failed.
    #[inline]
    pub(super) fn report(&self, head: RequestHead<'_>, lines: &[Line], failed: u64, generation: &Generation) {
        if self.settings.hooks.need_reports() {
            self.report_all(head, lines, failed, generation);
        }
    }

    fn report_all(&self, head: RequestHead<'_>, lines: &[Line], failed: u64, generation: &Generation) {
        self.report_others(head, lines, generation);
        #[cfg(any(feature = "metrics", feature = "tracing"))]
        let looks_at_tables = crate::telemetry::looks_at_tables();
        // What a store decides later is told by its own counters.
        for line in lines.iter().filter(|line| !line.is_pending) {
            #[cfg(any(feature = "metrics", feature = "tracing"))]
            if looks_at_tables && let Some(stats) = generation.http.set().stats(line.rule) {
                generation.telemetry(line).report_tables(&stats);
            }
            if self.has_closures() && failed & 1 << line.rule != 0 {
                self.report_line(head, line, RuleOutcome::BackendFailed, generation);
                let tier = line.tier.map(|tier| &generation.http.rule(line).tiers[tier].limits);
                // It decides nothing more.
                if tier == Some(&Limits::Unlimited) {
                    continue;
                }
            }
            let outcome = reason(line).map_or(RuleOutcome::Allowed, RefusalReason::outcome);
            self.report_line(head, line, outcome, generation);
        }
    }

    fn report_line(&self, head: RequestHead<'_>, line: &Line, outcome: RuleOutcome, generation: &Generation) {
        generation.telemetry(line).count(outcome);
        let rule = &*generation.http.rule(line).name;
        #[cfg(feature = "tracing")]
        if outcome != RuleOutcome::Allowed {
            let (outcome, shadow) = (outcome.as_str(), line.is_shadow);
            tracing::debug!(rule, outcome, shadow, path = ?head.path(), cost = line.cost, "not admitted");
        }
        if let Some(on_decision) = &self.settings.hooks.on_decision {
            let is_decided = outcome != RuleOutcome::BackendFailed;
            let limit = generation.http.shown(line).filter(|_| is_decided).map(|(_, state)| state);
            let (shadow, cost) = (line.is_shadow, line.cost);
            on_decision(&RuleDecision { head, rule, outcome, shadow, cost, limit });
        }
    }

    /// Counts and logs the rules that do not apply to a request. Of a file, which may have
    /// thousands: that none does.
    #[cfg_attr(not(feature = "tracing"), expect(unused_variables))]
    fn report_others(&self, head: RequestHead<'_>, lines: &[Line], generation: &Generation) {
        let Labels::OfRules(rules) = &self.settings.labels else {
            #[cfg(feature = "metrics")]
            if lines.is_empty() {
                metrics::counter!("tollgate_unmatched_total").increment(1);
            }
            return;
        };
        for (index, rule) in rules.iter().enumerate() {
            if !lines.iter().any(|line| line.rule == index) {
                generation.telemetry_of(index).count_not_applied();
                #[cfg(feature = "tracing")]
                tracing::debug!(rule = rule.name(), path = ?head.path(), "the rule does not apply");
            }
        }
    }
}
