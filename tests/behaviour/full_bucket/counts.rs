//! The counts of full buckets: of several limits each counts what a limiter of it alone counts.

use std::time::Duration;

use tollgate::{Limiter, ManualClock, Quota, Rate, Stats, TokenBucket, WhenFull};
use tollgate_testing::keys::Fellow;
use tollgate_testing::limits;
use tollgate_testing::random::Random;

use super::start;

/// Of which no table is ever full: every debt is paid at the next request.
const ROOMY: TokenBucket = TokenBucket::new(Rate::per_second(1_000_000_000)).burst(1_000_000_000);

/// Five a minute of every kind, also of those that count refusals.
fn every() -> Vec<Quota> {
    let rate = Rate::per_minute(5);
    limits::every(rate).into_iter().chain(limits::counting_all(rate)).collect()
}

struct Pair {
    single: Limiter<Fellow, Quota, 1, ManualClock>,
    multi: Limiter<Fellow, Quota, 2, ManualClock>,
}

impl Pair {
    fn new(quota: Quota, when_full: WhenFull, clock: &ManualClock) -> Self {
        let single = Limiter::builder(quota).per::<Fellow>().max_keys(1).when_full(when_full);
        let multi = Limiter::builder([quota, ROOMY.into()]).per::<Fellow>().max_keys(1).when_full(when_full);
        Self {
            single: single.clock(clock.clone()).build().unwrap(),
            multi: multi.clock(clock.clone()).build().unwrap(),
        }
    }

    /// Asks both the same. Returns what each said: whether it is admitted, and of how many units.
    fn ask(&self, key: u64, verb: u64, cost: u64) -> [Option<(bool, u64)>; 2] {
        let key = Fellow(key);
        let (single, multi) = (self.single.account(&key), self.multi.account(&key));
        let patience = Duration::from_secs(20);
        match verb {
            0 => {
                let (one, other) = (single.check_up_to(cost), multi.check_up_to(cost));
                [Some((one.is_allowed(), one.cost())), Some((other.is_allowed(), other.cost()))]
            }
            1 => {
                let (one, other) = (single.debit(cost).ok(), multi.debit(cost).ok());
                [one.map(|debit| (true, debit.cost())), other.map(|debit| (true, debit.cost()))]
            }
            2 => {
                let (one, other) = (single.reserve(cost, patience), multi.reserve(cost, patience));
                [Some((one.is_ok(), 0)), Some((other.is_ok(), 0))]
            }
            3 => {
                let (one, other) = (single.peek_n(cost), multi.peek_n(cost));
                [Some((one.is_allowed(), 0)), Some((other.is_allowed(), 0))]
            }
            _ => {
                let (one, other) = (single.check_n(cost), multi.check_n(cost));
                [Some((one.is_allowed(), 0)), Some((other.is_allowed(), 0))]
            }
        }
    }

    /// What each has counted.
    fn stats(&self) -> [Stats; 2] {
        [self.single.stats(), self.multi.stats_of(0).expect("it is the first limit")]
    }
}

#[test]
fn a_limit_among_several_counts_full_buckets_as_alone() {
    for quota in every() {
        let mut total = [0; 3];
        for when_full in [WhenFull::Deny, WhenFull::Share, WhenFull::Allow] {
            let (clock, mut random) = (start(), Random::with_seed(7));
            let pair = Pair::new(quota, when_full, &clock);
            for step in 0..600 {
                clock.advance(Duration::from_millis(random.u64(1..=400)));
                let (key, verb, cost) = (random.u64(..25), random.u64(..8), random.u64(1..=5));
                // Among several a queue has no turns, and a turn by intervals is charged later.
                let has_other_turns = quota.is_queue() || quota.to_string().ends_with("intervals");
                let verb = if verb == 2 && has_other_turns { 4 } else { verb };
                let [one, other] = pair.ask(key, verb, cost);
                let what = format!("{quota}, {when_full:?}, step {step}: key {key}, verb {verb} of {cost}");
                assert_eq!(one, other, "{what}");
                let [one, other] = pair.stats();
                assert_eq!(one, other, "{what}");
            }
            let [Stats { refused_full, shared, admitted_uncounted, .. }, _] = pair.stats();
            total
                .iter_mut()
                .zip([refused_full, shared, admitted_uncounted])
                .for_each(|(sum, more)| *sum += more);
        }
        let [refused, shared, uncounted] = total;
        assert!(refused > 50 && uncounted > 50, "{quota}: {refused} and {uncounted}");
        assert_eq!(shared > 50, !limits::refuses_when_full(&quota), "{quota}: {shared}");
    }
}

/// Nothing is admitted by a debit that finds no slot.
#[test]
fn a_debit_that_finds_no_slot_counts_as_refused() {
    for when_full in [WhenFull::Deny, WhenFull::Allow] {
        let clock = start();
        let pair = Pair::new(TokenBucket::new(Rate::per_minute(5)).into(), when_full, &clock);
        for key in 0..15 {
            assert_eq!(pair.ask(key, 4, 5), [Some((true, 0)); 2]);
        }
        assert_eq!(pair.ask(15, 1, 3), [None; 2]);
        for stats in pair.stats() {
            assert_eq!((stats.refused_full, stats.admitted_uncounted), (1, 0), "{when_full:?}");
        }
    }
}

/// A peek is no request.
#[test]
fn a_peek_into_a_full_bucket_counts_nothing() {
    for when_full in [WhenFull::Deny, WhenFull::Share, WhenFull::Allow] {
        let clock = start();
        let pair = Pair::new(TokenBucket::new(Rate::per_minute(5)).into(), when_full, &clock);
        for key in 0..15 {
            assert_eq!(pair.ask(key, 4, 5), [Some((true, 0)); 2]);
        }
        let before = pair.stats();
        for cost in 0..=6 {
            pair.ask(15, 3, cost);
        }
        assert_eq!(pair.stats(), before, "{when_full:?}");
    }
}
