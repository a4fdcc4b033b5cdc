//! The promises of several limits on one key.

pub(crate) mod alone;
mod threads;
mod vectors;

use std::time::Duration;

use tollgate::{
    CountPolicy, Decision, FixedWindow, LeakyBucket, Limiter, MOST_LIMITS, ManualClock, Quota, Rate,
    SlidingLog, Stats, Timestamp, TokenBucket, WhenFull,
};

type Several = Limiter<u64, Quota, MOST_LIMITS, ManualClock>;

/// These limits on a clock that stands still.
fn several(quotas: impl IntoIterator<Item = impl Into<Quota>>) -> (Several, ManualClock) {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(tollgate_testing::limits::list(quotas))
        .per()
        .clock(clock.clone())
        .max_keys(100)
        .build()
        .unwrap();
    (limiter, clock)
}

/// The units that each limit has left.
fn left(limiter: &Several, key: u64) -> Vec<u64> {
    limiter.account(key).at(limiter.now()).peek_n(0).parts().map(|part| part.remaining()).collect()
}

/// Every algorithm at `limit` a second, of one form each but for the bucket and the fixed window: a
/// limiter has at most eight limits.
fn every(limit: u64) -> Vec<Quota> {
    let every = tollgate_testing::limits::every(Rate::per_second(limit));
    every.into_iter().filter(|quota| quota.subwindows().is_none() && !is_another_bucket(quota)).collect()
}

/// A meter, or a bucket that refills at aligned times: of one rule with the token bucket.
fn is_another_bucket(quota: &Quota) -> bool {
    match quota {
        Quota::LeakyBucket(_) => !quota.is_queue(),
        Quota::TokenBucket(_) => quota.is_by_intervals(),
        _ => false,
    }
}

#[test]
fn one_of_several_limits_waits_for_its_turn() {
    for quota in [
        TokenBucket::new(Rate::per_second(10)).burst(1).into(),
        Quota::from(LeakyBucket::queue(Rate::per_second(10))),
    ] {
        let (limiter, _) = several([quota]);
        let one = Limiter::builder(quota).per::<u64>().clock(ManualClock::new()).build().unwrap();
        for turn in 0..5 {
            let patience = Duration::from_secs(1);
            let departure = one.account(1).reserve(1, patience).map(|turn| turn.departure());
            let of_several = limiter.account(1).reserve(1, patience).map(|turn| turn.departure());
            assert_eq!(of_several, departure, "{quota}: turn {turn}");
            assert!(departure.is_ok());
        }
    }
}

#[test]
fn a_refusal_by_any_charges_none() {
    for tight in every(3) {
        for place in 0..7 {
            let mut quotas = every(10);
            quotas.insert(place, tight);
            let (limiter, _) = several(quotas);
            assert!(limiter.check_n(1, 2).is_allowed());
            let before = left(&limiter, 1);
            let refused = limiter.check_n(1, 2);
            assert_eq!((refused.is_allowed(), refused.refused_by()), (false, Some(place)), "{tight}");
            assert_eq!(refused.remaining(), 1, "{tight}: the tightest, without the request");
            assert_eq!(left(&limiter, 1), before, "{tight}");
            assert!(limiter.check(1).is_allowed());
            assert!(left(&limiter, 1).iter().zip(before).all(|(after, before)| after + 1 == before));
        }
    }
}

#[test]
fn a_refusal_carries_the_longest_wait_and_its_limit() {
    let (limiter, clock) =
        several([Rate::per_second(1), Rate::per_minute(1), Rate::per_second(2)].map(TokenBucket::new));
    assert!(limiter.check(1).is_allowed());
    let refused = limiter.check(1);
    assert_eq!(refused.refused_by(), Some(1));
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(60)));
    let waits: Vec<_> = refused.parts().map(|part| (part.refuses(), part.retry_after())).collect();
    let second = Duration::from_secs(1);
    assert_eq!(waits, [(true, Some(second)), (true, Some(60 * second)), (false, None)]);
    clock.advance(59 * second);
    assert_eq!(limiter.check(1).retry_after(), Some(second));
    clock.advance(second);
    assert!(limiter.check(1).is_allowed());
}

#[test]
fn a_cost_above_one_limit_changes_nothing() {
    let (limiter, _) =
        several([10, 3, 5, 3].map(|count| FixedWindow::new(Rate::per_minute(count)).count(CountPolicy::All)));
    let never = limiter.check_n(1, 4);
    assert!(never.is_never() && !never.is_allowed());
    assert_eq!((never.refused_by(), never.retry_after(), never.remaining()), (Some(1), None, 3));
    assert_eq!(left(&limiter, 1), [10, 3, 5, 3]);
    assert!(limiter.usage().live_keys == 0);
}

#[test]
fn cost_zero_is_admitted_and_changes_nothing() {
    let (limiter, _) = several(every(2));
    assert!(limiter.check_n(1, 0).is_allowed() && limiter.usage().live_keys == 0);
    assert!(limiter.check_n(1, 2).is_allowed());
    assert!(limiter.check_n(1, 0).is_allowed());
    assert_eq!(limiter.check_n(1, 0).remaining(), 0);
}

#[test]
fn only_a_refusing_limit_with_count_all_counts() {
    let minute = |count| FixedWindow::new(Rate::per_minute(count)).count(CountPolicy::All);
    let (limiter, _) =
        several([Quota::from(TokenBucket::new(Rate::per_minute(9))), minute(2).into(), minute(5).into()]);
    assert!(limiter.check_n(1, 2).is_allowed());
    assert!(!limiter.check(1).is_allowed());
    assert_eq!(left(&limiter, 1), [7, 0, 3]);
    let log = SlidingLog::new(Rate::per_second(2)).count(CountPolicy::All);
    let (limiter, clock) = several([Quota::from(log), TokenBucket::new(Rate::per_second(9)).into()]);
    assert!(limiter.check_n(1, 2).is_allowed());
    clock.advance(Duration::from_millis(500));
    assert!(!limiter.check_n(1, 2).is_allowed());
    clock.advance(Duration::from_millis(500));
    assert!(!limiter.check(1).is_allowed(), "the refused two are inside until 1.5 s");
}

#[test]
fn a_peek_foresees_the_check_and_changes_nothing() {
    for quotas in [every(3), vec![SlidingLog::new(Rate::per_second(2)).count(CountPolicy::All).into()]] {
        let (limiter, _) = several(quotas);
        for cost in [1, 2, 1, 3, 9] {
            let peeked = format!("{:?}", limiter.account(1).at(limiter.now()).peek_n(cost));
            assert_eq!(peeked, format!("{:?}", limiter.account(1).at(limiter.now()).peek_n(cost)));
            assert_eq!(peeked, format!("{:?}", limiter.check_n(1, cost)));
        }
    }
}

#[test]
fn the_longest_departure_counts() {
    let (limiter, _) =
        several([LeakyBucket::queue(Rate::per_second(2)), LeakyBucket::queue(Rate::per_second(10))]);
    assert_eq!(limiter.check(1).delay(), Duration::ZERO);
    assert_eq!(limiter.check(1).delay(), Duration::from_millis(500));
    assert_eq!(limiter.check(1).delay(), Duration::ZERO, "a refused request waits for nothing");
}

#[test]
fn a_refund_gives_back_to_every_limit() {
    let (limiter, clock) = several(every(10));
    let kept: Decision<'_, MOST_LIMITS> = limiter.check_n(1, 2);
    let decision = limiter.check_n(1, 3);
    assert_eq!(limiter.refund(decision), 3);
    assert_eq!(left(&limiter, 1), [8; 6]);
    for took_nothing in
        [limiter.peek(1), limiter.check_n(1, 9), limiter.check_n(1, 0), limiter.check_n(1, 11)]
    {
        assert_eq!(limiter.refund(took_nothing), 0);
    }
    clock.advance(Duration::from_secs(3));
    assert_eq!(limiter.refund(kept), 0);
    assert_eq!(left(&limiter, 1), [10; 6]);
    let (other, _) = several(every(10));
    assert_eq!(limiter.refund(other.check(1)), 0);
}

#[test]
fn a_reset_forgives_every_limit() {
    let (limiter, _) = several(every(3));
    assert!(!limiter.account(1).reset());
    assert!(limiter.check_n(1, 3).is_allowed());
    assert!(limiter.account(1).reset());
    assert_eq!(left(&limiter, 1), [3; 6]);
}

#[test]
fn a_key_in_debt_to_several_limits_counts_once() {
    let (limiter, clock) = several([Rate::per_second(5), Rate::per_hour(5)].map(TokenBucket::new));
    for key in 0..50 {
        assert!(limiter.check(key).is_allowed());
    }
    assert_eq!(limiter.usage().live_keys, 50);
    clock.advance(Duration::from_secs(1));
    assert_eq!(limiter.usage().live_keys, 50, "to the second limit");
    assert!(limiter.check(50).is_allowed());
    assert_eq!(limiter.usage().live_keys, 51);
    assert_eq!((limiter.usage().max_keys, limiter.stats().inserted + limiter.stats().recycled), (100, 102));
}

#[test]
fn from_one_limit_to_eight() {
    let build = |count| {
        let quota = Quota::from(TokenBucket::new(Rate::per_second(1)));
        Limiter::builder(vec![quota; count])
            .per::<u64>()
            .max_keys(1)
            .build()
            .map(|limiter| limiter.check(1).is_allowed())
    };
    assert_eq!(build(0).unwrap_err().to_string(), "limits is 0, but must be between 1 and 8");
    assert!((1..=8).all(|count| build(count) == Ok(true)));
    assert_eq!(build(9).unwrap_err().to_string(), "limits is 9, but must be between 1 and 8");
}

#[test]
fn all_tables_share_one_budget() {
    let builder = |bytes| Limiter::builder(every(100)).per::<u64>().max_keys(1_000).memory_budget(bytes);
    let needed = builder(0).memory().unwrap();
    let log = Limiter::builder([SlidingLog::new(Rate::per_second(100))]).per::<u64>().max_keys(1_000);
    assert!(needed > log.memory().unwrap() + 5 * 31 * 1_000);
    assert!(builder(needed).build().is_ok());
    let error = builder(needed - 1).build().unwrap_err();
    assert_eq!(error, tollgate::BuildError::OverBudget { needed, budget: needed - 1 });
}

/// A key without room in one table is refused by that table's limit and charged to none.
#[test]
fn a_full_bucket_refuses_for_all_limits() {
    let clock = ManualClock::new();
    let rates = [Rate::per_second(5), Rate::per_hour(5)];
    let limiter = Limiter::builder(rates.map(TokenBucket::new))
        .per::<u64>()
        .clock(clock.clone())
        .max_keys(1)
        .when_full(WhenFull::Deny)
        .build()
        .unwrap();
    let admitted = (0..1_000).filter(|key| limiter.check(key).is_allowed()).count();
    assert!(admitted <= 60, "four buckets of fifteen slots: {admitted}");
    clock.advance(Duration::from_secs(1));
    // The first table has room again, the second has not. The first limit is not charged.
    let newcomers = (1_000..2_000).filter(|key| limiter.check(key).is_allowed()).count();
    assert_eq!((newcomers, limiter.usage().live_keys), (60 - admitted, 60));
    let refused =
        (1_000..2_000).map(|key| limiter.check(key)).find(|decision| !decision.is_allowed()).unwrap();
    assert_eq!(refused.refused_by(), Some(1));
}

#[test]
fn the_stats_are_the_sum_over_the_limits() {
    let (limiter, clock) =
        several([TokenBucket::new(Rate::per_second(1)), TokenBucket::new(Rate::per_hour(1))]);
    assert!(limiter.check(1).is_allowed());
    clock.advance(Duration::from_secs(2));
    assert!(!limiter.check(1).is_allowed());
    let inserted = |number| limiter.stats_of(number).map(|stats| stats.inserted);
    assert_eq!([inserted(0), inserted(1), inserted(2)], [Some(1), Some(1), None]);
    assert_eq!(limiter.stats().inserted, 2);
}

#[test]
fn a_key_that_was_just_checked_can_reserve_its_turn() {
    // Near the time of the last check the limiter takes its shortest path.
    let (limiter, clock) = several([TokenBucket::new(Rate::new(5, Duration::from_secs(10)))]);
    clock.advance(Duration::from_secs(100));
    for step in 0..20 {
        let now = limiter.now();
        let wait = limiter.account(1).at(now).peek().retry_after().unwrap_or_default();
        let turn = limiter.account(1).at(now).reserve(1, Duration::from_secs(60));
        assert_eq!(turn.expect("it may wait").departure(), now + wait, "step {step}");
        clock.advance(Duration::from_millis(700));
    }
}

#[test]
fn a_refund_after_a_reservation_gives_back_no_marked_charge() {
    let (limiter, _) = several([TokenBucket::new(Rate::new(5, Duration::from_secs(10)))]);
    let at = |millis: u64| limiter.account(1).at(Timestamp::from_nanos(millis * 1_000_000));
    let first = at(0).check().receipt();
    let reserved = at(100).reserve(1, Duration::from_secs(60)).expect("there is room");
    assert_eq!(at(300).refund(first), 1, "out of order: the key is marked");
    let second = at(300).check().receipt();
    assert_eq!(at(1_900).refund(second), 0, "a reservation may depend on it");
    drop(reserved);
}

#[test]
fn one_limit_counts_refused_full_as_a_limiter_does() {
    for when_full in [WhenFull::Deny, WhenFull::Share] {
        let quota = TokenBucket::new(Rate::per_hour(2));
        let multi = Limiter::builder([quota]).per::<u64>().max_keys(1).when_full(when_full).build().unwrap();
        let single = Limiter::builder(quota).per::<u64>().max_keys(1).when_full(when_full).build().unwrap();
        for key in 0..400 {
            let _ = (multi.check(key), single.check(key));
        }
        let events =
            |stats: Stats| (stats.refused_full > 300, stats.shared > 200, stats.evicted_with_debt > 0);
        assert_eq!(events(multi.stats()), events(single.stats()), "{when_full:?}");
        assert!(single.stats().refused_full + single.stats().shared > 200, "{when_full:?}");
    }
}
