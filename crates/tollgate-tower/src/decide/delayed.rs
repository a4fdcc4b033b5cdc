//! Requests that wait for a departure or a backend.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tollgate::CallQuota;
use tollgate_http::{KeyBuf, RequestHead};

use super::evaluation::Evaluation;
use super::owned_charges::OwnedCharges;
use super::state::LayerState;
use super::verdict::Verdict;
use super::waiting::Waiting;
use crate::rule::{CheckRequest, CompiledRule, Decider, Fallback, RuleMatch};

/// Completes with the verdict, and with the charges that the response may give back. Dropping it
/// before refunds all charges: the client left.
pub(crate) type DelayedVerdict = Pin<Box<dyn Future<Output = (Verdict, Option<OwnedCharges>)> + Send>>;

/// A [`RuleMatch`] that does not borrow the request.
#[expect(clippy::large_enum_variant, reason = "nearly all are the large ones")]
enum OwnedMatch {
    DoesNotApply,
    NoKey,
    Check { key: KeyBuf, cost: u64, set: usize, max_wait: Duration, quota: Option<CallQuota> },
}

impl OwnedMatch {
    fn of(rule: &CompiledRule, head: &RequestHead<'_>) -> Self {
        let mut key = KeyBuf::new();
        match rule.match_request(head, &mut key) {
            RuleMatch::DoesNotApply => {
                rule.pass_by(head);
                Self::DoesNotApply
            }
            RuleMatch::NoKey => Self::NoKey,
            RuleMatch::Check(CheckRequest { cost, set, max_wait, quota, .. }) => {
                Self::Check { key, cost, set, max_wait, quota }
            }
        }
    }

    fn borrow(&self) -> RuleMatch<'_> {
        match *self {
            Self::DoesNotApply => RuleMatch::DoesNotApply,
            Self::NoKey => RuleMatch::NoKey,
            Self::Check { ref key, cost, set, max_wait, quota } => {
                RuleMatch::Check(CheckRequest { key: key.as_bytes(), cost, set, max_wait, quota })
            }
        }
    }
}

/// Decides a request to which a rule with a backend applies.
pub(super) fn ask_backends(state: Arc<LayerState>, head: &RequestHead<'_>) -> DelayedVerdict {
    let matches: Vec<_> = state.rules.iter().map(|rule| OwnedMatch::of(rule, head)).collect();
    Box::pin(async move {
        let mut verdict = Verdict::default();
        match evaluate(&state, &matches, &mut verdict).await {
            Some(charges) => depart(verdict, charges).await,
            None => (verdict, None),
        }
    })
}

/// Waits until the request may depart from its queues.
pub(super) async fn depart(verdict: Verdict, mut charges: OwnedCharges) -> (Verdict, Option<OwnedCharges>) {
    charges.begin_to_wait();
    let mut waiting = None;
    loop {
        let wait = charges.wait();
        if wait.is_zero() {
            if let Some(waiting) = waiting {
                Waiting::depart(waiting);
            }
            return (verdict, charges.settle());
        }
        if waiting.is_none() {
            waiting = charges.waiting();
        }
        charges.sleep(wait).await;
    }
}

async fn evaluate(
    state: &Arc<LayerState>,
    matches: &[OwnedMatch],
    verdict: &mut Verdict,
) -> Option<OwnedCharges> {
    let mut evaluation = Evaluation::new(state, verdict);
    for (index, (rule, owned)) in state.rules.iter().zip(matches).enumerate() {
        let admitted = match (owned.borrow(), &rule.decider) {
            (RuleMatch::DoesNotApply, _) => true,
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
            (RuleMatch::Check(request), Decider::Backend(remote)) => {
                let sleep = |deadline| (state.sleep)(deadline);
                match remote.backend.decide(request.key, request.cost, sleep).await {
                    Ok(reply) => evaluation.apply_reply(index, reply, request.cost),
                    Err(error) => {
                        state.report_backend_error(index, &*error);
                        match &remote.fallback {
                            Fallback::Allow => {
                                evaluation.report_backend_failed(index, request.cost);
                                true
                            }
                            Fallback::Refuse => evaluation.refuse_for_backend_error(index, request.cost),
                            Fallback::LimitLocally(limits) => {
                                evaluation.report_backend_failed(index, request.cost);
                                evaluation.check(index, limits, request)
                            }
                        }
                    }
                }
            }
        };
        if !admitted {
            for (later, owned) in matches.iter().enumerate().skip(index + 1) {
                evaluation.judge_refused(later, owned.borrow());
            }
            break;
        }
    }
    evaluation.finish(state)
}
