//! Reports of decisions and of reloads.

use tollgate_http::{RefusalReason, RequestHead, RuleOutcome};
use tollgate_rules::{Line, Ruling};
use tollgate_rules_file::ReloadError;

use super::decide::FileState;
use super::generation::Generation;
use crate::RuleDecision;

/// Is called with the generation that a reload put in force, or with its error.
pub(super) type ReloadHook = Box<dyn FnMut(Result<u64, &ReloadError>) + Send>;

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

impl FileState {
    /// Reports what each rule says of a request.
    #[inline]
    pub(super) fn report(&self, head: RequestHead<'_>, lines: &[Line], generation: &Generation) {
        if self.hooks.need_reports() {
            self.report_all(head, lines, generation);
        }
    }

    fn report_all(&self, head: RequestHead<'_>, lines: &[Line], generation: &Generation) {
        #[cfg(feature = "metrics")]
        if lines.is_empty() {
            metrics::counter!("tollgate_unmatched_total").increment(1);
        }
        #[cfg(any(feature = "metrics", feature = "tracing"))]
        let looks_at_tables = crate::telemetry::looks_at_tables();
        // What a store decides later is told by its own counters.
        for line in lines.iter().filter(|line| !line.is_pending) {
            #[cfg(any(feature = "metrics", feature = "tracing"))]
            if looks_at_tables && let Some(stats) = generation.http.set().stats(line.rule) {
                generation.telemetry(line).report_tables(&stats);
            }
            let outcome = reason(line).map_or(RuleOutcome::Allowed, RefusalReason::outcome);
            generation.telemetry(line).count(outcome);
            let rule = &*generation.http.rule(line).name;
            #[cfg(feature = "tracing")]
            if outcome != RuleOutcome::Allowed {
                let (outcome, shadow) = (outcome.as_str(), line.is_shadow);
                tracing::debug!(rule, outcome, shadow, path = ?head.path(), cost = line.cost, "not admitted");
            }
            if let Some(on_decision) = &self.hooks.on_decision {
                let limit = generation.http.shown(line).map(|(_, state)| state);
                let (shadow, cost) = (line.is_shadow, line.cost);
                on_decision(&RuleDecision { head, rule, outcome, shadow, cost, limit });
            }
        }
    }
}

/// Counts a reload.
#[cfg_attr(not(feature = "metrics"), expect(unused_variables))]
pub(super) fn count(reloaded: Result<u64, &ReloadError>) {
    #[cfg(feature = "metrics")]
    {
        let result = if reloaded.is_ok() { "success" } else { "failure" };
        metrics::counter!("tollgate_rules_reloads_total", "result" => result).increment(1);
        metrics::gauge!("tollgate_rules_last_reload_successful").set(if reloaded.is_ok() {
            1.0
        } else {
            0.0
        });
        if let Ok(generation) = reloaded {
            metrics::gauge!("tollgate_rules_generation").set(generation as f64);
        }
    }
}

/// Counts a reload and tells of it; if there is no hook, as an event or on standard error.
pub(super) fn tell(reloaded: Result<u64, &ReloadError>, hook: Option<&mut ReloadHook>) {
    count(reloaded);
    if let Some(hook) = hook {
        return hook(reloaded);
    }
    #[cfg(feature = "tracing")]
    if tracing::dispatcher::has_been_set() {
        match reloaded {
            Ok(generation) => tracing::info!(generation, "new rules are in force"),
            Err(error) => {
                tracing::error!(%error, "the rules were not read again: the old ones stay in force")
            }
        }
        return;
    }
    if let Err(error) = reloaded {
        use std::io::Write;
        // Not `eprintln`, which panics if standard error is closed.
        let _ = writeln!(
            std::io::stderr(),
            "tollgate: the rules were not read again, and the old ones stay in force\n\n{error}"
        );
    }
}
