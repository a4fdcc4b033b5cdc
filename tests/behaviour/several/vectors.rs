//! Expectations for several limits on one key, transcribed from other limiters' tests.

use std::time::Duration;

use tollgate::{Rate, TokenBucket};

use super::{left, several};

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// {10/s, 15/min}.
#[test]
fn a_refusal_by_one_limit_leaves_the_other_unchanged() {
    let (limiter, clock) = several([Rate::per_second(10), Rate::per_minute(15)].map(TokenBucket::new));
    assert!((0..10).all(|_| limiter.check(7).is_allowed()));
    let refused = limiter.check(7);
    assert_eq!((refused.retry_after(), refused.refused_by()), (Some(millis(100)), Some(0)));
    assert_eq!(left(&limiter, 7), [0, 5]);

    clock.advance(millis(1_000));
    assert!((0..5).all(|_| limiter.check(7).is_allowed()));
    let refused = limiter.check(7);
    assert_eq!((refused.retry_after(), refused.refused_by()), (Some(millis(3_000)), Some(1)));
    let now = limiter.now();
    assert!(limiter.account(7).at(now).peek_n(0).parts().nth(1).unwrap().remaining() == 0);
    // The first limit has exactly 5 left and is full after half a second. The second has a quarter
    // and is full after 59 seconds.
    let resets: Vec<_> =
        limiter.account(7).at(now).peek_n(0).parts().map(|part| part.reset_after()).collect();
    assert_eq!(left(&limiter, 7)[0], 5);
    assert_eq!(resets, [millis(500), millis(59_000)]);
    clock.advance(millis(2_999) + Duration::from_nanos(999_999));
    assert!(!limiter.check(7).is_allowed());
    clock.advance(Duration::from_nanos(1));
    assert!(limiter.check(7).is_allowed());
}

/// {700000/h, 14500/min, 300/s} are full after twelve idle hours.
#[test]
fn three_large_limits_refill_to_their_bursts() {
    let rates = [Rate::per_hour(700_000), Rate::per_minute(14_500), Rate::per_second(300)];
    let (limiter, clock) = several(rates.map(TokenBucket::new));
    assert!(limiter.check(7).is_allowed());
    clock.advance(Duration::from_secs(12 * 3_600));
    assert!(limiter.check(7).is_allowed());
    assert!((0..299).all(|_| limiter.check(7).is_allowed()));
    let refused = limiter.check(7);
    assert_eq!(
        (refused.retry_after(), refused.refused_by()),
        (Some(Duration::from_nanos(3_333_334)), Some(2))
    );
    assert_eq!(left(&limiter, 7), [699_700, 14_200, 0]);
}
