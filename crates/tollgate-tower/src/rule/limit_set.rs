//! The limits that decide a request together, and their rate limit headers.

use std::time::Duration;

use tollgate::{BuildError, Inherit, MultiDecision, Quota, Receipt};
use tollgate_http::{HeaderItems, LimitState, QuotaPolicies};

use super::CheckRequest;
use super::abandoned_turns::{AbandonedTurns, QueueTurn};
use super::local::LocalLimiter;

/// The limits of a rule, of one of its tiers, or of one key. They charge a request all or nothing.
pub(crate) struct LimitSet {
    pub(crate) limiter: LocalLimiter,
    /// The index of this set in its rule.
    pub(crate) index: usize,
    /// A bit for each limit that is a queue, by the limit's number.
    queues: u64,
    pub(crate) policies: QuotaPolicies,
    abandoned_turns: AbandonedTurns,
}

impl LimitSet {
    pub(crate) fn new(rule: &str, index: usize, quotas: &[Quota], limiter: LocalLimiter) -> Self {
        let policies = QuotaPolicies::new(rule, quotas);
        let abandoned_turns = AbandonedTurns::default();
        Self { limiter, index, queues: queues(quotas), policies, abandoned_turns }
    }

    /// Makes other quotas and their `RateLimit-Policy` current.
    pub(crate) fn reconfigure(&self, quotas: &[Quota], inherit: Inherit) -> Result<(), BuildError> {
        self.abandoned_turns.change_limits(|| {
            if quotas.len() == self.len() && queues(quotas) != self.queues {
                return Err(BuildError::CannotInherit { field: "mode" });
            }
            self.limiter.reconfigure(quotas.iter().copied(), inherit)?;
            self.policies.change(quotas);
            Ok(())
        })
    }

    /// Returns whether a limit is a queue, which may make a request wait.
    #[inline]
    pub(crate) fn may_queue(&self) -> bool {
        self.queues != 0
    }

    /// Adds the state of each limit after an admission to headers whose resets count from a time
    /// that is this much earlier.
    #[inline]
    pub(crate) fn add_items(
        &self,
        decision: &MultiDecision<'_>,
        later: Duration,
        items: &mut HeaderItems<'_>,
    ) {
        for limit in decision.parts() {
            let state = LimitState::from(&limit);
            let name = &self.policies.names()[limit.number()];
            items.add(name, LimitState { reset: state.reset.saturating_add(later), ..state });
        }
    }

    /// Returns the number of the longest queue and the time until it is empty.
    pub(crate) fn longest_queue(&self, decision: &MultiDecision<'_>) -> Option<(usize, Duration)> {
        let queues = (0..self.len()).filter(|number| self.queues & (1 << number) != 0);
        let queue_time =
            |number| decision.parts().nth(number).map_or(Duration::ZERO, |limit| limit.reset_after());
        queues.map(|number| (number, queue_time(number))).max_by_key(|(_, time)| *time)
    }

    /// Returns the number of limits.
    fn len(&self) -> usize {
        self.policies.names().len()
    }

    /// Returns how often the limits were changed. Read it before a [`QueueTurn`] is charged.
    pub(crate) fn change_count(&self) -> u64 {
        self.abandoned_turns.change_count()
    }

    /// Claims an abandoned turn that departs within `max_wait`. A request of cost 0 needs no turn.
    pub(crate) fn claim_abandoned_turn(
        &self,
        request: CheckRequest<'_>,
        max_wait: Duration,
    ) -> Option<QueueTurn> {
        if request.cost == 0 || self.abandoned_turns.is_empty() {
            return None;
        }
        let now = self.limiter.now();
        self.abandoned_turns.claim(request.key, request.cost, now, now + max_wait)
    }

    /// Refunds a request. If the engine cannot take the request's turn back, the turn is kept for
    /// the next request.
    pub(crate) fn give_back(&self, receipt: Receipt<8>, turn: Option<QueueTurn>) {
        // With several limits, the others refund the request, and a request that claims the turn
        // would not be charged by them.
        let turn = turn.filter(|_| self.len() == 1);
        let refunded = self.limiter.refund(receipt);
        if let Some(turn) = turn
            && refunded == 0
        {
            self.abandoned_turns.offer(turn, self.limiter.now());
        }
    }
}

/// Returns a mask with a bit for each queue, by its number.
fn queues(quotas: &[Quota]) -> u64 {
    quotas
        .iter()
        .enumerate()
        .fold(0, |queues, (number, quota)| queues | u64::from(quota.is_queue()) << number)
}
