//! The evaluation of one request, rule by rule.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate::{MultiDecision, Outcome, Timestamp};
use tollgate_backend::{AnyReceipt, BackendReply};
use tollgate_http::{HeaderStyles, LimitHeaders, LimitState, QuotaPolicies};
use tollgate_http::{RefusalReason, RefusalRecord, RuleOutcome};

use super::LayerState;
use super::charges::{Charge, Charges, Of};
use super::owned_charges::OwnedCharges;
use super::refusal::RuleRefusal;
use super::response_headers::ResponseHeaders;
use crate::rule::{CheckRequest, LimitSet, MAX_RULES, QueueTurn};

/// A request that is checked against the rules, one after the other.
///
/// Each method that decides a rule returns whether the request is still admitted. A shadow rule
/// always admits.
pub(super) struct Evaluation<'l, 'v> {
    state: &'l LayerState,
    /// The charges so far. Dropping them refunds them, unless they are settled.
    charges: Charges<'l>,
    verdict: &'v mut Verdict,
    /// The latest departure from the queues in which the request has a turn.
    departure: Option<Timestamp>,
}

/// The result of an evaluation. It does not borrow from the limits.
#[derive(Default)]
pub(crate) struct Verdict {
    /// The reports for hooks, counters and events, in the order of the decisions. Empty if none of
    /// them is used. A rule whose backend failed may have two reports.
    pub(crate) reports: SmallVec<[RuleReport; MAX_RULES]>,
    pub(crate) headers: ResponseHeaders,
    /// `None` if the request is admitted.
    pub(crate) refusal: Option<Box<RuleRefusal>>,
}

/// The outcome of one rule, for hooks, counters and events.
pub(crate) struct RuleReport {
    /// The index of the rule.
    pub(crate) rule: usize,
    pub(crate) outcome: RuleOutcome,
    pub(crate) cost: u64,
}

impl<'l, 'v> Evaluation<'l, 'v> {
    #[inline]
    pub(super) fn new(state: &'l LayerState, verdict: &'v mut Verdict) -> Self {
        Self { state, charges: Charges::new(state), verdict, departure: None }
    }

    /// Checks the request against limits of this process.
    #[inline]
    pub(super) fn check(&mut self, rule: usize, limits: &'l LimitSet, request: CheckRequest<'_>) -> bool {
        if limits.may_queue() && !self.state.rules[rule].shadow {
            return self.check_queue(rule, limits, request);
        }
        let decision = limits.limiter.check_n(request.key, request.cost);
        self.apply(rule, limits, request, decision)
    }

    fn check_queue(&mut self, rule: usize, limits: &'l LimitSet, request: CheckRequest<'_>) -> bool {
        let CheckRequest { key, cost, .. } = request;
        let max_wait = self.state.rules[rule].max_wait;
        if let Some(turn) = limits.claim_abandoned_turn(request, max_wait) {
            // The engine has charged the turn to the request that abandoned it.
            let current = limits.limiter.prepare(key).peek_n(0);
            return self.queue(rule, limits, cost, current, turn);
        }
        // Peek before the charge: a charge that is refunded would leave a gap in front of a request
        // that came in between.
        let expected = limits.limiter.prepare(key).peek_n(cost);
        if expected.delay() > max_wait {
            return self.refuse_long_wait(rule, limits, request, &expected, expected.delay() - max_wait);
        }
        let change_count = limits.change_count();
        let decision = limits.limiter.check_n(key, cost);
        let delay = decision.delay();
        if delay.is_zero() {
            return self.apply(rule, limits, request, decision);
        }
        let departure = limits.limiter.now() + delay;
        let turn = QueueTurn { key: key.into(), departure, units: cost, change_count };
        if delay > max_wait {
            let admitted = self.refuse_long_wait(rule, limits, request, &decision, delay - max_wait);
            limits.give_back(decision.receipt(), Some(turn));
            return admitted;
        }
        self.queue(rule, limits, cost, decision, turn)
    }

    /// Gives the request a turn in a queue.
    fn queue(
        &mut self,
        rule: usize,
        limits: &'l LimitSet,
        cost: u64,
        decision: MultiDecision<'l>,
        turn: QueueTurn,
    ) -> bool {
        self.departure = self.departure.max(Some(turn.departure));
        self.report(rule, RuleOutcome::Allowed, cost);
        let charge = Charge { rule, shadow: false, of: Of::Here(limits, decision) };
        self.charges.push_waiting(charge, turn);
        true
    }

    /// Applies the decision of limits that let the request go at once or refuse it.
    // Inlined, so that the decision is written once and not copied.
    #[inline(always)]
    fn apply(
        &mut self,
        rule: usize,
        limits: &'l LimitSet,
        request: CheckRequest<'_>,
        decision: MultiDecision<'l>,
    ) -> bool {
        if !decision.is_allowed() {
            return self.refuse(rule, limits, request, decision);
        }
        self.report(rule, RuleOutcome::Allowed, request.cost);
        if self.needs_decision(rule) {
            let shadow = self.state.rules[rule].shadow;
            self.charges.push(Charge { rule, shadow, of: Of::Here(limits, decision) });
        }
        true
    }

    /// Returns whether the rule's decision is needed later, for a refund or for headers.
    #[inline]
    fn needs_decision(&self, rule: usize) -> bool {
        let state = self.state;
        let is_last = rule + 1 == state.rules.len();
        !state.styles.is_empty()
            || !is_last
            || self.departure.is_some()
            || state.rules[rule].charge_if.is_some()
    }

    #[inline(never)]
    fn refuse(
        &mut self,
        rule: usize,
        limits: &'l LimitSet,
        request: CheckRequest<'_>,
        decision: MultiDecision<'l>,
    ) -> bool {
        let record = RefusalRecord::of(&decision, request.cost);
        if let (Some((_, queue_time)), Some(retry_after)) =
            (limits.longest_queue(&decision), record.retry_after)
        {
            // Once the queue has room, it is at its longest: the wait in it may still be too long.
            let too_long_by = queue_time.saturating_sub(self.state.rules[rule].max_wait);
            if too_long_by > retry_after {
                return self.refuse_long_wait(rule, limits, request, &decision, too_long_by);
            }
        }
        let refusal = RuleRefusal { rule, set: Some(request.set), record };
        self.apply_refusal(refusal, |styles| limits.policies.headers(styles, &decision))
    }

    /// Refuses a request whose wait in a queue would exceed `max_wait` until `retry_after` has
    /// passed. The headers show nothing remaining, even if the queue has room.
    fn refuse_long_wait(
        &mut self,
        rule: usize,
        limits: &'l LimitSet,
        request: CheckRequest<'_>,
        decision: &MultiDecision<'_>,
        retry_after: Duration,
    ) -> bool {
        let number = limits.longest_queue(decision).map_or(0, |(number, _)| number);
        let limit = decision.parts().nth(number).map_or(0, |limit| limit.limit());
        let state = LimitState { limit, remaining: 0, reset: retry_after };
        let record = RefusalRecord {
            reason: RefusalReason::Limited,
            cost: request.cost,
            state: Some(state),
            retry_after: Some(retry_after),
            slowest: Some(number),
            refusing: 1 << number,
        };
        let policies = &limits.policies;
        self.apply_refusal(RuleRefusal { rule, set: Some(request.set), record }, |styles| {
            let policy = || QuotaPolicies::header_of_all([policies].into_iter());
            LimitHeaders::new(styles, policy, |items| items.add(&policies.names()[number], state))
        })
    }

    /// Applies the decision of a backend.
    pub(super) fn apply_reply(&mut self, rule: usize, reply: BackendReply<AnyReceipt>, cost: u64) -> bool {
        let (name, shadow) = (&*self.state.rules[rule].name, self.state.rules[rule].shadow);
        let state = LimitState { limit: reply.limit, remaining: reply.remaining, reset: reply.wait };
        let (reason, retry_after) = match reply.outcome {
            Outcome::Allowed => {
                self.report(rule, RuleOutcome::Allowed, cost);
                self.charges.push_there(
                    Charge { rule, shadow, of: Of::There(state, self.state.clock.now()) },
                    reply.receipt,
                );
                return true;
            }
            Outcome::Denied => (RefusalReason::Limited, Some(reply.wait)),
            Outcome::Never => (RefusalReason::CostAboveLimit, None),
        };
        let record =
            RefusalRecord { state: Some(state), retry_after, ..RefusalRecord::without_limit(reason, cost) };
        self.apply_refusal(RuleRefusal { rule, set: None, record }, |styles| {
            LimitHeaders::new(styles, || None, |items| items.add(name, state))
        })
    }

    /// Refuses a request without a key.
    pub(super) fn refuse_without_key(&mut self, rule: usize) -> bool {
        self.refuse_without_limit(rule, RefusalReason::NoKey, 0)
    }

    /// Refuses a request because the rule's backend failed.
    pub(super) fn refuse_for_backend_error(&mut self, rule: usize, cost: u64) -> bool {
        self.refuse_without_limit(rule, RefusalReason::BackendFailed, cost)
    }

    fn refuse_without_limit(&mut self, rule: usize, reason: RefusalReason, cost: u64) -> bool {
        let record = RefusalRecord::without_limit(reason, cost);
        self.apply_refusal(RuleRefusal { rule, set: None, record }, |styles| {
            LimitHeaders::new(styles, || None, |_| {})
        })
    }

    /// Reports that the rule's backend failed, without a decision.
    pub(super) fn report_backend_failed(&mut self, rule: usize, cost: u64) {
        self.report(rule, RuleOutcome::BackendFailed, cost);
    }

    fn report(&mut self, rule: usize, outcome: RuleOutcome, cost: u64) {
        if self.state.hooks.need_reports() {
            self.verdict.reports.push(RuleReport { rule, outcome, cost });
        }
    }

    fn apply_refusal(
        &mut self,
        refusal: RuleRefusal,
        headers: impl FnOnce(HeaderStyles) -> LimitHeaders,
    ) -> bool {
        let RuleRefusal { rule, record, .. } = refusal;
        self.report(rule, record.reason.outcome(), record.cost);
        let shadow = self.state.rules[rule].shadow;
        if !shadow {
            self.verdict.refusal = Some(Box::new(refusal));
            let headers = headers(self.state.styles);
            self.verdict.headers = self.response_headers(headers, || self.state.clock.now());
        }
        shadow
    }

    #[inline]
    fn response_headers(&self, headers: LimitHeaders, at: impl Fn() -> Timestamp) -> ResponseHeaders {
        let state = self.state;
        if !state.styles.show_unix_time() {
            return ResponseHeaders::new(headers, at(), &state.response_clock);
        }
        let decided_at = at();
        let headers = headers.unix_time(state.unix_zero.unix_time(&state.clock, decided_at));
        ResponseHeaders::new(headers, decided_at, &state.response_clock)
    }

    /// Completes the verdict. A refused request is refunded when the evaluation is dropped.
    ///
    /// Returns the charges that must outlive the evaluation: all if the request has to wait for its
    /// departure; else those of rules with a `charge_if`. The others are settled.
    #[inline]
    pub(super) fn finish(&mut self, state: &Arc<LayerState>) -> Option<OwnedCharges> {
        if self.verdict.refusal.is_some() {
            return None;
        }
        if !self.state.styles.is_empty() {
            let (headers, decided_at) = self.charges.headers(self.state.styles);
            self.verdict.headers = self.response_headers(headers, || decided_at);
        }
        let waits = self.departure.is_some();
        if waits || self.state.has_charge_if {
            return Some(self.charges.own(state, waits));
        }
        self.charges.settle();
        None
    }
}
