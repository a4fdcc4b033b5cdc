//! Changes of tiers.

use tollgate::Inherit::{Additive, Proportional, Reset};
use tollgate::{BuildError, Limiter, ManualClock};

use super::{bucket, left};

#[test]
fn each_tier_inherits_its_own() {
    let clock = ManualClock::new();
    let builder = Limiter::builder(bucket(10, 10)).per::<u64>().tier(bucket(100, 100)).clock(clock.clone());
    let limiter = builder.build().unwrap();
    let paid = limiter.account(100).tier(1).unwrap();
    let left = |key| if key < 100 { left(&limiter, key) } else { paid.peek_n(0).remaining() };
    assert!(limiter.check_n(1, 5).is_allowed() && paid.check_n(50).is_allowed());
    limiter.change().to(bucket(20, 40)).inherit(Proportional).apply().unwrap();
    assert_eq!((left(1), left(100)), (20, 50), "tier 0 only");
    limiter.change().to(bucket(20, 10)).tier(1, bucket(10, 20)).inherit(Proportional).apply().unwrap();
    assert_eq!((left(1), left(100)), (5, 10));
    assert_eq!(limiter.account(5).tier(1).unwrap().peek().limit(), 20);
    limiter.change().to(bucket(20, 10)).inherit(Reset).apply().unwrap();
    assert_eq!((left(1), left(100)), (10, 10), "what is owed under tier 1 stays");
    let wrong = limiter.change().tier(2, bucket(1, 1)).limit(9, bucket(1, 1)).apply();
    assert_eq!(wrong, Err(BuildError::OutOfRange { field: "tier", value: 2, min: 0, max: 1 }));
}

#[test]
fn prepared_keys_batches_and_tiers_see_the_change() {
    let clock = ManualClock::new();
    let builder = Limiter::builder(bucket(1, 2)).per::<u64>().tier(bucket(1, 3)).clock(clock);
    let limiter = builder.build().unwrap();
    let (prepared, tier) = (limiter.account(7), limiter.account(7).tier(1).unwrap());
    assert_eq!(prepared.check().remaining(), 1);
    let mut batch = limiter.check_many(&[7, 7, 7, 7, 7]);
    assert!(batch.next().unwrap().is_allowed());
    assert!(!batch.next().unwrap().is_allowed());
    limiter.change().to(bucket(1, 4)).tier(1, bucket(1, 8)).inherit(Additive).apply().unwrap();
    assert!(batch.next().unwrap().is_allowed());
    assert_eq!(prepared.check().limit(), 4);
    assert!(!prepared.check().is_allowed() && !batch.next().unwrap().is_allowed());
    assert_eq!(tier.check_n(4).remaining(), 0);
}
