//! The promises of a lease: the total, the bound of an interval, the returned permits, and the
//! number of acquired permits.

mod bounds;
mod pace;
mod returns;

use std::time::Duration;

use tollgate::{LeakyBucket, Limiter, ManualClock, Quota, Rate, TokenBucket};

type Manual<A = Quota> = Limiter<u64, A, 1, ManualClock>;

const MILLISECOND: Duration = Duration::from_millis(1);

fn limiter(quota: impl Into<Quota>) -> (Manual, ManualClock) {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(Into::<Quota>::into(quota))
        .per()
        .clock(clock.clone())
        .max_keys(100)
        .build()
        .unwrap();
    (limiter, clock)
}

/// The units that key 1 has left.
fn left(limiter: &Manual) -> u64 {
    limiter.account(1).at(limiter.now()).peek_n(0).remaining()
}

/// Every algorithm at `limit` an hour.
fn every(limit: u64) -> Vec<Quota> {
    tollgate_testing::limits::every(Rate::per_hour(limit))
}

/// Every algorithm but the queue, which has no leases.
fn lenders(limit: u64) -> Vec<Quota> {
    every(limit).into_iter().filter(|quota| !quota.is_queue()).collect()
}

/// The algorithms that can count refusals, with `CountPolicy::All`.
fn counting_all(limit: u64) -> Vec<Quota> {
    tollgate_testing::limits::counting_all(Rate::per_hour(limit))
}

#[test]
fn a_lease_of_a_queue_returns_each_delay() {
    let (limiter, _) = limiter(LeakyBucket::queue(Rate::per_second(10)));
    let mut lease = limiter.account(1).lease().permits(5);
    let delays = [0, 100, 200].map(Duration::from_millis);
    for delay in delays {
        let decision = lease.check().decision().expect("each departure is the limiter's to say");
        assert!(decision.is_allowed());
        assert_eq!(decision.delay(), delay);
        assert_eq!(lease.held(), 0);
    }
}

#[test]
fn costs_of_nothing_and_of_too_much_change_nothing() {
    for quota in every(100) {
        let (limiter, _) = limiter(quota);
        let mut lease = limiter.account(1).lease().permits(5);
        assert!(lease.check_n(0).is_allowed(), "{quota}");
        assert!(lease.check_n(101).decision().is_some_and(|decision| decision.is_never()), "{quota}");
        assert_eq!((left(&limiter), lease.held()), (100, 0), "{quota}");
        assert!(lease.check_n(100).is_allowed(), "{quota}");
    }
}

#[test]
fn a_cost_above_the_held_permits_acquires_the_rest() {
    for quota in lenders(100) {
        let (limiter, _) = limiter(quota);
        let mut lease = limiter.account(1).lease().permits(10);
        assert!(lease.check_n(4).is_allowed());
        assert_eq!((left(&limiter), lease.held()), (90, 6), "{quota}");
        assert!(lease.check_n(20).is_allowed());
        assert_eq!((left(&limiter), lease.held()), (76, 0), "{quota}: fourteen more");
        assert!(lease.check().is_allowed());
        assert!(lease.check_n(12).is_allowed());
        assert_eq!((left(&limiter), lease.held()), (56, 7), "{quota}: ten, and ten");
    }
}

#[test]
fn a_tiers_lease_has_its_limit() {
    let limiter = Limiter::builder(TokenBucket::new(Rate::per_hour(3)))
        .per::<u64>()
        .tier(TokenBucket::new(Rate::per_hour(5)))
        .build()
        .unwrap();
    let mut lease = limiter.account(1).tier(1).unwrap().lease();
    assert_eq!((0..10).filter(|_| lease.check().is_allowed()).count(), 5);
    let mut lease = limiter.account(2).lease();
    assert_eq!((0..10).filter(|_| lease.check().is_allowed()).count(), 3);
}

#[test]
fn a_lease_moves_to_another_thread() {
    let (limiter, _) = limiter(TokenBucket::new(Rate::per_hour(100)));
    let mut lease = limiter.account(1).lease().permits(10);
    assert!(lease.check().is_allowed());
    std::thread::scope(|scope| {
        scope.spawn(move || assert!((0..9).all(|_| lease.check().is_allowed())));
    });
    assert_eq!(left(&limiter), 90);
}
