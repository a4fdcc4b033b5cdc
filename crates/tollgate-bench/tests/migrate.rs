//! What `docs/how-to/migrate-library.md` says of governor and tower_governor, asked of themselves.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock, FakeRelativeClock};
use governor::{Quota, RateLimiter};
use tollgate::{Limiter, ManualClock, Rate, TokenBucket};
use tower_governor::governor::GovernorConfigBuilder;

const PAGE: &str = include_str!("../../../docs/how-to/migrate-library.md");

fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("it is not zero")
}

/// Both admit the same requests, and tell the same waits, while time goes on in odd steps.
fn decide_alike(theirs: Quota, ours: TokenBucket) {
    let (their_clock, our_clock) = (FakeRelativeClock::default(), ManualClock::new());
    let peer = RateLimiter::direct_with_clock(theirs, their_clock.clone());
    let limiter = Limiter::<str>::builder(ours).clock(our_clock.clone()).build().expect("a right quota");
    let mut admitted = 0;
    for step in 0..5_000 {
        let decision = limiter.check("alice");
        match peer.check() {
            Ok(()) => assert!(decision.is_allowed(), "step {step}"),
            Err(not_until) => {
                let wait = not_until.wait_time_from(their_clock.now());
                assert_eq!(decision.retry_after(), Some(wait), "step {step}");
            }
        }
        admitted += u32::from(decision.is_allowed());
        let pause = Duration::from_millis([0, 0, 1, 7, 3, 0, 45, 0, 0, 11][step % 10]);
        their_clock.advance(pause);
        our_clock.advance(pause);
    }
    assert!((10..4_990).contains(&admitted), "{admitted}");
}

#[test]
fn a_quota_of_governor_is_a_token_bucket() {
    assert!(
        PAGE.contains("RateLimiter::keyed(Quota::per_second(nonzero!(50u32)).allow_burst(nonzero!(10u32)))")
    );
    let theirs = Quota::per_second(number(50)).allow_burst(number(10));
    decide_alike(theirs, TokenBucket::new(Rate::per_second(50)).burst(10));
    decide_alike(Quota::per_second(number(50)), TokenBucket::new(Rate::per_second(50)));
    let period = Duration::from_millis(20);
    decide_alike(Quota::with_period(period).expect("a period"), TokenBucket::new(Rate::new(1, period)));
}

#[test]
fn per_second_of_tower_governor_is_an_interval() {
    assert!(PAGE.contains("its `per_second(2)` is *one each two seconds*"));
    let config = GovernorConfigBuilder::default().per_second(2).burst_size(5).finish().expect("a right one");
    let client = IpAddr::from(Ipv4Addr::LOCALHOST);
    let quota = TokenBucket::new(Rate::new(1, Duration::from_secs(2))).burst(5);
    let limiter = Limiter::<IpAddr>::builder(quota).build().expect("a right quota");
    for _ in 0..5 {
        assert!(config.limiter().check_key(&client).is_ok());
        assert!(limiter.check(&client).is_allowed());
    }
    let not_until = config.limiter().check_key(&client).expect_err("five at once");
    let theirs = not_until.wait_time_from(DefaultClock::default().now());
    let ours = limiter.check(&client).retry_after().expect("five at once");
    // In real time, on a machine that may be busy: not two a second, in both.
    assert!(theirs > Duration::from_millis(500) && theirs <= Duration::from_secs(2), "{theirs:?}");
    assert!(ours > Duration::from_millis(500) && ours <= Duration::from_secs(2), "{ours:?}");
}
