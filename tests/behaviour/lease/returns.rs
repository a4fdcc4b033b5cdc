//! The permits that a lease returns, and those that it loses.

use std::time::Duration;

use tollgate::{Limiter, ManualClock, Rate, SlidingLog, Timestamp, TokenBucket};

use super::{MILLISECOND, counting_all, every, left, lenders, limiter};

#[test]
fn unspent_permits_come_back_on_drop_exactly() {
    for quota in lenders(100) {
        let (limiter, _) = limiter(quota);
        assert!(limiter.check_n(1, 20).is_allowed());
        let mut lease = limiter.account(1).lease().permits(30);
        assert!(lease.check_n(7).is_allowed());
        assert_eq!((left(&limiter), lease.held()), (50, 23), "{quota}");
        drop(lease);
        assert_eq!(left(&limiter), 73, "{quota}");
    }
}

#[test]
fn two_leases_give_back_in_either_order() {
    for quota in lenders(100) {
        let (limiter, _) = limiter(quota);
        let (mut first, mut second) =
            (limiter.account(1).lease().permits(30), limiter.account(1).lease().permits(30));
        assert!(first.check().is_allowed() && second.check().is_allowed());
        drop(first);
        drop(second);
        // A log takes back its newest admission only, and the first lease's thirty are behind it.
        let kept = if quota.to_string().starts_with("sliding-log") { 31 } else { 2 };
        assert_eq!(left(&limiter), 100 - kept, "{quota}");
    }
}

#[test]
fn a_permit_lapses_after_its_ttl() {
    for quota in lenders(100) {
        let (limiter, clock) = limiter(quota);
        let mut lease = limiter.account(1).lease().permits(10).ttl(MILLISECOND);
        assert!(lease.check().is_allowed(), "{quota}");
        clock.advance(MILLISECOND - Duration::from_nanos(1));
        assert!(lease.check().is_allowed(), "{quota}");
        assert_eq!((left(&limiter), lease.held()), (90, 8), "{quota}: spent a nanosecond before");
        clock.advance(Duration::from_nanos(1));
        assert!(lease.check().is_allowed(), "{quota}");
        assert_eq!(lease.held(), 9, "{quota}: of a new take");
        let lost = 100 - left(&limiter) - lease.held() - 3;
        assert!(lost <= 1, "{quota}: eight came back, but for what a bucket has refilled in part: {lost}");
    }
}

#[test]
fn a_release_returns_the_refunded_units() {
    let (limiter, clock) = limiter(TokenBucket::new(Rate::per_second(1_000)));
    let mut lease = limiter.account(1).lease().permits(100).ttl(Duration::from_secs(1));
    assert_eq!(lease.release(), 0);
    assert!(lease.check_n(40).is_allowed());
    clock.advance(Duration::from_millis(25));
    assert_eq!(lease.release(), 60, "as if forty had been taken");
    assert_eq!((lease.held(), left(&limiter)), (0, 960 + 25));
    assert_eq!(lease.release(), 0);
}

/// After the earlier refund, the arrival time alone would make drained debt look current.
#[test]
fn a_refund_of_an_earlier_request_mints_no_permits() {
    let (limiter, clock) = limiter(TokenBucket::new(Rate::per_second(1)).burst(200));
    let first = limiter.check_n(1, 99);
    let mut lease = limiter.account(1).lease().permits(100).ttl(Duration::from_secs(1_000));
    assert!(lease.check().is_allowed());
    assert_eq!(limiter.refund(first), 99);
    clock.advance(Duration::from_secs(100)); // drains the lease's own hundred
    assert!(limiter.check_n(1, 50).is_allowed());
    drop(lease);
    assert_eq!(left(&limiter), 150);
}

#[test]
fn no_permit_is_spent_or_given_back_after_a_reset() {
    for quota in lenders(100) {
        let (limiter, _) = limiter(quota);
        let (mut spending, mut dropped) =
            (limiter.account(1).lease().permits(20), limiter.account(1).lease().permits(20));
        assert!(spending.check().is_allowed() && dropped.check().is_allowed());
        assert!(limiter.account(1).reset());
        assert!(limiter.check_n(1, 60).is_allowed());
        drop(dropped);
        assert_eq!(left(&limiter), 40, "{quota}: what others took stays taken");
        let admitted = (0..100).filter(|_| spending.check().is_allowed()).count();
        assert_eq!(admitted, 40, "{quota}");
    }
    let limiter =
        Limiter::builder(TokenBucket::new(Rate::per_hour(10))).clock(ManualClock::new()).build().unwrap();
    let mut lease = limiter.account(()).lease().permits(5);
    assert!(lease.check().is_allowed());
    limiter.account(()).reset();
    assert!(limiter.check_n((), 10).is_allowed());
    assert!(!lease.check().is_allowed());
}

#[test]
fn a_lease_survives_the_eviction_of_its_key() {
    for quota in every(100) {
        let clock = ManualClock::new();
        let limiter = Limiter::builder(quota).per::<u64>().clock(clock.clone()).max_keys(1).build().unwrap();
        let mut lease = limiter.account(1).lease().permits(10);
        assert!(lease.check().is_allowed());
        clock.advance(Duration::from_secs(3 * 3_600));
        let taken = (2..1_000).filter(|key| limiter.check_n(key, 60).is_allowed()).count();
        assert!(taken > 0, "{quota}");
        drop(lease);
        assert!((2..1_000).all(|key| !limiter.check_n(key, 60).is_allowed()), "{quota}: nobody is forgiven");
    }
}

/// An acquisition by a lease is not a request, so its refusal is not counted.
#[test]
fn an_acquisition_without_room_is_not_counted() {
    for quota in counting_all(100) {
        let (limiter, _) = limiter(quota);
        assert!(limiter.check_n(1, 95).is_allowed());
        let mut lease = limiter.account(1).lease().permits(50);
        assert_eq!((0..5).filter(|_| lease.check().is_allowed()).count(), 5, "{quota}");
    }
}

#[test]
fn a_lease_counts_refusals_like_checks() {
    let quota = SlidingLog::new(Rate::per_second(4)).count(tollgate::CountPolicy::All);
    let (limiter, clock) = limiter(quota);
    let mut lease = limiter.account(1).lease().permits(4);
    assert!((0..4).all(|_| lease.check().is_allowed()));
    clock.advance(Duration::from_millis(900));
    assert!(!lease.check().is_allowed());
    clock.set(Timestamp::ZERO + Duration::from_secs(1));
    assert_eq!(left(&limiter), 3, "the four have left, the refused one has not");
}

#[test]
fn a_clock_that_steps_back_mints_no_permits() {
    let (limiter, clock) = limiter(TokenBucket::new(Rate::per_second(100)));
    clock.advance(Duration::from_secs(10));
    let mut lease = limiter.account(1).lease().permits(50);
    assert!(lease.check().is_allowed());
    clock.set(Timestamp::ZERO + Duration::from_secs(9));
    assert!(!lease.check().is_allowed(), "the bucket is full a second and a half from now");
    assert_eq!(lease.held(), 0);
    clock.set(Timestamp::ZERO + Duration::from_secs(10));
    assert_eq!(left(&limiter), 50);
}
