//! Requests that are decided by the limit that came with them.

use tollgate::{CallDecision, CallError, Outcome};
use tollgate_backend::BackendReply;
use tollgate_http::{LimitState, RefusalReason, RuleOutcome};

use super::evaluation::Evaluation;
use crate::rule::{CheckRequest, PerRequest};

impl Evaluation<'_, '_> {
    /// Checks the request by its own limit.
    pub(super) fn check_call(&mut self, rule: usize, limits: &PerRequest, request: CheckRequest<'_>) -> bool {
        let Some(answer) = limits.check(request) else { return true };
        match answer {
            Ok(decision) => self.apply_reply(rule, reply_of(decision), request.cost),
            Err(error) => match refusal_for(error, limits) {
                Some(reason) => self.refuse_without_limit(rule, reason, request.cost),
                None => {
                    self.report(rule, RuleOutcome::Allowed, request.cost, || None);
                    true
                }
            },
        }
    }

    /// Lets the limit judge a request that another rule refuses. Charges nothing.
    pub(super) fn judge_refused_call(&mut self, rule: usize, limits: &PerRequest, request: CheckRequest<'_>) {
        match limits.peek(request) {
            Some(Ok(decision)) if !decision.is_allowed() => {
                self.apply_reply(rule, reply_of(decision), request.cost);
            }
            Some(Err(error)) => {
                if let Some(reason) = refusal_for(error, limits) {
                    self.refuse_without_limit(rule, reason, request.cost);
                }
            }
            Some(Ok(_)) | None => {}
        }
    }

    /// Reports what a shadow rule would decide about a request that another rule refuses.
    pub(super) fn preview_call(&mut self, rule: usize, limits: &PerRequest, request: CheckRequest<'_>) {
        let Some(answer) = limits.peek(request) else { return };
        let (outcome, state) = match &answer {
            Ok(decision) => (outcome_of(decision.outcome()), Some(state_of(decision))),
            Err(error) => {
                let refusal = refusal_for(*error, limits);
                (refusal.map_or(RuleOutcome::Allowed, RefusalReason::outcome), None)
            }
        };
        self.report(rule, outcome, request.cost, || state);
    }
}

fn reply_of(decision: CallDecision) -> BackendReply<CallDecision> {
    let LimitState { limit, remaining, reset: wait } = state_of(&decision);
    BackendReply { outcome: decision.outcome(), limit, remaining, wait, receipt: Some(decision) }
}

fn outcome_of(outcome: Outcome) -> RuleOutcome {
    match outcome {
        Outcome::Allowed => RuleOutcome::Allowed,
        Outcome::Denied => RuleOutcome::Limited,
        Outcome::Never => RuleOutcome::CostAboveLimit,
    }
}

fn state_of(decision: &CallDecision) -> LimitState {
    let reset = decision.retry_after().unwrap_or_else(|| decision.reset_after());
    LimitState { limit: decision.limit(), remaining: decision.remaining(), reset }
}

/// Returns why a request without a decision is refused. `None` if it is admitted.
fn refusal_for(error: CallError, limits: &PerRequest) -> Option<RefusalReason> {
    match error {
        CallError::Full { .. } if limits.allows_when_full => None,
        CallError::Full { .. } => Some(RefusalReason::Limited),
        // A number is too large to compute with.
        _ => Some(RefusalReason::CostAboveLimit),
    }
}
