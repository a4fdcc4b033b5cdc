//! The limits that decide a request together, and their rate limit headers.

use std::time::Duration;

use http::HeaderValue;
use tollgate::{BuildError, Inherit, MultiDecision, Quota, Receipt};

use super::CheckRequest;
use super::abandoned_turns::{AbandonedTurns, QueueTurn};
use super::local::{LimitStates, LocalLimiter};
use super::policy_history::PolicyHistory;
use crate::headers::{HeaderItems, MAX_SF_INTEGER, join, seconds_up};

/// The limits of a rule, of one of its tiers, or of one key. They charge a request all or nothing.
pub(crate) struct LimitSet {
    pub(crate) limiter: LocalLimiter,
    /// The index of this set in its rule.
    pub(crate) index: usize,
    /// A bit for each limit that is a queue, by the limit's number.
    queues: u64,
    /// The name of each limit in headers, by the limit's number.
    names: Box<[Box<str>]>,
    policies: PolicyHistory,
    abandoned_turns: AbandonedTurns,
}

impl LimitSet {
    pub(crate) fn new(rule: &str, index: usize, quotas: &[Quota], limiter: LocalLimiter) -> Self {
        let mut names: Vec<Box<str>> = Vec::with_capacity(quotas.len());
        for (number, quota) in quotas.iter().enumerate() {
            let mut name =
                if quotas.len() == 1 { rule.to_owned() } else { format!("{rule}/{}", period(quota)) };
            if names.iter().any(|other| **other == *name) {
                name = format!("{name}-{}", number + 1);
            }
            names.push(name.into());
        }
        Self {
            limiter,
            index,
            queues: queues(quotas),
            policies: PolicyHistory::new(policy_items(&names, quotas)),
            names: names.into(),
            abandoned_turns: AbandonedTurns::default(),
        }
    }

    /// Makes other quotas and their `RateLimit-Policy` current.
    pub(crate) fn reconfigure(&self, quotas: &[Quota], inherit: Inherit) -> Result<(), BuildError> {
        self.abandoned_turns.change_limits(|| {
            if quotas.len() == self.names.len() && queues(quotas) != self.queues {
                return Err(BuildError::CannotInherit { field: "mode" });
            }
            self.limiter.reconfigure(quotas.iter().copied(), inherit)?;
            self.policies.change(policy_items(&self.names, quotas));
            Ok(())
        })
    }

    /// Returns whether a limit is a queue, which may make a request wait.
    #[inline]
    pub(crate) fn may_queue(&self) -> bool {
        self.queues != 0
    }

    /// Returns the number of the longest queue and the time until it is empty.
    pub(crate) fn longest_queue(&self, decision: &MultiDecision<'_>) -> Option<(usize, Duration)> {
        let queues = (0..self.names.len()).filter(|number| self.queues & (1 << number) != 0);
        queues.map(|number| (number, decision.queue_time(number))).max_by_key(|(_, time)| *time)
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
        let turn = turn.filter(|_| self.names.len() == 1);
        let refunded = self.limiter.refund(receipt);
        if let Some(turn) = turn
            && refunded == 0
        {
            self.abandoned_turns.offer(turn, self.limiter.now());
        }
    }

    /// Returns the names of the limits in headers, by their numbers.
    pub(crate) fn names(&self) -> &[Box<str>] {
        &self.names
    }

    pub(crate) fn name(&self, number: usize) -> &str {
        &self.names[number]
    }

    /// Adds each limit's state to the headers; after a refusal, only the limits that refuse.
    pub(crate) fn add_items(&self, decision: &MultiDecision<'_>, items: &mut HeaderItems<'_>) {
        let admitted = decision.is_allowed();
        decision.each_state(|number, refuses, state| {
            if admitted || refuses {
                items.add(self.name(number), state);
            }
        });
    }

    /// Returns `RateLimit-Policy` of the limits whose bit is set in `mask`.
    pub(crate) fn policy_header_of(&self, mask: u64) -> Option<HeaderValue> {
        let items = self.policies.items().enumerate().filter(|(number, _)| mask & (1 << number) != 0);
        join(items.map(|(_, item)| item))
    }

    /// Returns `RateLimit-Policy` of all limits.
    pub(crate) fn policy_header(&self) -> Option<HeaderValue> {
        self.policies.header()
    }

    /// Returns the `RateLimit-Policy` item of each limit.
    pub(crate) fn policy_items(&self) -> impl Iterator<Item = &str> {
        self.policies.items()
    }
}

/// Returns a mask with a bit for each queue, by its number.
fn queues(quotas: &[Quota]) -> u64 {
    quotas
        .iter()
        .enumerate()
        .fold(0, |queues, (number, quota)| queues | u64::from(quota.is_queue()) << number)
}

/// Returns the `RateLimit-Policy` item of each limit.
fn policy_items(names: &[Box<str>], quotas: &[Quota]) -> Vec<String> {
    let item = |(name, quota): (_, &Quota)| {
        format!("\"{name}\";q={};w={}", quota.limit().min(MAX_SF_INTEGER), window_seconds(quota))
    };
    names.iter().zip(quotas).map(item).collect()
}

/// Returns the period as rates write it: `s`, `min`, `h`, `d`, `10s`.
fn period(quota: &Quota) -> String {
    let rate = quota.rate().to_string();
    match rate.split_once('/') {
        Some((_, period)) if period.is_ascii() => period.to_owned(),
        // The standard library writes microseconds with a Greek letter, illegal in a rule's name.
        _ => format!("{}ns", quota.rate().period().as_nanos()),
    }
}

/// Returns the seconds, rounded up, in which the whole limit comes back.
fn window_seconds(quota: &Quota) -> u64 {
    let rate = quota.rate();
    let nanos =
        rate.period().as_nanos().saturating_mul(quota.limit().into()) / u128::from(rate.count().max(1));
    seconds_up(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate::{FixedWindow, LeakyBucket, ManualClock, Rate, TokenBucket, WhenFull};

    use crate::rule::SharedClock;
    use crate::rule::local::local_limiter;

    use super::*;

    fn policy_items_of(quotas: &[Quota]) -> Vec<String> {
        let clock: SharedClock = Arc::new(ManualClock::new());
        let limiter = local_limiter(quotas, None, WhenFull::default(), clock).unwrap();
        LimitSet::new("api", 0, quotas, limiter).policy_items().map(str::to_owned).collect()
    }

    #[test]
    fn a_policy_has_its_limit_and_its_window_in_seconds() {
        assert_eq!(
            policy_items_of(&[TokenBucket::new(Rate::per_second(10)).burst(25).into()]),
            ["\"api\";q=25;w=3"]
        );
        assert_eq!(
            policy_items_of(&[LeakyBucket::queue(Rate::per_second(10)).capacity(3).into()]),
            ["\"api\";q=3;w=1"]
        );
    }

    #[test]
    fn a_policy_stays_within_the_integers_of_structured_fields() {
        let vast = TokenBucket::new(Rate::per_second(1_000_000_000)).burst(10_000_000_000_000_000);
        assert_eq!(policy_items_of(&[vast.into()]), ["\"api\";q=999999999999999;w=10000000"]);
    }

    #[test]
    fn the_names_of_several_limits_end_with_their_periods() {
        let rates = [
            Rate::per_second(10),
            Rate::per_hour(1_000),
            Rate::new(5, Duration::from_secs(10)),
            Rate::new(1, Duration::from_micros(7)),
            Rate::per_hour(2_000),
        ];
        assert_eq!(
            policy_items_of(&rates.map(|rate| FixedWindow::new(rate).into())),
            [
                "\"api/s\";q=10;w=1",
                "\"api/h\";q=1000;w=3600",
                "\"api/10s\";q=5;w=10",
                "\"api/7000ns\";q=1;w=1",
                "\"api/h-5\";q=2000;w=3600"
            ]
        );
    }
}
