//! The promises of a quota that comes with each call, against arithmetic in 128 bits.

mod default_quota;
mod extremes;
mod full;
mod giving_back;
mod oracle;
mod saved;
mod threads;
mod throttle;
mod verbs;

use std::time::Duration;

use tollgate::{Builder, CallQuota, Decision, Lent, ManualClock, Rate, Timestamp, TscClock};

const SECOND: u64 = 1_000_000_000;

/// The largest number of a quota.
const MOST: u64 = (1 << 60) - 1;

type Limiter = tollgate::Limiter<u64, CallQuota, 1, ManualClock>;

/// No call of a test goes without a quota, unless it says so: this one admits next to nothing.
fn any() -> CallQuota {
    CallQuota::from_nanos(1, 1).unwrap()
}

fn builder(default: CallQuota) -> Builder<u64, CallQuota, 1, TscClock> {
    tollgate::Limiter::builder(default).per()
}

fn limiter(max_keys: usize) -> (Limiter, ManualClock) {
    let clock = ManualClock::new();
    (builder(any()).max_keys(max_keys).clock(clock.clone()).build().unwrap(), clock)
}

fn nanos(emission: u64, tolerance: u64) -> Lent {
    CallQuota::from_nanos(emission, tolerance).unwrap().lend()
}

fn check<'q>(limiter: &'q Limiter, key: u64, quota: &'q Lent, cost: u64) -> Decision<'q> {
    limiter.account(key).under(quota).check_n(cost)
}

fn peek<'q>(limiter: &'q Limiter, key: u64, quota: &'q Lent, cost: u64) -> Decision<'q> {
    limiter.account(key).under(quota).peek_n(cost)
}

/// What the key is short of being as good as new.
fn debt(limiter: &Limiter, key: u64) -> u64 {
    let largest = nanos(1, MOST);
    let look = peek(limiter, key, &largest, 0);
    assert!(!look.is_full(), "so large a tolerance inherits any debt");
    u64::try_from(look.reset_after().as_nanos()).unwrap()
}

fn wait(decision: &Decision<'_>) -> Option<u64> {
    decision.retry_after().map(|wait| u64::try_from(wait.as_nanos()).unwrap())
}

#[test]
fn a_call_is_decided_by_the_quota_that_it_brings() {
    let (limiter, clock) = limiter(100);
    let (large, small) = (nanos(10, 1_000), nanos(100, 300));
    let decision = check(&limiter, 7, &large, 20);
    assert!(decision.is_allowed());
    assert_eq!((decision.limit(), decision.remaining(), decision.cost()), (100, 80, 20));
    assert_eq!(decision.reset_after(), Duration::from_nanos(200));

    // The debt of 200 leaves room for one of three.
    assert_eq!(peek(&limiter, 7, &small, 0).remaining(), 1);
    let refused = check(&limiter, 7, &small, 2);
    assert!(!refused.is_allowed());
    assert_eq!((refused.limit(), refused.remaining(), wait(&refused)), (3, 1, Some(100)));
    assert_eq!(refused.reset_after(), Duration::from_nanos(200));
    assert!(check(&limiter, 7, &small, 1).is_allowed());
    assert!(!check(&limiter, 7, &small, 1).is_allowed());

    // Which the larger quota does not mind.
    assert!(check(&limiter, 7, &large, 70).is_allowed());
    assert!(!check(&limiter, 7, &large, 1).is_allowed());
    clock.advance(Duration::from_nanos(10));
    assert!(check(&limiter, 7, &large, 1).is_allowed());
    assert_eq!(wait(&check(&limiter, 7, &small, 1)), Some(800));
}

#[test]
fn a_cost_above_the_quotas_limit_is_never() {
    let (limiter, _) = limiter(100);
    let quota = nanos(100, 399);
    let never = check(&limiter, 7, &quota, 4);
    assert!(never.is_never() && !never.is_allowed());
    assert_eq!((never.remaining(), wait(&never), never.reset_after()), (3, None, Duration::ZERO));
    assert_eq!(limiter.usage().live_keys, 0, "nothing was charged");
    assert!(check(&limiter, 7, &nanos(99, 399), 4).is_allowed());
    assert_eq!(check(&limiter, 7, &quota, 4).reset_after(), Duration::from_nanos(396));
}

#[test]
fn cost_zero_looks_and_charges_nothing() {
    let (limiter, _) = limiter(100);
    let quota = nanos(100, 300);
    let look = check(&limiter, 7, &quota, 0);
    assert!(look.is_allowed());
    assert_eq!((look.remaining(), wait(&look), look.reset_after()), (3, None, Duration::ZERO));
    assert_eq!((limiter.usage().live_keys, limiter.stats().inserted), (0, 0));
    assert!(check(&limiter, 7, &quota, 3).is_allowed());
    let look = check(&limiter, 7, &quota, 0);
    assert!(look.is_allowed(), "it asks for nothing");
    assert_eq!((look.remaining(), look.reset_after()), (0, Duration::from_nanos(300)));
}

#[test]
fn a_key_whose_tat_has_passed_is_as_new() {
    let (limiter, clock) = limiter(100);
    assert!(check(&limiter, 7, &nanos(100, 300), 3).is_allowed());
    clock.set(Timestamp::from_nanos(299));
    assert_eq!((debt(&limiter, 7), limiter.usage().live_keys), (1, 1));
    clock.set(Timestamp::from_nanos(300));
    assert_eq!((debt(&limiter, 7), limiter.usage().live_keys), (0, 0));
    clock.set(Timestamp::from_nanos(1_000));
    assert!(check(&limiter, 7, &nanos(100, 300), 3).is_allowed());
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
        assert_eq!(quota.lend().quota(), quota);
        assert_eq!(quota.emission(), Duration::from_nanos(emission), "{count} in {period} ns");
        assert_eq!((quota.tolerance(), quota.limit()), (quota.emission() * 5, 5));
        // In a period no more than the count, after the burst.
        let ((limiter, clock), quota) = (limiter(1), quota.lend());
        assert!(check(&limiter, 1, &quota, 5).is_allowed());
        clock.set(Timestamp::from_nanos(period));
        let again = peek(&limiter, 1, &quota, 0).remaining();
        assert!(again <= count.min(5), "{again} of {count} in {period} ns");
    }
}

#[test]
fn a_lent_quota_is_decided_at_its_callers_time() {
    let (limiter, clock) = limiter(100);
    clock.set(Timestamp::from_nanos(50));
    let (quota, key) = (nanos(100, 100), limiter.account(7));
    assert!(key.at(limiter.now()).under(&quota).check().is_allowed());
    assert_eq!(wait(&key.under(&quota).check()), Some(100));
    assert_eq!(wait(&key.under(&quota).at(Timestamp::from_nanos(149)).check()), Some(1));
    assert!(key.at(Timestamp::from_nanos(150)).under(&quota).check().is_allowed());
    assert_eq!(debt(&limiter, 7), 200, "at 50");
}
