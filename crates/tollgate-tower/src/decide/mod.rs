//! From a request to a verdict.

mod call;
mod charges;
mod delayed;
mod evaluation;
mod in_flight;
mod owned_charges;
mod refusal;
mod response_headers;
mod state;
mod verdict;
mod waiting;

use std::sync::Arc;

use tollgate_http::{KeyBuf, RequestHead};

pub(crate) use delayed::DelayedVerdict;
use delayed::{ask_backends, depart};
pub(crate) use owned_charges::OwnedCharges;
pub(crate) use response_headers::{ResponseClock, ResponseHeaders};
pub(crate) use state::{LayerState, OriginalUri, Sleep};
pub(crate) use verdict::Verdict;

use crate::rule::{Decider, RuleMatch};
use evaluation::Evaluation;

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
}
