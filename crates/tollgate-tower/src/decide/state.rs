//! The state of a layer, and what needs nothing else: reports, refusals, charges given back.

use std::error::Error;
use std::time::Duration;

use http::{Extensions, Request, Response, Uri};
use tollgate::Receipt;
use tollgate_backend::AnyReceipt;
#[cfg(feature = "tracing")]
use tollgate_http::RuleOutcome;
use tollgate_http::{HeaderStyles, KeyBuf, Refusal, RequestHead, Respond, UnixZero};

use super::refusal::RuleRefusal;
use super::response_headers::{ResponseClock, ResponseHeaders};
use super::verdict::{RuleReport, Verdict};
use crate::hooks::{Hooks, RuleDecision};
use crate::rule::{CompiledRule, Decider, RuleMatch, SharedClock};

/// Returns a future that completes after a duration.
pub(crate) type Sleep =
    Box<dyn Fn(Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Finds the request target before a router rewrote it, in the extensions of a request.
pub(crate) type OriginalUri = Box<dyn Fn(&Extensions) -> Option<&Uri> + Send + Sync>;

/// The state that a layer shares with its services: everything but the responder.
pub(crate) struct LayerState {
    pub(crate) rules: Box<[CompiledRule]>,
    pub(crate) styles: HeaderStyles,
    pub(crate) hooks: Hooks,
    pub(crate) clock: SharedClock,
    /// The same clock.
    pub(crate) response_clock: ResponseClock,
    pub(crate) unix_zero: UnixZero,
    pub(crate) sleep: Sleep,
    pub(crate) original_uri: Option<OriginalUri>,
    /// Whether any rule has a backend.
    pub(crate) has_backends: bool,
    /// Whether the response changes what a request is charged by some rule.
    pub(crate) awaits_responses: bool,
}

impl LayerState {
    /// Returns the head of a request, with its original target.
    #[inline]
    pub(crate) fn head<'r, B>(&self, request: &'r Request<B>) -> RequestHead<'r> {
        self.original(RequestHead::of(request))
    }

    /// Returns a head with the original target of its request.
    #[inline]
    pub(crate) fn original<'r>(&self, head: RequestHead<'r>) -> RequestHead<'r> {
        let Some(original_uri) = &self.original_uri else { return head };
        original_uri(head.extensions()).map_or(head, |uri| head.with_uri(uri))
    }

    /// Reports what each rule decided about a request.
    #[inline]
    pub(crate) fn report(&self, head: &RequestHead<'_>, verdict: &Verdict) {
        if self.hooks.need_reports() {
            self.report_all(*head, verdict);
        }
    }

    fn report_all(&self, head: RequestHead<'_>, verdict: &Verdict) {
        #[cfg(any(feature = "metrics", feature = "tracing"))]
        let looks_at_tables = crate::telemetry::looks_at_tables();
        for &RuleReport { rule, outcome, cost, limit } in &verdict.reports {
            let rule = &self.rules[rule];
            rule.telemetry.count(outcome);
            #[cfg(any(feature = "metrics", feature = "tracing"))]
            if looks_at_tables {
                rule.telemetry.report_tables(&rule.table_stats());
            }
            #[cfg(feature = "tracing")]
            if outcome != RuleOutcome::Allowed {
                let (outcome, shadow) = (outcome.as_str(), rule.shadow);
                tracing::debug!(rule = &*rule.name, outcome, shadow, path = ?head.path(), cost, "not admitted");
            }
            if let Some(on_decision) = &self.hooks.on_decision {
                let shadow = rule.shadow;
                on_decision(&RuleDecision { head, rule: &rule.name, outcome, shadow, cost, limit });
            }
        }
        if let (Some(on_limited), Some(refusal)) = (&self.hooks.on_limited, &verdict.refusal) {
            on_limited(&self.refusal(head, refusal));
        }
    }

    pub(crate) fn report_backend_error(&self, rule: usize, error: &(dyn Error + Send + Sync + 'static)) {
        let name = &*self.rules[rule].name;
        #[cfg(feature = "tracing")]
        tracing::warn!(rule = name, %error, "a backend failed");
        if let Some(on_backend_error) = &self.hooks.on_backend_error {
            on_backend_error(name, error);
        }
    }

    /// Shows a refusal to a hook or a responder.
    pub(crate) fn refusal<'r>(&'r self, head: RequestHead<'r>, refusal: &'r RuleRefusal) -> Refusal<'r> {
        let rule = &self.rules[refusal.rule];
        let names = refusal.set.map_or(&[][..], |set| rule.decider.limit_set(set).policies.names());
        Refusal::new(head, &rule.name, names, &refusal.record)
    }

    /// Makes the response to a refused request.
    pub(crate) fn refuse<ResBody>(
        &self,
        head: RequestHead<'_>,
        refusal: &RuleRefusal,
        mut headers: ResponseHeaders,
        responder: &impl Respond<ResBody>,
    ) -> Response<ResBody> {
        let refusal = self.refusal(head, refusal);
        let mut response = responder.respond(&refusal);
        headers.write_refusal(response.headers_mut(), refusal.retry_after());
        response
    }

    /// Gives a charge back by a limit that came with the request.
    pub(super) fn give_back_call(&self, rule: usize, receipt: Receipt) {
        if let Decider::PerRequest(limits) = &self.rules[rule].decider {
            limits.give_back(receipt);
        }
    }

    /// Gives a charge back to the backend of a rule.
    pub(super) fn give_back_there(&self, rule: usize, receipt: AnyReceipt) {
        if let Decider::Backend(remote) = &self.rules[rule].decider
            && let Err(fault) = remote.backend.refund(receipt)
        {
            self.report_backend_error(rule, &fault);
        }
    }

    /// Returns whether a rule with a backend applies. Charges nothing.
    pub(super) fn needs_backend(&self, head: &RequestHead<'_>) -> bool {
        let mut key = KeyBuf::new();
        let mut rules = self.rules.iter().filter(|rule| matches!(rule.decider, Decider::Backend(_)));
        rules.any(|rule| matches!(rule.match_request(head, &mut key), RuleMatch::Check(_)))
    }
}
