//! The evaluation of one request, rule by rule.

use std::sync::Arc;

use tollgate::{Decision, MOST_LIMITS, Outcome, Timestamp};
use tollgate_backend::StoreReply;
use tollgate_http::{LimitHeaders, LimitState, RefusalReason, RefusalRecord, RuleOutcome};

use super::charges::{Charge, Charges, Extra, Of};
use super::owned_charges::OwnedCharges;
use super::refusal::{Refusals, Refused, RuleRefusal, refused_by};
use super::response_headers::ResponseHeaders;
use super::state::LayerState;
use super::verdict::{RuleReport, Verdict};
use crate::rule::{CheckRequest, CompiledRule, Decider, LimitSet, QueueTurn, RuleMatch, tightest};

/// A request that is checked against the rules, one after the other.
///
/// Each method that decides a rule returns whether the request is still admitted. A shadow rule
/// always admits.
pub(super) struct Evaluation<'l, 'v> {
    pub(super) state: &'l LayerState,
    /// The charges so far. Dropping them refunds them, unless they are settled.
    pub(super) charges: Charges<'l>,
    verdict: &'v mut Verdict,
    /// The latest departure from the queues in which the request has a turn.
    departure: Option<Timestamp>,
    /// `None` while no rule refuses the request.
    refusals: Option<Box<Refusals<'l>>>,
    /// Whether the charges are kept back until the request is served.
    keeps_charges: bool,
}

impl<'l, 'v> Evaluation<'l, 'v> {
    #[inline]
    pub(super) fn new(state: &'l LayerState, verdict: &'v mut Verdict) -> Self {
        Self {
            state,
            charges: Charges::new(state),
            verdict,
            departure: None,
            refusals: None,
            keeps_charges: false,
        }
    }

    /// Lets the charges of an admitted request outlive the evaluation, and be refunded unless they
    /// are settled.
    #[inline]
    pub(super) fn keep_charges(mut self, keeps_charges: bool) -> Self {
        self.keeps_charges = keeps_charges;
        self
    }

    /// Checks the request against limits of this process.
    #[inline]
    pub(super) fn check(&mut self, rule: usize, limits: &'l LimitSet, request: CheckRequest<'_>) -> bool {
        let clock = &self.state.clock;
        if let Some(end) = self.banned_until(rule, request.key, || clock.now()) {
            return self.refuse_banned(rule, limits, request, (clock.now(), end));
        }
        if limits.may_queue() && !self.state.rules[rule].shadow {
            return self.check_queue(rule, limits, request);
        }
        let decision = limits.limiter.check_n(request.key, request.cost);
        self.apply(rule, limits, request, decision)
    }

    fn check_queue(&mut self, rule: usize, limits: &'l LimitSet, request: CheckRequest<'_>) -> bool {
        let CheckRequest { key, cost, max_wait, .. } = request;
        if let Some(turn) = limits.claim_abandoned_turn(request) {
            // The engine has charged the turn to the request that abandoned it.
            let current = limits.limiter.account(key).peek_n(0);
            return self.queue(rule, limits, request, current, turn);
        }
        // Peek before the charge: a charge that is refunded would leave a gap in front of a request
        // that came in between.
        let expected = limits.limiter.account(key).peek_n(cost);
        if expected.delay() > max_wait {
            return self.refuse(rule, limits, request, &expected);
        }
        let change_count = limits.change_count();
        let decision = limits.limiter.check_n(key, cost);
        let delay = decision.delay();
        if delay.is_zero() {
            return self.apply(rule, limits, request, decision);
        }
        let departure = limits.limiter.now() + delay;
        let turn = limits.charged_turn(key, departure, cost, change_count);
        if delay > max_wait {
            let admitted = self.refuse(rule, limits, request, &decision);
            limits.give_back(decision.receipt(), Some(turn));
            return admitted;
        }
        self.queue(rule, limits, request, decision, turn)
    }

    /// Gives the request a turn in a queue.
    fn queue(
        &mut self,
        rule: usize,
        limits: &'l LimitSet,
        request: CheckRequest<'_>,
        decision: Decision<'l, MOST_LIMITS>,
        turn: QueueTurn,
    ) -> bool {
        // As in `apply`.
        let now = decision.decided_at();
        if let Some(end) = self.banned_until(rule, request.key, || now) {
            limits.give_back(decision.receipt(), Some(turn));
            return self.refuse_banned(rule, limits, request, (now, end));
        }
        self.departure = self.departure.max(Some(turn.departure()));
        self.report(rule, RuleOutcome::Allowed, request.cost, || Some(tightest(&decision)));
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
        decision: Decision<'l, MOST_LIMITS>,
    ) -> bool {
        if !decision.is_allowed() {
            return self.refuse(rule, limits, request, &decision);
        }
        // Again, after the charge: another thread may have banned the key meanwhile.
        let now = decision.decided_at();
        if let Some(end) = self.banned_until(rule, request.key, || now) {
            limits.give_back(decision.receipt(), None);
            return self.refuse_banned(rule, limits, request, (now, end));
        }
        self.report(rule, RuleOutcome::Allowed, request.cost, || Some(tightest(&decision)));
        if self.needs_decision(rule) {
            let shadow = self.state.rules[rule].shadow;
            let charge = Charge { rule, shadow, of: Of::Here(limits, decision) };
            if self.state.rules[rule].cost_from.is_some() {
                self.charges.push_with_key(charge, request.key);
            } else {
                self.charges.push(charge);
            }
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
            || self.keeps_charges
            || self.departure.is_some()
            || state.rules[rule].awaits_response()
    }

    #[inline(never)]
    fn refuse(
        &mut self,
        rule: usize,
        limits: &'l LimitSet,
        request: CheckRequest<'_>,
        decision: &Decision<'l, MOST_LIMITS>,
    ) -> bool {
        let Some(mut refused) = refused_by(limits, decision, request.cost, request.max_wait) else {
            return true;
        };
        let now = decision.decided_at();
        self.begin_ban(rule, request.key, &mut refused, now);
        self.apply_refused(rule, limits, request, &refused, now)
    }

    pub(super) fn apply_refused(
        &mut self,
        rule: usize,
        limits: &'l LimitSet,
        request: CheckRequest<'_>,
        refused: &Refused,
        now: Timestamp,
    ) -> bool {
        let refusal = RuleRefusal { rule, set: Some(request.set), record: refused.record };
        self.apply_refusal(refusal, |refusals| refusals.add_limits(limits, refused, now))
    }

    /// Lets a later rule judge a request that is refused already, so that the response tells when
    /// no rule would refuse it, and a shadow rule what it would decide. Charges nothing and asks no
    /// backend.
    pub(super) fn judge_refused(&mut self, rule: usize, matched: RuleMatch<'_>) {
        let CompiledRule { shadow, decider, .. } = &self.state.rules[rule];
        if *shadow {
            return self.preview(rule, decider, matched);
        }
        match (matched, decider) {
            (RuleMatch::DoesNotApply, _) | (RuleMatch::Check(_), Decider::Backend(_)) => {}
            (RuleMatch::NoKey, _) => drop(self.refuse_without_key(rule)),
            (RuleMatch::Check(request), Decider::Local(sets)) => {
                let limits = &sets[request.set];
                let decision = limits.limiter.account(request.key).peek_n(request.cost);
                let now = decision.decided_at();
                if let Some(end) = self.banned_until(rule, request.key, || now) {
                    self.refuse_banned(rule, limits, request, (now, end));
                } else if refused_by(limits, &decision, request.cost, request.max_wait).is_some() {
                    self.refuse(rule, limits, request, &decision);
                } else if let Some(refusals) = &mut self.refusals {
                    refusals.policies.push(&limits.policies);
                }
            }
            (RuleMatch::Check(request), Decider::PerRequest(limits)) => {
                self.judge_refused_call(rule, limits, request);
            }
            (RuleMatch::Check(request), Decider::InFlight(sets)) => {
                self.judge_refused_in_flight(rule, &sets[request.set], request);
            }
        }
    }

    /// Reports what a shadow rule would decide about a request that another rule refuses.
    fn preview(&mut self, index: usize, decider: &'l Decider, matched: RuleMatch<'_>) {
        match (matched, decider) {
            (RuleMatch::DoesNotApply, _) | (RuleMatch::Check(_), Decider::Backend(_)) => {}
            (RuleMatch::NoKey, _) => self.report(index, RuleOutcome::NoKey, 0, || None),
            (RuleMatch::Check(request), Decider::Local(sets)) => {
                let limits = &sets[request.set];
                let decision = limits.limiter.account(request.key).peek_n(request.cost);
                let now = decision.decided_at();
                if let Some(end) = self.banned_until(index, request.key, || now) {
                    self.refuse_banned(index, limits, request, (now, end));
                } else if decision.is_allowed() {
                    self.report(index, RuleOutcome::Allowed, request.cost, || Some(tightest(&decision)));
                } else {
                    self.refuse(index, limits, request, &decision);
                }
            }
            (RuleMatch::Check(request), Decider::PerRequest(limits)) => {
                self.preview_call(index, limits, request);
            }
            (RuleMatch::Check(request), Decider::InFlight(sets)) => {
                self.preview_in_flight(index, &sets[request.set], request);
            }
        }
    }

    /// Applies the decision of a backend, or of a limit that came with the request.
    pub(super) fn apply_reply<E: Into<Extra>>(
        &mut self,
        rule: usize,
        reply: StoreReply<E>,
        cost: u64,
    ) -> bool {
        let (name, shadow) = (&*self.state.rules[rule].name, self.state.rules[rule].shadow);
        let state = LimitState { limit: reply.limit, remaining: reply.remaining, reset: reply.wait() };
        let (reason, retry_after) = match reply.outcome {
            Outcome::Allowed => {
                self.report(rule, RuleOutcome::Allowed, cost, || Some(state));
                self.charges.push_there(
                    Charge { rule, shadow, of: Of::There(state, self.state.clock.now()) },
                    reply.receipt,
                );
                return true;
            }
            Outcome::Denied => (RefusalReason::Limited, Some(reply.wait())),
            Outcome::Never => (RefusalReason::CostAboveLimit, None),
        };
        let record =
            RefusalRecord { state: Some(state), retry_after, ..RefusalRecord::without_limit(reason, cost) };
        let now = self.state.clock.now();
        let refusal = RuleRefusal { rule, set: None, record };
        self.apply_refusal(refusal, |refusals| refusals.add_limit(name, state, now))
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
        self.apply_refusal(RuleRefusal { rule, set: None, record }, |_| {})
    }

    /// Reports that the rule's backend failed, without a decision.
    pub(super) fn report_backend_failed(&mut self, rule: usize, cost: u64) {
        self.report(rule, RuleOutcome::BackendFailed, cost, || None);
    }

    #[inline]
    pub(super) fn report(
        &mut self,
        rule: usize,
        outcome: RuleOutcome,
        cost: u64,
        limit: impl FnOnce() -> Option<LimitState>,
    ) {
        let hooks = &self.state.hooks;
        if hooks.need_reports() {
            let limit = if hooks.need_limits() { limit() } else { None };
            self.verdict.reports.push(RuleReport { rule, outcome, cost, limit });
        }
    }

    /// Refuses the request unless the rule is a shadow rule. `add_limits` adds the limits that
    /// refuse.
    pub(super) fn apply_refusal(
        &mut self,
        refusal: RuleRefusal,
        add_limits: impl FnOnce(&mut Refusals<'l>),
    ) -> bool {
        let RuleRefusal { rule, record, .. } = refusal;
        self.report(rule, record.reason.outcome(), record.cost, || record.state);
        let shadow = self.state.rules[rule].shadow;
        if !shadow {
            let charges = &self.charges;
            let refusals = self.refusals.get_or_insert_with(|| Box::new(Refusals::new(charges.policies())));
            add_limits(refusals);
            refusals.add(refusal);
        }
        shadow
    }

    #[inline]
    fn response_headers(&self, headers: LimitHeaders, decided_at: Timestamp) -> ResponseHeaders {
        let LayerState { styles, unix_zero, clock, response_clock, .. } = self.state;
        let headers = match styles.show_unix_time() {
            true => headers.unix_time(unix_zero.unix_time(clock, decided_at)),
            false => headers,
        };
        ResponseHeaders::new(headers, decided_at, response_clock)
    }

    #[inline(never)]
    fn refuse_for_longest(&mut self, refusals: Refusals<'l>) {
        let headers = refusals.headers(self.state.styles);
        let decided_at = refusals.decided_at.unwrap_or_default();
        self.verdict.headers = self.response_headers(headers, decided_at);
        self.verdict.refusal = refusals.longest.map(Box::new);
    }

    /// Completes the verdict. A refused request is refunded when the evaluation is dropped.
    ///
    /// Returns the charges that must outlive the evaluation: all if the request has to wait for its
    /// departure, or if they are kept; else those of rules that await the response. The others are
    /// settled.
    #[inline]
    pub(super) fn finish(&mut self, state: &Arc<LayerState>) -> Option<OwnedCharges> {
        if let Some(refusals) = self.refusals.take() {
            self.refuse_for_longest(*refusals);
            return None;
        }
        if !self.state.styles.is_empty() {
            let (headers, decided_at) = self.charges.headers(self.state.styles);
            self.verdict.headers = self.response_headers(headers, decided_at);
        }
        let all = self.departure.is_some() || self.keeps_charges;
        if all || self.state.awaits_responses {
            return Some(self.charges.own(state, all));
        }
        self.charges.settle();
        None
    }

    /// Returns when the ban of a key by a rule ends. `None` if the key is not banned at `now`.
    #[inline]
    pub(super) fn banned_until(
        &self,
        rule: usize,
        key: &[u8],
        now: impl FnOnce() -> Timestamp,
    ) -> Option<Timestamp> {
        let ban = self.state.rules[rule].ban.as_ref()?;
        ban.end(key, now())
    }

    /// Refuses a request whose key is banned from `now` until `end`.
    #[inline(never)]
    pub(super) fn refuse_banned(
        &mut self,
        rule: usize,
        limits: &'l LimitSet,
        request: CheckRequest<'_>,
        (now, end): (Timestamp, Timestamp),
    ) -> bool {
        let left = end.saturating_since(now);
        let decision = limits.limiter.account(request.key).at(now).peek_n(request.cost);
        let refused = match refused_by(limits, &decision, request.cost, request.max_wait) {
            None => Refused::by_ban(&decision, request.cost, left),
            Some(mut refused) => {
                if refused.is_for_now() {
                    refused.prolong(left);
                }
                refused
            }
        };
        self.apply_refused(rule, limits, request, &refused, now)
    }

    /// Bans a key that the rule refuses, if the rule has bans and the refusal is one that
    /// [bans](Refused::bans). It then lasts until the ban ends.
    pub(super) fn begin_ban(&self, rule: usize, key: &[u8], refused: &mut Refused, now: Timestamp) {
        if let Some(ban) = &self.state.rules[rule].ban
            && refused.bans()
            && let Some(end) = ban.start(key, now)
        {
            refused.prolong(end.saturating_since(now));
        }
    }
}
