//! A limiter that continues a saved one under other quotas.

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::Inherit::{Additive, AsIs, Proportional, Reset};
use tollgate::{
    BuildError, FixedWindow, Inherit, LeakyBucket, Limiter, ManualClock, Quota, Rate, RestoreError,
    SlidingLog, SlidingWindow, TokenBucket,
};

use super::{SECOND, Subject, clock, saved};

const BEGUN: u64 = 1_700_000_000 * SECOND;

fn builder(quota: Quota, clock: &ManualClock) -> tollgate::Builder<u64, Quota, 1, ManualClock> {
    Limiter::builder(quota).per().max_keys(8).clock(clock.clone())
}

fn bucket(count: u64, burst: u64) -> Quota {
    TokenBucket::new(Rate::per_second(count)).burst(burst).into()
}

fn window(limit: u64) -> Quota {
    FixedWindow::new(Rate::per_hour(limit)).into()
}

fn left(limiter: &Subject) -> Vec<u64> {
    (0..4).map(|key| limiter.account(key).peek_n(0).remaining()).collect()
}

proptest! {
    /// At the same instant a change before the save and one after the restart are the same.
    #[test]
    fn a_change_over_a_restart_is_one_before_it(
        [before, after] in select(vec![
            [bucket(10, 10), bucket(10, 25)],
            [bucket(10, 25), bucket(3, 7)],
            [LeakyBucket::meter(Rate::per_minute(60)).into(), LeakyBucket::queue(Rate::per_second(3)).into()],
            [window(10), window(30)],
            [window(30), window(7)],
            [SlidingWindow::new(Rate::per_hour(9)).into(), SlidingWindow::new(Rate::per_hour(5)).into()],
            [SlidingLog::new(Rate::per_hour(9)).into(), SlidingLog::new(Rate::per_hour(5)).into()],
        ]),
        inherit in select(vec![AsIs, Additive, Proportional, Reset]),
        charges in prop::collection::vec((0..4_u64, 0..8_u64), 0..20),
        wait in 0..3 * SECOND,
    ) {
        let old = clock(BEGUN, SECOND);
        let limiter = builder(before, &old).build().unwrap();
        for (key, cost) in charges {
            let _ = limiter.check_n(key, cost);
        }
        let file = saved(&limiter);
        let new = clock(BEGUN + wait, SECOND / 2);
        let restored = builder(after, &new).restore_changed(&file[..], inherit);
        old.advance(std::time::Duration::from_nanos(wait));
        match (limiter.change().to(after).inherit(inherit).apply(), restored) {
            (Ok(()), Ok(restored)) => prop_assert_eq!(left(&restored), left(&limiter)),
            (Err(told), Err(RestoreError::Build(error))) => prop_assert_eq!(told, error),
            (told, other) => prop_assert!(false, "{:?}, {:?}", told, other.map(|_| ())),
        }
    }
}

#[test]
fn the_same_quotas_are_restored_by_both() {
    let clock = clock(BEGUN, SECOND);
    let limiter = builder(bucket(1, 10), &clock).build().unwrap();
    assert!(limiter.check_n(1, 4).is_allowed());
    let file = saved(&limiter);
    // What stays is not forgiven.
    let restored = builder(bucket(1, 10), &clock).restore_changed(&file[..], Reset).unwrap();
    assert_eq!(left(&restored), [10, 6, 10, 10]);
}

#[test]
fn tiers_and_limits_that_stay_keep_their_debts() {
    let clock = clock(BEGUN, SECOND);
    let tiers = |first, second| {
        let builder = Limiter::builder([first, second]).per::<u64>().max_keys(8).clock(clock.clone());
        builder.tier([bucket(1, 40), window(40)])
    };
    let limiter = tiers(bucket(1, 10), window(20)).build().unwrap();
    assert!(limiter.check_n(1, 4).is_allowed());
    let mut file = Vec::new();
    limiter.save(&mut file).unwrap();
    let all = |limiter: &Limiter<u64, Quota, 2, ManualClock>| {
        let decision = limiter.account(1).peek_n(0);
        decision.parts().map(|part| part.remaining()).collect::<Vec<_>>()
    };
    let restored = tiers(bucket(1, 10), window(50)).restore_changed(&file[..], Reset).unwrap();
    assert_eq!(all(&restored), [6, 50]);
    let restored = tiers(bucket(1, 30), window(20)).restore_changed(&file[..], Additive).unwrap();
    assert_eq!(all(&restored), [26, 16]);
}

#[test]
fn what_no_change_can_do_is_an_error() {
    let file = |quota| saved(&builder(quota, &clock(BEGUN, SECOND)).build().unwrap());
    let continued = |quota, file: &[u8], inherit: Inherit| {
        builder(quota, &clock(BEGUN, SECOND)).restore_changed(file, inherit).map(|_| ())
    };
    let error = continued(window(5), &file(bucket(1, 5)), Additive).unwrap_err();
    assert!(
        matches!(error, RestoreError::Build(BuildError::CannotInherit { field: "algorithm" })),
        "{error}"
    );
    let log = |count| Quota::from(SlidingLog::new(Rate::per_hour(count)));
    assert!(continued(log(5), &file(log(9)), Additive).is_ok());
    assert!(matches!(continued(log(9), &file(log(5)), Additive), Err(RestoreError::Build(_))));
    // The type of the limiter has no such quota.
    let only = Limiter::builder(TokenBucket::new(Rate::per_second(1))).per::<u64>();
    let error = only.restore_changed(&file(window(5))[..], Additive).unwrap_err();
    assert!(matches!(error, RestoreError::Differs { ref field, .. } if field == "the quota"), "{error}");
    // Nor are there as many.
    let tiers = builder(bucket(1, 5), &clock(BEGUN, SECOND)).tier(bucket(1, 9));
    let error = tiers.restore_changed(&file(bucket(1, 5))[..], Additive).unwrap_err();
    assert!(
        matches!(error, RestoreError::Differs { ref field, .. } if field == "the number of tiers"),
        "{error}"
    );
}
