//! Counters and log events, behind the features `metrics` and `tracing`.
//!
//! Labels are rules, modes and outcomes, never keys: clients can send any number of keys.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

#[cfg(any(feature = "metrics", feature = "tracing"))]
use tollgate::Stats;
use tollgate_http::RuleOutcome;

/// Returns for one in 64 requests of this thread that their rules' tables are looked at. An
/// admitted request of a known key leaves no trace of a full table, so any request may look.
#[cfg(any(feature = "metrics", feature = "tracing"))]
pub(crate) fn looks_at_tables() -> bool {
    thread_local! {
        static REQUESTS: std::cell::Cell<u8> = const { std::cell::Cell::new(0) };
    }
    let number = REQUESTS.get().wrapping_add(1);
    REQUESTS.set(number);
    number.is_multiple_of(64)
}

/// What a new key in a full bucket of the table causes: the names of its counters in
/// [`Stats`], and their values.
#[cfg(any(feature = "metrics", feature = "tracing"))]
fn full_table_effects(stats: &Stats) -> [(&'static str, u64); 4] {
    [
        ("evicted_with_debt", stats.evicted_with_debt),
        ("shared", stats.shared),
        ("refused_full", stats.refused_full),
        ("admitted_uncounted", stats.admitted_uncounted),
    ]
}

/// The counters and the warning of one rule.
///
/// With the feature `metrics`, it counts `tollgate_requests_total{rule, mode, outcome}`: one series
/// for each rule and outcome. The series are registered at the rule's first decision, so the
/// recorder must be installed before. Requests to which the rule does not apply are counted in
/// `tollgate_not_applied_total{rule, mode}`. `tollgate_full_table_total{rule, effect}` follows the
/// counters of the tables, up to 63 requests of each thread late; it is registered when it is above
/// zero, and so does `tollgate_refunds_short_total{rule}`, the units that refunds may have lost. Of
/// a queue, the gauge `tollgate_waiting_requests{rule}` has the number of requests that
/// wait, and the histogram `tollgate_wait_seconds{rule}` how long those waited that departed.
pub(crate) struct RuleTelemetry {
    waiting: AtomicUsize,
    #[cfg(feature = "metrics")]
    labels: (Box<str>, &'static str),
    #[cfg(feature = "metrics")]
    counters: std::sync::OnceLock<[metrics::Counter; RuleOutcome::ALL.len()]>,
    /// The counts of [`full_table_effects`] that have been added to the counters.
    #[cfg(feature = "metrics")]
    full_table_counted: [std::sync::atomic::AtomicU64; 4],
    /// Units that refunds may have lost, as far as they have been added to the counter.
    #[cfg(feature = "metrics")]
    short_counted: std::sync::atomic::AtomicU64,
    #[cfg(feature = "metrics")]
    not_applied: std::sync::OnceLock<metrics::Counter>,
    #[cfg(feature = "tracing")]
    missing_key_warned: std::sync::Once,
    #[cfg(feature = "tracing")]
    full_table_warned: std::sync::Once,
    #[cfg(feature = "tracing")]
    rule: Box<str>,
}

impl RuleTelemetry {
    #[allow(unused_variables, reason = "each feature needs other arguments")]
    pub(crate) fn new(rule: &str, shadow: bool) -> Self {
        Self {
            waiting: AtomicUsize::new(0),
            #[cfg(feature = "metrics")]
            labels: (rule.into(), if shadow { "shadow" } else { "enforced" }),
            #[cfg(feature = "metrics")]
            counters: std::sync::OnceLock::new(),
            #[cfg(feature = "metrics")]
            full_table_counted: Default::default(),
            #[cfg(feature = "metrics")]
            short_counted: Default::default(),
            #[cfg(feature = "metrics")]
            not_applied: std::sync::OnceLock::new(),
            #[cfg(feature = "tracing")]
            missing_key_warned: std::sync::Once::new(),
            #[cfg(feature = "tracing")]
            full_table_warned: std::sync::Once::new(),
            #[cfg(feature = "tracing")]
            rule: rule.into(),
        }
    }

    #[cfg_attr(not(feature = "metrics"), expect(unused_variables, clippy::unused_self))]
    pub(crate) fn count(&self, outcome: RuleOutcome) {
        #[cfg(feature = "metrics")]
        {
            let (rule, mode) = &self.labels;
            let register = |outcome: RuleOutcome| {
                metrics::counter!(
                    "tollgate_requests_total",
                    "rule" => rule.to_string(), "mode" => *mode, "outcome" => outcome.as_str()
                )
            };
            self.counters.get_or_init(|| RuleOutcome::ALL.map(register))[outcome as usize].increment(1);
        }
    }

    /// Returns how many requests wait in the rule's queues.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    pub(crate) fn begin_wait(&self) {
        self.waiting.fetch_add(1, Relaxed);
        #[cfg(feature = "metrics")]
        metrics::gauge!("tollgate_waiting_requests", "rule" => self.labels.0.to_string()).increment(1);
    }

    /// A request departs, or its client left.
    pub(crate) fn end_wait(&self) {
        self.waiting.fetch_sub(1, Relaxed);
        #[cfg(feature = "metrics")]
        metrics::gauge!("tollgate_waiting_requests", "rule" => self.labels.0.to_string()).decrement(1);
    }

    #[cfg_attr(not(feature = "metrics"), expect(unused_variables, clippy::unused_self))]
    pub(crate) fn report_wait(&self, wait: Duration) {
        #[cfg(feature = "metrics")]
        metrics::histogram!("tollgate_wait_seconds", "rule" => self.labels.0.to_string()).record(wait);
    }

    /// Counts what refunds may have lost. Counts and warns if the tables were full for some keys.
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    pub(crate) fn report_tables(&self, stats: &Stats) {
        let effects = full_table_effects(stats);
        #[cfg(feature = "metrics")]
        for ((effect, count), counted) in effects.into_iter().zip(&self.full_table_counted) {
            // Of several threads that look at once, each adds what none before it has added.
            let before = counted.fetch_max(count, Relaxed);
            if count > before {
                let rule = self.labels.0.to_string();
                metrics::counter!("tollgate_full_table_total", "rule" => rule, "effect" => effect)
                    .increment(count - before);
            }
        }
        #[cfg(feature = "metrics")]
        {
            let before = self.short_counted.fetch_max(stats.refunds_short, Relaxed);
            if stats.refunds_short > before {
                metrics::counter!("tollgate_refunds_short_total", "rule" => self.labels.0.to_string())
                    .increment(stats.refunds_short - before);
            }
        }
        #[cfg(feature = "tracing")]
        if effects.iter().any(|(_, count)| *count > 0) {
            self.full_table_warned.call_once(|| {
                tracing::warn!(
                    rule = &*self.rule,
                    evicted_with_debt = stats.evicted_with_debt,
                    shared = stats.shared,
                    refused_full = stats.refused_full,
                    admitted_uncounted = stats.admitted_uncounted,
                    "the table of keys is full: new keys are not limited alone; set `max_keys`"
                );
            });
        }
    }

    /// Counts a request to which the rule does not apply: a rule that never applies has this series
    /// only.
    #[cfg_attr(not(feature = "metrics"), expect(clippy::unused_self))]
    pub(crate) fn count_not_applied(&self) {
        #[cfg(feature = "metrics")]
        {
            let (rule, mode) = &self.labels;
            let name = "tollgate_not_applied_total";
            let register = || metrics::counter!(name, "rule" => rule.to_string(), "mode" => *mode);
            self.not_applied.get_or_init(register).increment(1);
        }
    }

    /// Warns at the first request without a key: often the server does not attach the peer's
    /// address.
    #[cfg_attr(not(feature = "tracing"), expect(clippy::unused_self))]
    pub(crate) fn warn_missing_key(&self) {
        #[cfg(feature = "tracing")]
        self.missing_key_warned.call_once(|| {
            tracing::warn!(
                rule = &*self.rule,
                "a request has no key: does the server attach what the key is made of?"
            );
        });
    }
}
