//! The number of permits that a lease acquires at once.

use std::time::Duration;

use tollgate::{Inherit, Lease, Limiter, ManualClock, Quota, Rate, TokenBucket};

use super::{MILLISECOND, Manual, every, left, limiter};

/// Returns the size of each acquisition while the lease is checked every `step`.
fn takes(limiter: &Manual, clock: &ManualClock, step: Duration, checks: usize) -> Vec<u64> {
    let mut lease = limiter.account(1).lease();
    let mut takes = Vec::new();
    for _ in 0..checks {
        let before = left(limiter);
        assert!(lease.check().is_allowed());
        takes.extend(before.checked_sub(left(limiter)).filter(|&taken| taken > 0));
        clock.advance(step);
    }
    takes
}

fn plenty() -> (Manual, ManualClock) {
    limiter(TokenBucket::new(Rate::per_hour(1)).burst(1 << 20))
}

#[test]
fn acquisitions_grow_under_a_hot_loop() {
    let (limiter, clock) = plenty();
    let takes = takes(&limiter, &clock, Duration::from_nanos(100), 8_000);
    assert_eq!(takes[..11], [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024]);
    assert!(takes[11..].iter().all(|&taken| taken == 1_024), "{takes:?}");
}

#[test]
fn acquisitions_grow_while_they_are_spent_quickly() {
    let (limiter, clock) = plenty();
    let takes = takes(&limiter, &clock, Duration::from_micros(20), 1_000);
    // Sixteen permits last 320 microseconds: more than a quarter of the ttl, and less than the ttl.
    assert_eq!(takes[..5], [1, 2, 4, 8, 16]);
    assert!(takes[5..].iter().all(|&taken| taken == 16), "{takes:?}");
}

#[test]
fn sparse_use_acquires_one_by_one() {
    let (limiter, clock) = plenty();
    let takes = takes(&limiter, &clock, MILLISECOND / 3, 100);
    assert_eq!(takes, [1; 100]);
}

#[test]
fn acquisitions_shrink_once_permits_lapse() {
    let (limiter, clock) = plenty();
    let mut lease = limiter.account(1).lease();
    assert!((0..2_000).all(|_| lease.check().is_allowed()));
    assert!(lease.held() > 0);
    let mut held = Vec::new();
    for _ in 0..4 {
        clock.advance(2 * MILLISECOND);
        assert!(lease.check().is_allowed());
        held.push(lease.held() + 1);
    }
    assert_eq!(held, [512, 1, 1, 1], "half, and then what was spent of that");
}

#[test]
fn no_lease_acquires_more_than_an_eighth_of_the_limit() {
    let (limiter, _) = limiter(TokenBucket::new(Rate::per_hour(80)));
    let mut lease = limiter.account(1).lease();
    for _ in 0..40 {
        assert!(lease.check().is_allowed());
        assert!(lease.held() < 10);
    }
}

#[test]
fn a_lease_acquires_an_eighth_of_the_current_limit() {
    let (limiter, _) = limiter(TokenBucket::new(Rate::per_hour(80)));
    let bucket = |burst| Quota::from(TokenBucket::new(Rate::per_hour(80)).burst(burst));
    let mut lease = limiter.account(1).lease();
    let most = |lease: &mut Lease<'_, Quota, 1, ManualClock>| {
        let held = |_| {
            assert!(lease.check().is_allowed());
            lease.held() + 1
        };
        (0..4_000).map(held).max().unwrap()
    };
    limiter.change().to(bucket(8_000)).inherit(Inherit::Reset).apply().unwrap();
    assert_eq!(most(&mut lease), 1_000);
    // The reset ends the held permits, and the next acquisition takes only its share.
    limiter.change().to(bucket(24)).inherit(Inherit::Reset).apply().unwrap();
    assert!(lease.check().is_allowed());
    assert_eq!((lease.held(), left(&limiter)), (2, 21));
}

#[test]
fn an_empty_lease_refuses_only_what_a_check_refuses() {
    for permits in [None, Some(1), Some(7), Some(100), Some(1_000)] {
        for quota in every(100) {
            let (limiter, _) = limiter(quota);
            let lease = limiter.account(1).lease();
            let mut lease = if let Some(permits) = permits { lease.permits(permits) } else { lease };
            assert!(limiter.check_n(1, 30).is_allowed());
            let admitted = (0..200).filter(|_| lease.check().is_allowed()).count();
            assert_eq!(admitted, 70, "{quota}, {permits:?}: all that is left");
        }
    }
}

/// The held permits are too few and the limit has no room. The lease returns them, and the request
/// is decided alone.
#[test]
fn a_refusal_of_a_lease_equals_that_of_a_check() {
    for quota in every(100) {
        let (limiter, _) = limiter(quota);
        let mut lease = limiter.account(1).lease().permits(10);
        assert!(lease.check().is_allowed(), "{quota}");
        let left = left(&limiter) + lease.held();
        let plain = format!("{:?}", limiter.account(1).at(limiter.now()).peek_n(100).outcome());
        let refused = lease.check_n(100).decision().expect("it is refused by the limiter");
        assert_eq!(format!("{:?}", refused.outcome()), plain, "{quota}");
        assert_eq!((refused.remaining(), refused.cost()), (left, 100), "{quota}");
        let again = limiter.check_n(1, 100);
        assert_eq!(refused.retry_after(), again.retry_after(), "{quota}");
    }
}

#[test]
fn without_a_ttl_nothing_is_acquired_ahead() {
    let (limiter, _) = plenty();
    for lease in [limiter.account(1).lease(), limiter.account(1).lease().permits(50)] {
        let mut lease = lease.ttl(Duration::ZERO);
        let before = left(&limiter);
        assert!((0..100).all(|_| lease.check().is_allowed()));
        assert_eq!((lease.held(), left(&limiter)), (0, before - 100));
    }
}

#[test]
fn large_costs_are_acquired_ahead_too() {
    let (limiter, _) = plenty();
    let mut lease = limiter.account(1).lease();
    assert!((0..50).all(|_| lease.check_n(5).is_allowed()));
    assert!(lease.held() >= 5, "{lease:?}");
}

/// A check reads the clock once and does not read the limiter while permits last.
#[test]
fn a_permit_is_spent_without_the_limiter() {
    let limiter = Limiter::builder(Quota::from(TokenBucket::new(Rate::per_hour(100))))
        .per::<u64>()
        .clock(ManualClock::new())
        .build()
        .unwrap();
    let mut lease = limiter.account(1).lease().permits(10);
    assert!(lease.check().is_allowed());
    // Spend all that the key has left. Only the permits remain.
    assert!(limiter.check_n(1, 90).is_allowed());
    assert!((0..9).all(|_| lease.check().is_allowed()));
    assert!(!lease.check().is_allowed());
}
