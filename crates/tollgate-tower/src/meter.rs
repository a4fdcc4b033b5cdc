//! Counters by rule and events, behind features. Labels are rules and outcomes: never keys, whose number has no bound.

use crate::{Head, Told};

/// What is counted of one rule.
///
/// With the feature `metrics`, `tollgate_requests_total{rule, mode, outcome}`: as many series as rules times five. They
/// are registered when the rule first decides, so the recorder must be installed by then.
pub(crate) struct Meter {
    #[cfg(feature = "metrics")]
    labels: (Box<str>, &'static str),
    #[cfg(feature = "metrics")]
    counters: std::sync::OnceLock<[metrics::Counter; Told::ALL.len()]>,
    #[cfg(feature = "tracing")]
    keyless: std::sync::Once,
    #[cfg(feature = "tracing")]
    rule: Box<str>,
}

impl Meter {
    #[allow(unused_variables, reason = "each feature needs another one")]
    pub(crate) fn new(rule: &str, shadow: bool) -> Self {
        Self {
            #[cfg(feature = "metrics")]
            labels: (rule.into(), if shadow { "shadow" } else { "enforced" }),
            #[cfg(feature = "metrics")]
            counters: std::sync::OnceLock::new(),
            #[cfg(feature = "tracing")]
            keyless: std::sync::Once::new(),
            #[cfg(feature = "tracing")]
            rule: rule.into(),
        }
    }

    #[cfg_attr(not(feature = "metrics"), expect(unused_variables, clippy::unused_self))]
    pub(crate) fn count(&self, told: Told) {
        #[cfg(feature = "metrics")]
        {
            let (rule, mode) = &self.labels;
            let register = |told: Told| {
                metrics::counter!(
                    "tollgate_requests_total",
                    "rule" => rule.to_string(), "mode" => *mode, "outcome" => told.as_str()
                )
            };
            self.counters.get_or_init(|| Told::ALL.map(register))[told as usize].increment(1);
        }
    }

    /// Says once that requests come without a key: often a server that does not attach the connection's address.
    #[cfg_attr(not(feature = "tracing"), expect(clippy::unused_self))]
    pub(crate) fn keyless(&self) {
        #[cfg(feature = "tracing")]
        self.keyless.call_once(|| {
            tracing::warn!(
                rule = &*self.rule,
                "a request has no key: does the server attach what the key is made of?"
            );
        });
    }
}

/// Says once that a proxy names its clients and nobody listens.
#[derive(Clone, Default)]
pub(crate) struct Unread {
    #[cfg(feature = "tracing")]
    said: std::sync::Arc<std::sync::OnceLock<()>>,
}

impl Unread {
    #[inline]
    #[cfg_attr(not(feature = "tracing"), expect(unused_variables, clippy::unused_self))]
    pub(crate) fn look(&self, head: &Head<'_>) {
        #[cfg(feature = "tracing")]
        if self.said.get().is_none()
            && (head.headers().contains_key("x-forwarded-for") || head.headers().contains_key("forwarded"))
        {
            self.said.get_or_init(|| {
                tracing::warn!(
                    "a request names its client in a header that is not read: behind a proxy all clients share its \
                     address, unless ClientAddress::x_forwarded_for or forwarded trusts it"
                );
            });
        }
    }
}
