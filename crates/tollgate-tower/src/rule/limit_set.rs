//! The limits that decide a request together, and their rate limit headers.

use std::cmp::{Ordering, Reverse};
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{BuildError, Decision, Inherit, MOST_LIMITS, Part, Quota, Receipt, Timestamp};
use tollgate_http::{HeaderItems, LimitState, QuotaPolicies};

use super::local::LocalLimiter;
use super::queue_turn::QueueTurn;
use super::queue_turns::QueueTurns;
use super::request::CheckRequest;

/// The limits of a rule, of one of its tiers, or of one key. They charge a request all or nothing.
pub(crate) struct LimitSet {
    pub(crate) limiter: LocalLimiter,
    /// The index of this set in its rule.
    pub(crate) index: usize,
    /// A bit for each limit that is a queue, by the limit's number.
    queues: u64,
    pub(crate) policies: QuotaPolicies,
    turns: Arc<QueueTurns>,
}

impl LimitSet {
    pub(crate) fn new(rule: &str, index: usize, quotas: &[Quota], limiter: LocalLimiter) -> Self {
        let policies = QuotaPolicies::new(rule, quotas);
        Self { limiter, index, queues: queues(quotas), policies, turns: Arc::default() }
    }

    /// Makes other quotas and their `RateLimit-Policy` current.
    pub(crate) fn reconfigure(&self, quotas: &[Quota], inherit: Inherit) -> Result<(), BuildError> {
        // A save is waited for before the turns are locked: requests wait for those.
        self.limiter.change(|limiter| {
            self.turns.change_limits(|| {
                if quotas.len() == self.len() && queues(quotas) != self.queues {
                    return Err(BuildError::CannotInherit { field: "mode" });
                }
                limiter.change().to(quotas.to_vec()).inherit(inherit).apply()?;
                self.policies.change(quotas);
                Ok(())
            })
        })
    }

    /// Runs `change`, which takes debt from a key. The turns in queues that clients abandoned, or
    /// hold now and abandon later, are lost: the engine may give them to new requests.
    pub(crate) fn change_debt<T>(&self, change: impl FnOnce(&LocalLimiter) -> T) -> T {
        if !self.may_queue() {
            return change(&self.limiter);
        }
        let changed = self.turns.change_limits(|| Ok::<_, Infallible>(change(&self.limiter)));
        changed.unwrap_or_else(|never| match never {})
    }

    /// Returns whether a limit is a queue, which may make a request wait.
    #[inline]
    pub(crate) fn may_queue(&self) -> bool {
        self.queues != 0
    }

    /// Adds the state of each limit after an admission to headers whose resets count from a time
    /// that is this much earlier. No request waits longer than `max_wait`.
    #[inline]
    pub(crate) fn add_items(
        &self,
        decision: &Decision<'_, MOST_LIMITS>,
        max_wait: Duration,
        later: Duration,
        items: &mut HeaderItems<'_>,
    ) {
        for limit in decision.parts() {
            let mut state = LimitState::from(&limit);
            if max_wait < Duration::MAX && self.is_queue(limit.number()) {
                state = self.within_max_wait(&limit, state, max_wait);
            }
            let name = &self.policies.names()[limit.number()];
            items.add(name, LimitState { reset: state.reset.saturating_add(later), ..state });
        }
    }

    /// Returns the state of a queue in which no request waits longer than `max_wait`: how many more
    /// requests of cost 1 it admits at once, and the time until it admits more. Where an interval
    /// is not in whole nanoseconds, it shows one request less for a nanosecond.
    #[inline(never)]
    fn within_max_wait(&self, limit: &Part<'_>, state: LimitState, max_wait: Duration) -> LimitState {
        let Some(rate) = self.policies.rate(limit.number()) else { return state };
        let (count, period) = (u128::from(rate.count().max(1)), rate.period().as_nanos().max(1));
        let (max_wait, queued) = (max_wait.as_nanos(), limit.reset_after().as_nanos());
        // The first waits until the queue is empty, each further one an interval longer.
        let departing =
            max_wait.checked_sub(queued).map_or(0, |spare| spare.saturating_mul(count) / period + 1);
        let departing = u64::try_from(departing).unwrap_or(u64::MAX);
        // One more departs in time once the queue is this short; never, if it cannot be.
        let longest = max_wait.checked_sub((u128::from(departing) * period).div_ceil(count));
        let more = longest.map_or(Duration::ZERO, |longest| {
            Duration::from_nanos(u64::try_from(queued.saturating_sub(longest)).unwrap_or(u64::MAX))
        });
        match departing.cmp(&state.remaining) {
            Ordering::Less => LimitState { remaining: departing, reset: more, ..state },
            // Nothing more comes if one of the two bounds stays.
            Ordering::Equal if more.is_zero() || state.reset.is_zero() => {
                LimitState { reset: Duration::ZERO, ..state }
            }
            Ordering::Equal => LimitState { reset: more.max(state.reset), ..state },
            Ordering::Greater => state,
        }
    }

    /// Returns the number of the longest queue and the time until it is empty.
    pub(crate) fn longest_queue(&self, decision: &Decision<'_, MOST_LIMITS>) -> Option<(usize, Duration)> {
        let queues = (0..self.len()).filter(|&number| self.is_queue(number));
        let queue_time =
            |number| decision.parts().nth(number).map_or(Duration::ZERO, |limit| limit.reset_after());
        queues.map(|number| (number, queue_time(number))).max_by_key(|(_, time)| *time)
    }

    #[inline]
    fn is_queue(&self, number: usize) -> bool {
        self.queues & (1 << number) != 0
    }

    /// Returns the number of limits.
    fn len(&self) -> usize {
        self.policies.names().len()
    }

    /// Returns how often the limits were changed. Read it before a [`QueueTurn`] is charged.
    pub(crate) fn change_count(&self) -> u64 {
        self.turns.change_count()
    }

    /// Returns the turn of a request that was charged for it.
    pub(crate) fn charged_turn(
        &self,
        key: &[u8],
        departure: Timestamp,
        cost: u64,
        change_count: u64,
    ) -> QueueTurn {
        self.turns.charged(key, departure, cost, change_count)
    }

    /// Lets a request wait that has a turn. It moves up if this is the only limit: another one has
    /// charged the request by its own time.
    pub(crate) fn wait(&self, turn: &mut QueueTurn) {
        if self.len() == 1 {
            turn.wait(self.limiter.now());
        }
    }

    /// Claims an abandoned turn that departs within the request's `max_wait`. A request of cost 0
    /// needs no turn.
    pub(crate) fn claim_abandoned_turn(&self, request: CheckRequest<'_>) -> Option<QueueTurn> {
        if request.cost == 0 || self.turns.is_empty() {
            return None;
        }
        let now = self.limiter.now();
        self.turns.claim(request.key, request.cost, now, now + request.max_wait)
    }

    /// Refunds a request. If the engine cannot take the request's turn back, those that wait behind
    /// it move up.
    pub(crate) fn give_back(&self, receipt: Receipt<8>, turn: Option<QueueTurn>) {
        // With several limits, the others refund the request, and a request that claims the turn
        // would not be charged by them.
        let mut turn = turn.filter(|_| self.len() == 1);
        turn.iter_mut().for_each(QueueTurn::stay);
        let is_charged = turn.as_ref().is_none_or(QueueTurn::is_own);
        let refunded = if is_charged { self.limiter.refund(receipt) } else { 0 };
        if let Some(turn) = turn
            && refunded == 0
        {
            turn.abandon(self.limiter.now());
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

/// Returns the state of the limit that decides: the one that refuses longest, or else the one with
/// the least remaining.
pub(crate) fn tightest(decision: &Decision<'_, MOST_LIMITS>) -> LimitState {
    let mut states = decision.parts().map(|limit| LimitState::from(&limit));
    let state = match decision.refused_by() {
        Some(number) => states.nth(number),
        None => states.min_by_key(|state| (state.remaining, Reverse(state.reset))),
    };
    state.expect("a decision has at least one limit")
}

impl fmt::Debug for LimitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitSet").field("limiter", &self.limiter).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{LeakyBucket, ManualClock, Rate};

    use super::*;

    /// Returns how many more requests depart within `max_wait`, by making them.
    fn departing(limits: &LimitSet, key: &[u8], max_wait: Duration) -> u64 {
        let departs = || limits.limiter.account(key).peek_n(1);
        let departs = || departs().is_allowed() && departs().delay() <= max_wait;
        (0..).take_while(|_| departs() && limits.limiter.check_n(key, 1).is_allowed()).count() as u64
    }

    #[test]
    fn a_queues_remaining_and_reset_are_exact_under_max_wait() {
        let rates = [(10, 1_000), (4, 1_000), (1, 700), (8, 10)]
            .map(|(count, ms)| Rate::new(count, Duration::from_millis(ms)));
        for (rate, max_wait) in
            rates.iter().flat_map(|&rate| [0, 1, 500, 1_000, 2_500].map(|wait| (rate, wait)))
        {
            let max_wait = Duration::from_millis(max_wait);
            let clock = ManualClock::new();
            let quotas = [LeakyBucket::queue(rate).capacity(5).into()];
            let limiter =
                LocalLimiter::new(&quotas, None, Default::default(), Arc::new(clock.clone())).unwrap();
            let limits = LimitSet::new("paced", 0, &quotas, limiter);
            let state = |key: &[u8]| {
                let decision = limits.limiter.account(key).peek_n(0);
                let limit = decision.parts().next().unwrap();
                limits.within_max_wait(&limit, LimitState::from(&limit), max_wait)
            };
            for (number, used) in
                (0..=5_u8).flat_map(|used| [0_u8, 1, 2].map(|again| (again * 6 + used, used)))
            {
                clock.advance(Duration::from_micros(123_457));
                let key = |copy: u8| [number, copy];
                // Three keys with the same queue.
                (0..3).for_each(|copy| drop(limits.limiter.check_n(key(copy), used.into())));
                clock.advance(rate.period() / 10 * u32::from(number));
                let shown = state(&key(0));
                let context = format!("{rate}, {max_wait:?}, {used}: {shown:?}");
                assert_eq!(shown.remaining, departing(&limits, &key(0), max_wait), "{context}");
                if shown.reset.is_zero() {
                    clock.advance(Duration::from_secs(100));
                    assert_eq!(state(&key(2)).remaining, shown.remaining, "{context}");
                    continue;
                }
                clock.advance(shown.reset - Duration::from_nanos(1));
                assert_eq!(state(&key(1)).remaining, shown.remaining, "{context}");
                clock.advance(Duration::from_nanos(1));
                assert!(state(&key(1)).remaining > shown.remaining, "{context}");
            }
        }
    }
}
