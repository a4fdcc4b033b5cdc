//! Counters and log events, behind the features `metrics` and `tracing`.
//!
//! Labels are rules, modes and outcomes, never keys: clients can send any number of keys.

use tollgate_http::RuleOutcome;

/// The counters and the warning of one rule.
///
/// With the feature `metrics`, it counts `tollgate_requests_total{rule, mode, outcome}`: one series
/// for each rule and outcome. The series are registered at the rule's first decision, so the
/// recorder must be installed before. Requests to which the rule does not apply are counted in
/// `tollgate_not_applied_total{rule, mode}`.
pub(crate) struct RuleTelemetry {
    #[cfg(feature = "metrics")]
    labels: (Box<str>, &'static str),
    #[cfg(feature = "metrics")]
    counters: std::sync::OnceLock<[metrics::Counter; RuleOutcome::ALL.len()]>,
    #[cfg(feature = "metrics")]
    not_applied: std::sync::OnceLock<metrics::Counter>,
    #[cfg(feature = "tracing")]
    missing_key_warned: std::sync::Once,
    #[cfg(feature = "tracing")]
    rule: Box<str>,
}

impl RuleTelemetry {
    #[allow(unused_variables, reason = "each feature needs other arguments")]
    pub(crate) fn new(rule: &str, shadow: bool) -> Self {
        Self {
            #[cfg(feature = "metrics")]
            labels: (rule.into(), if shadow { "shadow" } else { "enforced" }),
            #[cfg(feature = "metrics")]
            counters: std::sync::OnceLock::new(),
            #[cfg(feature = "metrics")]
            not_applied: std::sync::OnceLock::new(),
            #[cfg(feature = "tracing")]
            missing_key_warned: std::sync::Once::new(),
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
