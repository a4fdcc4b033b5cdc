//! The settings that must be equal in the restored limiter, and those that may differ.

use tollgate::{
    CountPolicy, FixedWindow, LeakyBucket, Limiter, Quota, Rate, RestoreError, SlidingLog, SlidingWindow,
    TokenBucket,
};

use super::{SECOND, Subject, clock, saved};
use tollgate_testing::keys::Placed;
use tollgate_testing::limits::{every, refuses_when_full};

const BEGUN: u64 = 1_700_000_000 * SECOND;

fn limiter(quota: Quota, max_keys: usize) -> Subject {
    Limiter::builder(quota).per().max_keys(max_keys).clock(clock(BEGUN, SECOND)).build().unwrap()
}

fn restore(quota: Quota, max_keys: usize, file: &[u8]) -> Result<Subject, RestoreError> {
    Limiter::builder(quota).per().max_keys(max_keys).clock(clock(BEGUN, SECOND)).restore(file)
}

#[test]
fn another_quota_is_refused_by_name() {
    let (ten, bucket) = (Rate::per_second(10), TokenBucket::new(Rate::per_second(10)));
    let log = SlidingLog::new(ten);
    let cases: [[Quota; 2]; 9] = [
        [bucket.into(), TokenBucket::new(Rate::per_second(11)).burst(10).into()],
        [FixedWindow::new(ten).into(), FixedWindow::new(Rate::per_minute(10)).into()],
        [bucket.into(), bucket.burst(11).into()],
        [bucket.into(), bucket.initial(9).into()],
        [LeakyBucket::meter(ten).into(), LeakyBucket::meter(ten).capacity(9).into()],
        [LeakyBucket::meter(ten).into(), LeakyBucket::queue(ten).into()],
        [log.into(), log.count(CountPolicy::All).into()],
        [SlidingWindow::new(ten).into(), SlidingWindow::new(ten).subwindows(1).into()],
        [bucket.into(), LeakyBucket::meter(ten).into()],
    ];
    for [before, now] in cases {
        let file = saved(&limiter(before, 8));
        match restore(now, 8, &file) {
            Err(RestoreError::Differs { field, saved, given }) => {
                assert_eq!((&*field, saved, given), ("the quota", before.to_string(), now.to_string()));
            }
            other => panic!("{before}, {now}: {other:?}"),
        }
    }
    // A bucket that begins full, said or not.
    assert!(restore(bucket.initial(10).into(), 8, &saved(&limiter(bucket.into(), 8))).is_ok());
}

#[test]
fn other_tiers_are_refused_by_name() {
    let quota = |count| TokenBucket::new(Rate::per_second(count));
    let mut file = Vec::new();
    Limiter::builder(quota(1)).per::<u64>().tier(quota(2)).build().unwrap().save(&mut file).unwrap();
    let field = |restored: Result<Limiter<u64>, RestoreError>| match restored {
        Err(RestoreError::Differs { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(field(Limiter::builder(quota(1)).per().restore(&file[..])), "the number of tiers");
    assert_eq!(
        field(Limiter::builder(quota(1)).per().tier(quota(3)).restore(&file[..])),
        "the quota of tier 1"
    );
    let trusted = Limiter::builder(quota(1)).per().tier(quota(2)).trusted_keys();
    assert_eq!(field(trusted.restore(&file[..])), "trusted_keys");
}

#[test]
fn one_limit_is_not_a_limit_for_each() {
    let quota = TokenBucket::new(Rate::per_second(10));
    let mut file = Vec::new();
    Limiter::builder(quota).build().unwrap().save(&mut file).unwrap();
    let error = Limiter::builder(quota).per::<u64>().restore(&file[..]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the kind is limits for each key, but was limits for everything when the limiter was saved"
    );
}

#[test]
fn invalid_settings_are_still_refused_by_build() {
    let file = saved(&limiter(TokenBucket::new(Rate::per_second(10)).into(), 8));
    let builder = Limiter::builder(Quota::from(TokenBucket::new(Rate::per_second(10)))).per::<u64>();
    let error = builder.max_keys(0).restore(&file[..]).unwrap_err();
    assert!(matches!(error, RestoreError::Build(tollgate::BuildError::OutOfRange { field: "max_keys", .. })));
}

#[test]
fn an_algorithm_chosen_at_run_time_is_the_algorithm() {
    let quota = TokenBucket::new(Rate::per_hour(10));
    let chosen = limiter(quota.into(), 8);
    assert!(chosen.check_n(7, 9).is_allowed());
    let builder = Limiter::builder(quota).per::<u64>().max_keys(8).clock(clock(BEGUN, SECOND));
    assert_eq!(builder.restore(&saved(&chosen)[..]).unwrap().check(7).remaining(), 0);
}

#[test]
fn long_and_trusted_keys_keep_their_names() {
    let quota = TokenBucket::new(Rate::per_hour(10));
    for trusted in [false, true] {
        let builder = || {
            let builder = Limiter::builder(quota).per::<str>();
            if trusted { builder.trusted_keys() } else { builder }
        };
        let before = builder().build().unwrap();
        let keys: Vec<String> = (0..200).map(|key| format!("client number {key}")).collect();
        for (key, taken) in keys.iter().zip(1..) {
            assert!(before.check_n(key, 1 + taken % 10).is_allowed());
        }
        let mut file = Vec::new();
        assert_eq!(before.save(&mut file).unwrap(), 200);
        let after = builder().restore(&file[..]).unwrap();
        for (key, taken) in keys.iter().zip(1..) {
            assert_eq!(after.account(key).at(after.now()).peek_n(0).remaining(), 9 - taken % 10, "{key}");
        }
    }
}

#[test]
fn a_restore_into_another_size_keeps_all_debt() {
    const KEYS: u64 = 150;
    for quota in every(Rate::per_hour(10)) {
        let before = limiter(quota, 1_000);
        // So few that no bucket is full in the smaller table: of 300, one had no room in every
        // 250th run.
        for key in 0..KEYS {
            assert!(before.check_n(key, 1 + key % 10).is_allowed());
        }
        let file = saved(&before);
        for max_keys in [1_000, 100_000, 500] {
            let after = restore(quota, max_keys, &file).unwrap();
            for key in 0..KEYS {
                let (one, other) = (before.peek(key), after.peek(key));
                assert_eq!(one.remaining(), other.remaining(), "{quota}: {key} in a table for {max_keys}");
            }
        }
    }
}

#[test]
fn too_many_keys_for_a_smaller_table_are_an_error() {
    for quota in every(Rate::per_hour(10)) {
        let before = limiter(quota, 1_000);
        (0..300).for_each(|key| assert!(before.check(key).is_allowed()));
        match restore(quota, 100, &saved(&before)) {
            Err(error @ RestoreError::NoRoom { keys: 300, max_keys: 100 }) => {
                assert!(error.to_string().starts_with("300 keys were saved, and max_keys is 100"), "{error}");
            }
            other => panic!("{quota}: {other:?}"),
        }
    }
}

#[test]
fn a_table_above_max_keys_is_restored_unchanged() {
    for quota in every(Rate::per_hour(10)) {
        let before = limiter(quota, 16);
        let held = (0..40).filter(|key| before.check(key).is_allowed()).count();
        assert!(held > 16, "{quota}: {held}");
        let after = restore(quota, 16, &saved(&before)).unwrap();
        assert!((0..40).all(|key| after.peek(key).remaining() == before.peek(key).remaining()), "{quota}");
    }
}

#[test]
fn a_flood_that_filled_the_table_is_not_forgiven() {
    for quota in every(Rate::per_hour(10)) {
        let before = limiter(quota, 8);
        // Every key spends what it can. The last keys share the allowance of their bucket, or are
        // refused.
        for key in 0..200 {
            while before.check(key).is_allowed() {}
        }
        let after = restore(quota, 8, &saved(&before)).unwrap();
        assert!((0..200).all(|key| !after.check(key).is_allowed()), "{quota}");
        let mut allowed = 0;
        let larger = restore(quota, 1_000, &saved(&before)).unwrap();
        for key in 0..200 {
            while larger.check(key).is_allowed() {
                allowed += 1;
            }
        }
        let counted = refuses_when_full(&quota);
        assert!(counted || allowed == 0, "{quota}: {allowed} more");
    }
}

#[test]
fn a_key_without_a_slot_shares_its_debt() {
    for quota in every(Rate::per_hour(10)) {
        let builder = |max_keys| {
            let builder = Limiter::builder(quota).per::<Placed>().max_keys(max_keys);
            builder.clock(clock(BEGUN, SECOND))
        };
        // Sixteen keys in two buckets of sixteen slots, which become one bucket of fifteen in a
        // table of four.
        let keys: Vec<Placed> = (1..=16).map(|key| Placed(key << 40 | (key & 1) << 2)).collect();
        let before = builder(100).build().unwrap();
        assert!(keys.iter().all(|key| before.check_n(key, 10).is_allowed()));
        let mut file = Vec::new();
        assert_eq!(before.save(&mut file).unwrap(), 16);
        match builder(16).restore(&file[..]) {
            Ok(after) => {
                assert!(keys.iter().all(|key| !after.check(key).is_allowed()), "{quota}");
                assert!(!after.check(Placed(99 << 40)).is_allowed(), "{quota}: it shares");
                assert!(after.check(Placed(99 << 40 | 1)).is_allowed(), "{quota}: another bucket");
            }
            Err(RestoreError::NoRoom { keys: 16, max_keys: 16 }) => {
                assert!(refuses_when_full(&quota), "{quota}");
            }
            other => panic!("{quota}: {other:?}"),
        }
    }
}
