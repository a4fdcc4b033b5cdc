//! The promises of a quota that comes with each call, against arithmetic in 128 bits.

mod extremes;
mod full;
mod giving_back;
mod oracle;
mod saved;
mod threads;
mod throttle;

use std::time::Duration;

use tollgate::{CallDecision, CallQuota, ManualClock, PerCallLimiter, Rate, Timestamp};

const SECOND: u64 = 1_000_000_000;

type Limiter = PerCallLimiter<u64, ManualClock>;

fn limiter(max_keys: usize) -> (Limiter, ManualClock) {
    let clock = ManualClock::new();
    (PerCallLimiter::builder().max_keys(max_keys).clock(clock.clone()).build().unwrap(), clock)
}

fn nanos(emission: u64, tolerance: u64) -> CallQuota {
    CallQuota::from_nanos(emission, tolerance).unwrap()
}

/// What the key is short of being as good as new.
fn debt(limiter: &Limiter, key: u64) -> u64 {
    let decision = limiter.peek(&key, nanos(1, i64::MAX as u64), 0).unwrap();
    u64::try_from(decision.reset_after().as_nanos()).unwrap()
}

fn wait(decision: &CallDecision) -> Option<u64> {
    decision.retry_after().map(|wait| u64::try_from(wait.as_nanos()).unwrap())
}

#[test]
fn a_call_is_decided_by_the_quota_that_it_brings() {
    let (limiter, clock) = limiter(100);
    let (large, small) = (nanos(10, 1_000), nanos(100, 300));
    let decision = limiter.check(&7, large, 20).unwrap();
    assert!(decision.is_allowed());
    assert_eq!((decision.limit(), decision.remaining(), decision.cost()), (100, 80, 20));
    assert_eq!(decision.reset_after(), Duration::from_nanos(200));

    // The debt of 200 leaves room for one of three.
    assert_eq!(limiter.peek(&7, small, 0).unwrap().remaining(), 1);
    let refused = limiter.check(&7, small, 2).unwrap();
    assert!(!refused.is_allowed());
    assert_eq!((refused.limit(), refused.remaining(), wait(&refused)), (3, 1, Some(100)));
    assert_eq!(refused.reset_after(), Duration::from_nanos(200));
    assert!(limiter.check(&7, small, 1).unwrap().is_allowed());
    assert!(!limiter.check(&7, small, 1).unwrap().is_allowed());

    // Which the larger quota does not mind.
    assert!(limiter.check(&7, large, 70).unwrap().is_allowed());
    assert!(!limiter.check(&7, large, 1).unwrap().is_allowed());
    clock.advance(Duration::from_nanos(10));
    assert!(limiter.check(&7, large, 1).unwrap().is_allowed());
    assert_eq!(wait(&limiter.check(&7, small, 1).unwrap()), Some(800));
}

#[test]
fn a_cost_above_the_quotas_limit_is_never() {
    let (limiter, _) = limiter(100);
    let quota = nanos(100, 399);
    let never = limiter.check(&7, quota, 4).unwrap();
    assert!(never.is_never() && !never.is_allowed());
    assert_eq!((never.remaining(), wait(&never), never.reset_after()), (3, None, Duration::ZERO));
    assert_eq!(limiter.usage().live_keys, 0, "nothing was charged");
    assert!(limiter.check(&7, nanos(99, 399), 4).unwrap().is_allowed());
    assert_eq!(limiter.check(&7, quota, 4).unwrap().reset_after(), Duration::from_nanos(396));
}

#[test]
fn cost_zero_looks_and_charges_nothing() {
    let (limiter, _) = limiter(100);
    let quota = nanos(100, 300);
    let look = limiter.check(&7, quota, 0).unwrap();
    assert!(look.is_allowed());
    assert_eq!((look.remaining(), wait(&look), look.reset_after()), (3, None, Duration::ZERO));
    assert_eq!((limiter.usage().live_keys, limiter.stats().inserted), (0, 0));
    assert!(limiter.check(&7, quota, 3).unwrap().is_allowed());
    let look = limiter.check(&7, quota, 0).unwrap();
    assert!(look.is_allowed(), "it asks for nothing");
    assert_eq!((look.remaining(), look.reset_after()), (0, Duration::from_nanos(300)));
}

#[test]
fn a_key_whose_tat_has_passed_is_as_new() {
    let (limiter, clock) = limiter(100);
    assert!(limiter.check(&7, nanos(100, 300), 3).unwrap().is_allowed());
    clock.set(Timestamp::from_nanos(299));
    assert_eq!((debt(&limiter, 7), limiter.usage().live_keys), (1, 1));
    clock.set(Timestamp::from_nanos(300));
    assert_eq!((debt(&limiter, 7), limiter.usage().live_keys), (0, 0));
    clock.set(Timestamp::from_nanos(1_000));
    assert!(limiter.check(&7, nanos(100, 300), 3).unwrap().is_allowed());
    assert_eq!(debt(&limiter, 7), 300, "idle time is not saved up");
}

#[test]
fn a_rates_emission_interval_is_rounded_up() {
    for (count, period, emission) in [
        (3, SECOND, 333_333_334),
        (100, SECOND, 10_000_000),
        (SECOND, SECOND, 1),
        (SECOND - 1, SECOND, 2),
        (7, 7, 1),
        (1, 1, 1),
    ] {
        let quota = CallQuota::new(Rate::new(count, Duration::from_nanos(period)), 5).unwrap();
        assert_eq!(quota.emission(), Duration::from_nanos(emission), "{count} in {period} ns");
        assert_eq!((quota.tolerance(), quota.limit()), (quota.emission() * 5, 5));
        // In a period no more than the count, after the burst.
        let (limiter, clock) = limiter(1);
        assert!(limiter.check(&1, quota, 5).unwrap().is_allowed());
        clock.set(Timestamp::from_nanos(period));
        let again = limiter.peek(&1, quota, 0).unwrap().remaining();
        assert!(again <= count.min(5), "{again} of {count} in {period} ns");
    }
}

#[test]
fn a_prepared_key_is_decided_at_its_callers_time() {
    let (limiter, clock) = limiter(100);
    clock.set(Timestamp::from_nanos(50));
    let (quota, key) = (nanos(100, 100), limiter.prepare(&7));
    assert!(key.at(limiter.now()).check(quota, 1).unwrap().is_allowed());
    assert_eq!(wait(&key.check(quota, 1).unwrap()), Some(100));
    let later = key.at(Timestamp::from_nanos(149));
    assert_eq!(wait(&later.check(quota, 1).unwrap()), Some(1));
    assert!(key.at(Timestamp::from_nanos(150)).check(quota, 1).unwrap().is_allowed());
    assert_eq!(debt(&limiter, 7), 200, "at 50");
}
