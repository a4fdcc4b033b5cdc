//! The limiter's own quota: of requests that bring none.

use std::time::Duration;

use tollgate::{BuildError, CallQuota, Inherit};

use super::{MOST, builder, check, debt, nanos};

fn quota(emission: u64, tolerance: u64) -> CallQuota {
    CallQuota::from_nanos(emission, tolerance).unwrap()
}

#[test]
fn a_request_without_a_quota_is_decided_by_the_limiters() {
    let clock = tollgate::ManualClock::new();
    let builder = builder(quota(10, 100)).tier(quota(10, 1_000)).clock(clock.clone());
    let limiter = builder.build().unwrap();
    assert_eq!(limiter.check_n(7, 6).remaining(), 4);
    let paid = limiter.account(7).tier(1).expect("there are two tiers");
    assert_eq!((paid.check().limit(), debt(&limiter, 7)), (100, 70));

    // A debt that only a larger quota allows is a debt all the same.
    let large = nanos(1, MOST);
    let receipt = check(&limiter, 7, &large, 5_000).receipt();
    let decision = limiter.check(7);
    assert!(!decision.is_allowed() && !decision.is_full());
    assert_eq!(decision.retry_after(), Some(Duration::from_nanos(4_980)));
    assert_eq!(limiter.account(7).credit(7), 7);
    assert_eq!((debt(&limiter, 7), limiter.usage().live_keys), (5_000, 1));
    assert_eq!((limiter.refund(receipt), debt(&limiter, 7)), (5_000, 0));
    assert!(limiter.check_n(7, 10).is_allowed());
    assert!(limiter.account(7).reset());
    clock.advance(Duration::from_nanos(1));
    assert_eq!(limiter.usage().live_keys, 0);
}

#[test]
fn another_default_quota_keeps_every_debt() {
    let limiter = builder(quota(10, 100)).clock(tollgate::ManualClock::new()).build().unwrap();
    let lent = nanos(3, 1_000);
    let receipts = [
        limiter.check_n(7, 6).receipt(),
        check(&limiter, 7, &lent, 100).receipt(),
        limiter.check(8).receipt(),
    ];
    for inherit in [Inherit::AsIs, Inherit::Proportional, Inherit::Reset] {
        let error = limiter.change().to(quota(1, 1_000)).inherit(inherit).apply().unwrap_err();
        assert_eq!(error, BuildError::CannotInherit { field: "inherit" });
        assert_eq!(
            limiter.change().to(quota(10, 100)).inherit(inherit).apply().is_ok(),
            inherit != Inherit::Reset
        );
    }
    limiter.change().to(quota(1, 1_000)).inherit(Inherit::Additive).apply().unwrap();
    assert_eq!([7, 8].map(|key| debt(&limiter, key)), [360, 10]);
    assert_eq!(limiter.check(7).remaining(), 639);
    // Lent quotas know no versions, and receipts of before the change are good.
    assert_eq!(check(&limiter, 7, &lent, 10).remaining(), 203);
    let [first, second, other] = receipts;
    assert_eq!((limiter.refund(second), debt(&limiter, 7)), (100, 91));
    assert_eq!((limiter.refund(first), limiter.refund(other)), (6, 1));
    assert_eq!([7, 8].map(|key| debt(&limiter, key)), [31, 0]);
}
