//! Requests that are decided by the limit that came with them.

use tollgate::Outcome;
use tollgate_http::{LimitState, RuleOutcome};

use super::evaluation::Evaluation;
use crate::rule::{CheckRequest, PerRequest};

impl Evaluation<'_, '_> {
    /// Checks the request by its own limit.
    pub(super) fn check_call(&mut self, rule: usize, limits: &PerRequest, request: CheckRequest<'_>) -> bool {
        let Some(reply) = limits.check(request) else { return true };
        self.apply_reply(rule, reply, request.cost)
    }

    /// Lets the limit judge a request that another rule refuses. Charges nothing.
    pub(super) fn judge_refused_call(&mut self, rule: usize, limits: &PerRequest, request: CheckRequest<'_>) {
        if let Some(reply) = limits.peek(request)
            && reply.outcome != Outcome::Allowed
        {
            self.apply_reply(rule, reply, request.cost);
        }
    }

    /// Reports what a shadow rule would decide about a request that another rule refuses.
    pub(super) fn preview_call(&mut self, rule: usize, limits: &PerRequest, request: CheckRequest<'_>) {
        let Some(reply) = limits.peek(request) else { return };
        let outcome = match reply.outcome {
            Outcome::Allowed => RuleOutcome::Allowed,
            Outcome::Denied => RuleOutcome::Limited,
            Outcome::Never => RuleOutcome::CostAboveLimit,
        };
        let state = LimitState { limit: reply.limit, remaining: reply.remaining, reset: reply.wait() };
        self.report(rule, outcome, request.cost, || Some(state));
    }
}
