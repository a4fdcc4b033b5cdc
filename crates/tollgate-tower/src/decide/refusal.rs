//! Refusals by a rule of the layer, as hooks and responders see them.

use std::time::Duration;

use smallvec::SmallVec;
use tollgate::{Decision, MOST_LIMITS, Timestamp};
use tollgate_http::{HeaderStyles, LimitHeaders, LimitState, QuotaPolicies};
use tollgate_http::{RefusalReason, RefusalRecord};

use crate::rule::LimitSet;

/// A refusal by one rule. [`Refusal`] is its public view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleRefusal {
    /// The index of the rule.
    pub(super) rule: usize,
    /// The index of the limit set that refuses. `None` if no limit of this process does.
    pub(super) set: Option<usize>,
    pub(super) record: RefusalRecord,
}

/// The limits of one rule that refuse a request.
pub(super) struct Refused {
    pub(super) record: RefusalRecord,
    /// Whether all limits that refuse do so because their tables are full.
    is_full: bool,
    /// The numbers of the limits, and their states.
    states: SmallVec<[(usize, LimitState); 2]>,
}

/// Returns which of the limits refuse a request. `None` if they let it depart within `max_wait`.
///
/// If the request would wait too long in a queue, the queue refuses it, with nothing remaining.
pub(super) fn refused_by(
    limits: &LimitSet,
    decision: &Decision<'_, MOST_LIMITS>,
    cost: u64,
    max_wait: Duration,
) -> Option<Refused> {
    let mut record = RefusalRecord::of(decision, cost);
    let queue = limits.longest_queue(decision);
    // Once a full queue has room, it is at its longest: the wait in it may still be too long.
    let queue_time =
        if decision.is_allowed() { decision.delay() } else { queue.map_or(Duration::ZERO, |(_, time)| time) };
    let too_long_by = queue_time.saturating_sub(max_wait);
    if decision.is_allowed() && too_long_by.is_zero() {
        return None;
    }
    if let Some((number, _)) = queue
        && !decision.is_never()
        && record.retry_after.is_none_or(|retry_after| too_long_by > retry_after)
    {
        let limit = decision.parts().nth(number).map_or(0, |limit| limit.limit());
        let state = LimitState { limit, remaining: 0, reset: too_long_by };
        let (slowest, refusing) = (Some(number), 1 << number);
        record = RefusalRecord {
            state: Some(state),
            retry_after: Some(too_long_by),
            slowest,
            refusing,
            ..RefusalRecord::without_limit(RefusalReason::Limited, cost)
        };
        let states = [(number, state)].into_iter().collect();
        return Some(Refused { record, is_full: false, states });
    }
    let refusing = decision.parts().filter(|limit| limit.refuses());
    Some(Refused {
        record,
        is_full: decision.parts().all(|limit| limit.refuses_full() || !limit.refuses()),
        states: refusing.map(|limit| (limit.number(), LimitState::from(&limit))).collect(),
    })
}

impl Refused {
    /// The refusal of a banned key that its limits would let pass: none of them admits anything
    /// until the ban ends.
    pub(super) fn by_ban(decision: &Decision<'_, MOST_LIMITS>, cost: u64, left: Duration) -> Self {
        let states: SmallVec<[_; 2]> = decision
            .parts()
            .map(|limit| (limit.number(), LimitState { limit: limit.limit(), remaining: 0, reset: left }))
            .collect();
        let record = RefusalRecord {
            state: states.first().map(|&(_, state)| state),
            retry_after: Some(left),
            slowest: Some(0),
            refusing: (1 << states.len()) - 1,
            ..RefusalRecord::without_limit(RefusalReason::Limited, cost)
        };
        Self { record, is_full: false, states }
    }

    /// Makes a refusal for now last until the key's ban ends, in this time.
    pub(super) fn prolong(&mut self, left: Duration) {
        let states = self.states.iter_mut().map(|(_, state)| state);
        for state in states.chain(&mut self.record.state) {
            (state.remaining, state.reset) = (0, state.reset.max(left));
        }
        self.record.retry_after = self.record.retry_after.max(Some(left));
    }

    /// Whether the refusal bans its key: the key's own debt refuses it, and a later retry may be
    /// admitted.
    pub(super) fn bans(&self) -> bool {
        self.is_for_now() && !self.is_full
    }

    /// Whether a later retry may be admitted.
    pub(super) fn is_for_now(&self) -> bool {
        self.record.reason == RefusalReason::Limited
    }
}

/// The refusals of one request, by all rules that refuse it.
#[derive(Default)]
pub(super) struct Refusals<'l> {
    /// The refusal that lasts longest: one for good, or the one with the longest wait.
    pub(super) longest: Option<RuleRefusal>,
    /// The time from which the resets of `limits` count.
    pub(super) decided_at: Option<Timestamp>,
    /// The names of the limits that refuse, and their states.
    limits: Vec<(&'l str, LimitState)>,
    /// The policies of all rules that apply to the request, in the order of the rules.
    pub(super) policies: Vec<&'l QuotaPolicies>,
}

impl<'l> Refusals<'l> {
    /// `policies` are those of the rules that admitted the request.
    pub(super) fn new(policies: impl Iterator<Item = &'l QuotaPolicies>) -> Self {
        Self { policies: policies.collect(), ..Self::default() }
    }

    /// Adds the refusal by a rule.
    pub(super) fn add(&mut self, refusal: RuleRefusal) {
        // A spent limit whose wait is not known, as of requests in flight, yields to a known wait:
        // a retry before that would be refused anyway.
        let lasts = |refusal: &RuleRefusal| {
            let RefusalRecord { reason, retry_after, .. } = refusal.record;
            (reason != RefusalReason::Limited, retry_after)
        };
        if self.longest.is_none_or(|longest| lasts(&refusal) > lasts(&longest)) {
            self.longest = Some(refusal);
        }
    }

    /// Adds the limits of a rule that refuse, by a decision at this time.
    pub(super) fn add_limits(&mut self, limits: &'l LimitSet, refused: &Refused, decided_at: Timestamp) {
        self.policies.push(&limits.policies);
        for &(number, state) in &refused.states {
            self.add_limit(&limits.policies.names()[number], state, decided_at);
        }
    }

    /// Adds a limit that refuses, by a decision at this time.
    pub(super) fn add_limit(&mut self, name: &'l str, state: LimitState, decided_at: Timestamp) {
        let later = decided_at.saturating_since(*self.decided_at.get_or_insert(decided_at));
        self.limits.push((name, LimitState { reset: state.reset.saturating_add(later), ..state }));
    }

    pub(super) fn headers(&self, styles: HeaderStyles) -> LimitHeaders {
        let policy = || QuotaPolicies::header_of_all(self.policies.iter().copied());
        LimitHeaders::new(styles, policy, |items| {
            self.limits.iter().for_each(|&(name, state)| items.add(name, state));
        })
    }
}
