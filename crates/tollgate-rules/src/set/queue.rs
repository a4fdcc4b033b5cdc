//! Queues among the limits of a rule: how long a request waits, and how many more would depart in
//! time.

use std::cmp::Ordering;
use std::time::Duration;

use tollgate::{Outcome, Part, Quota, Rate};

/// What the queues among limits by time say together.
#[derive(Default)]
pub(super) struct Queues<'d> {
    /// How long the request waits, or would wait in a full queue once that has room; and where.
    pub(super) longest: Option<(Duration, Part<'d>)>,
    /// How many more requests of cost 1 depart within the longest wait of the rule, how long until
    /// more do, and where that is least. `None`: the rule bounds no wait.
    pub(super) tightest: Option<(u64, Duration, Part<'d>)>,
}

impl<'d> Queues<'d> {
    pub(super) fn add(&mut self, outcome: Outcome, part: &Part<'d>, quota: &Quota, max_wait: Duration) {
        if !quota.is_queue() {
            return;
        }
        // Once a full queue has room, it is at its longest.
        let time = if outcome == Outcome::Allowed { part.delay() } else { part.reset_after() };
        if self.longest.as_ref().is_none_or(|(longest, _)| time > *longest) {
            self.longest = Some((time, *part));
        }
        if max_wait < Duration::MAX {
            let (remaining, more_after) = within(part, quota.rate(), max_wait);
            if self.tightest.as_ref().is_none_or(|(least, ..)| remaining < *least) {
                self.tightest = Some((remaining, more_after, *part));
            }
        }
    }
}

/// How many more requests of cost 1 a queue admits that wait no longer than `max_wait`, and how
/// long until it admits more. Where an interval is not in whole nanoseconds, it shows one request
/// less for a nanosecond.
#[inline(never)]
fn within(part: &Part<'_>, rate: Rate, max_wait: Duration) -> (u64, Duration) {
    let (count, period) = (u128::from(rate.count().max(1)), rate.period().as_nanos().max(1));
    let (max_wait, queued) = (max_wait.as_nanos(), part.reset_after().as_nanos());
    // The first waits until the queue is empty, each further one an interval longer.
    let departing = max_wait.checked_sub(queued).map_or(0, |spare| spare.saturating_mul(count) / period + 1);
    let departing = u64::try_from(departing).unwrap_or(u64::MAX);
    // One more departs in time once the queue is this short; never, if it cannot be.
    let longest = max_wait.checked_sub((u128::from(departing) * period).div_ceil(count));
    let more = longest.map_or(Duration::ZERO, |longest| {
        Duration::from_nanos(u64::try_from(queued.saturating_sub(longest)).unwrap_or(u64::MAX))
    });
    let (remaining, more_after) = (part.remaining(), part.more_after());
    match departing.cmp(&remaining) {
        Ordering::Less => (departing, more),
        // Nothing more comes if one of the two bounds stays.
        Ordering::Equal if more.is_zero() || more_after.is_zero() => (remaining, Duration::ZERO),
        Ordering::Equal => (remaining, more.max(more_after)),
        Ordering::Greater => (remaining, more_after),
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{Clock, LeakyBucket, ManualClock};

    use crate::{Attribute, Key, Limit, Limits, PlainRequest, Rule, RuleSet, Rules, Scratch};

    use super::*;

    fn request(key: &[u8]) -> PlainRequest {
        PlainRequest { headers: vec![("k".to_owned(), key.to_vec())], ..PlainRequest::default() }
    }

    /// Returns how many more requests depart in time, by making them.
    fn departing(set: &RuleSet<ManualClock>, key: &[u8]) -> u64 {
        let mut scratch = Scratch::default();
        (0..).take_while(|_| set.check(&request(key), &mut scratch).is_admitted()).count() as u64
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
            let limits = |capacity| {
                let queue = LeakyBucket::queue(rate).capacity(capacity);
                Limits::Each(vec![Limit::Quota(queue.into())])
            };
            let key = Key::Attributes(vec![Attribute::Header("k".into())]);
            let mut rule = Rule::new("paced", key, limits(5));
            // Of the same limit: it bounds no wait, so that any number of requests come in.
            let full = RuleSet::new(Rules::of(vec![rule.clone()]), clock.clone()).unwrap();
            rule.max_wait = Some(max_wait);
            let parked = crate::set::Parked::default();
            let succession = crate::set::Succession::plan(Rules::of(vec![rule]), &full, &parked);
            let Ok(crate::set::Succession { set, .. }) = succession else { panic!("the numbers stay") };
            let mut scratch = Scratch::default();
            let state = |key: &[u8]| {
                let line = set.key_at(0, None, key).unwrap().peek(0);
                (line.remaining, line.more_after)
            };
            for (number, used) in
                (0..=5_u8).flat_map(|used| [0_u8, 1, 2].map(|again| (again * 6 + used, used)))
            {
                clock.advance(Duration::from_micros(123_457));
                let key = |copy: u8| [b'a' + number, b'a' + copy];
                // Three keys with the same queue.
                for copy in 0..3 {
                    (0..used).for_each(|_| drop(full.check(&request(&key(copy)), &mut scratch)));
                }
                clock.advance(rate.period() / 10 * u32::from(number));
                let (remaining, more_after) = state(&key(0));
                let context = format!("{rate}, {max_wait:?}, {used}: {remaining} {more_after:?}");
                assert_eq!(remaining, departing(&set, &key(0)), "{context}");
                if more_after.is_zero() {
                    clock.advance(Duration::from_secs(100));
                    assert_eq!(state(&key(2)).0, remaining, "{context}");
                    continue;
                }
                clock.advance(more_after - Duration::from_nanos(1));
                assert_eq!(state(&key(1)).0, remaining, "{context}");
                clock.advance(Duration::from_nanos(1));
                assert!(state(&key(1)).0 > remaining, "{context} at {:?}", clock.now());
            }
        }
    }
}
