//! Requests that are limited by how many are in flight.

use tollgate::AcquireError;
use tollgate_http::{RefusalReason, RefusalRecord, RuleOutcome};

use super::charges::{Charge, Extra, Of};
use super::evaluation::Evaluation;
use super::refusal::RuleRefusal;
use crate::rule::{CheckRequest, InFlightSet};

impl<'l> Evaluation<'l, '_> {
    /// Takes the request's places.
    pub(super) fn check_in_flight(
        &mut self,
        rule: usize,
        limit: &InFlightSet,
        request: CheckRequest<'_>,
    ) -> bool {
        match limit.acquire(request) {
            Ok(place) => {
                let state = limit.state(request.key);
                self.report(rule, RuleOutcome::Allowed, request.cost, || Some(state));
                let (shadow, now) = (self.state.rules[rule].shadow, self.state.clock.now());
                let charge = Charge { rule, shadow, of: Of::There(state, now) };
                self.charges.push_there(charge, Some(Extra::Place(place)));
                true
            }
            Err(error) => self.refuse_in_flight(rule, limit, request, error),
        }
    }

    fn refuse_in_flight(
        &mut self,
        rule: usize,
        limit: &InFlightSet,
        request: CheckRequest<'_>,
        error: AcquireError,
    ) -> bool {
        let state = limit.refusing_state(request.key, request.cost);
        let record = RefusalRecord {
            state: Some(state),
            ..RefusalRecord::without_limit(reason_of(error), request.cost)
        };
        let (name, now) = (&*self.state.rules[rule].name, self.state.clock.now());
        self.apply_refusal(RuleRefusal { rule, set: None, record }, |refusals| {
            refusals.add_limit(name, state, now);
        })
    }

    /// Lets the limit judge a request that another rule refuses. Takes nothing.
    pub(super) fn judge_refused_in_flight(
        &mut self,
        rule: usize,
        limit: &InFlightSet,
        request: CheckRequest<'_>,
    ) {
        if let Err(error) = limit.peek(request.key, request.cost) {
            self.refuse_in_flight(rule, limit, request, error);
        }
    }

    /// Reports what a shadow rule would decide about a request that another rule refuses.
    pub(super) fn preview_in_flight(&mut self, rule: usize, limit: &InFlightSet, request: CheckRequest<'_>) {
        let (outcome, state) = match limit.peek(request.key, request.cost) {
            Ok(()) => (RuleOutcome::Allowed, limit.state(request.key)),
            Err(error) => (reason_of(error).outcome(), limit.refusing_state(request.key, request.cost)),
        };
        self.report(rule, outcome, request.cost, || Some(state));
    }
}

fn reason_of(error: AcquireError) -> RefusalReason {
    match error {
        AcquireError::Never { .. } => RefusalReason::CostAboveLimit,
        _ => RefusalReason::Limited,
    }
}
