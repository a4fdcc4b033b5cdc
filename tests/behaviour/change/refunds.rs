//! Refunds after a change.

use std::time::Duration;

use tollgate::Inherit::Additive;

use super::{bucket, keyed, left};

/// The old quota's clock stands still at the change; the new one goes on to refill.
#[test]
fn a_refund_after_a_change_tells_what_was_owed() {
    for (millis, owed) in [(0, 10), (250, 5), (275, 5), (500, 0), (2_000, 0)] {
        let (limiter, clock) = keyed(bucket(10, 10));
        let taken = limiter.check_n(7, 10);
        limiter.change().to(bucket(20, 20)).inherit(Additive).apply().unwrap();
        clock.advance(Duration::from_millis(millis));
        assert_eq!(limiter.refund(taken), owed, "{millis} ms later");
        assert_eq!(left(&limiter, 7), 20);
    }
}

/// The debt is larger than the new limit.
#[test]
fn a_refund_of_booked_units_tells_all_of_them() {
    let (limiter, _) = keyed(bucket(1, 10));
    assert!(limiter.check_n(7, 10).is_allowed());
    let taken = limiter.account(7).debit(8).unwrap();
    limiter.change().to(bucket(1, 5)).inherit(Additive).apply().unwrap();
    assert_eq!((limiter.refund(taken), left(&limiter, 7)), (8, 0));
}
