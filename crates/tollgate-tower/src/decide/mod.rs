//! From a request to a verdict.

mod bans;
mod call;
mod charges;
mod delayed;
mod evaluation;
mod in_flight;
mod owned_charges;
mod refusal;
mod response_headers;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use http::{Extensions, Request, Uri};
use tollgate::CallDecision;
use tollgate_backend::AnyReceipt;
use tollgate_http::{HeaderStyles, KeyBuf, RequestHead, UnixZero};

pub(crate) use delayed::DelayedVerdict;
use delayed::{ask_backends, depart};
pub(crate) use evaluation::{RuleReport, Verdict};
pub(crate) use owned_charges::OwnedCharges;
pub(crate) use response_headers::{ResponseClock, ResponseHeaders};

use crate::hooks::Hooks;
use crate::rule::{CompiledRule, Decider, RuleMatch, SharedClock};
use evaluation::Evaluation;

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

/// Whether a request's verdict is complete.
#[expect(
    clippy::large_enum_variant,
    reason = "a boxed charge would be an allocation for each request that its response decides"
)]
pub(crate) enum Decided {
    Now,
    /// The request is admitted, and its response may give these charges back. Not settled, if the
    /// inner service is not ready.
    ByResponse(OwnedCharges),
    /// The request waits for a queue or a backend.
    Later(DelayedVerdict),
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

    /// Decides a request. Reports the decision unless it is made later. If the inner service is not
    /// ready, the charges are not settled before it is.
    // The verdict is written in place: moving a value right after it was written would stall.
    #[inline]
    pub(crate) fn decide(
        self: &Arc<Self>,
        head: &RequestHead<'_>,
        is_ready: bool,
        verdict: &mut Verdict,
    ) -> Decided {
        let needs_backend = self.has_backends && self.needs_backend(head);
        match if needs_backend { None } else { self.decide_here(head, is_ready, verdict) } {
            None => Decided::Later(ask_backends(Arc::clone(self), head)),
            Some(None) => {
                self.report(head, verdict);
                Decided::Now
            }
            Some(Some(charges)) => self.complete(charges, head, is_ready, verdict),
        }
    }

    /// Completes the decision of a request whose charges outlive it.
    #[inline(never)]
    fn complete(
        &self,
        charges: OwnedCharges,
        head: &RequestHead<'_>,
        is_ready: bool,
        verdict: &mut Verdict,
    ) -> Decided {
        if !charges.wait().is_zero() {
            return Decided::Later(Box::pin(depart(std::mem::take(verdict), charges)));
        }
        let charges = if is_ready { charges.settle() } else { Some(charges) };
        self.report(head, verdict);
        charges.map_or(Decided::Now, Decided::ByResponse)
    }

    /// Decides a request by limits of this process. Returns the charges that must outlive the
    /// decision; `None` if a backend has to decide. Charges so far are then refunded.
    fn decide_here(
        self: &Arc<Self>,
        head: &RequestHead<'_>,
        is_ready: bool,
        verdict: &mut Verdict,
    ) -> Option<Option<OwnedCharges>> {
        let mut evaluation = Evaluation::new(self, verdict).keep_charges(!is_ready);
        let mut key = KeyBuf::new();
        for (index, rule) in self.rules.iter().enumerate() {
            let admitted = match (rule.match_request(head, &mut key), &rule.decider) {
                (RuleMatch::DoesNotApply, _) => rule.pass_by(head),
                (RuleMatch::NoKey, _) => evaluation.refuse_without_key(index),
                (RuleMatch::Check(request), Decider::Local(sets)) => {
                    evaluation.check(index, &sets[request.set], request)
                }
                (RuleMatch::Check(request), Decider::PerRequest(limits)) => {
                    evaluation.check_call(index, limits, request)
                }
                (RuleMatch::Check(request), Decider::InFlight(sets)) => {
                    evaluation.check_in_flight(index, &sets[request.set], request)
                }
                // The rule's closures gave `needs_backend` another answer.
                (RuleMatch::Check(_), Decider::Backend(_)) => return None,
            };
            if !admitted {
                for (later, rule) in self.rules.iter().enumerate().skip(index + 1) {
                    evaluation.judge_refused(later, rule.match_request(head, &mut key));
                }
                break;
            }
        }
        Some(evaluation.finish(self))
    }

    /// Gives a charge back by a limit that came with the request.
    fn give_back_call(&self, rule: usize, decision: CallDecision) {
        if let Decider::PerRequest(limits) = &self.rules[rule].decider {
            limits.give_back(decision);
        }
    }

    /// Gives a charge back to the backend of a rule.
    fn give_back_there(&self, rule: usize, receipt: AnyReceipt) {
        if let Decider::Backend(remote) = &self.rules[rule].decider
            && let Err(fault) = remote.backend.refund(receipt)
        {
            self.report_backend_error(rule, &fault);
        }
    }

    /// Returns whether a rule with a backend applies. Charges nothing.
    fn needs_backend(&self, head: &RequestHead<'_>) -> bool {
        let mut key = KeyBuf::new();
        let mut rules = self.rules.iter().filter(|rule| matches!(rule.decider, Decider::Backend(_)));
        rules.any(|rule| matches!(rule.match_request(head, &mut key), RuleMatch::Check(_)))
    }
}
