//! The debts of calls over a restart.

use std::time::Duration;

use tollgate::{CallQuota, ManualClock, Quota, RestoreError};

use super::{Limiter, SECOND, any, builder, check, debt, nanos};

const BEGUN: u64 = 1_700_000_000;

fn clock(unix: u64) -> ManualClock {
    ManualClock::starting_at(Duration::from_secs(unix))
}

fn limiter(max_keys: usize, clock: &ManualClock) -> Limiter {
    builder(any()).max_keys(max_keys).clock(clock.clone()).build().unwrap()
}

fn restore(file: &[u8], max_keys: usize, unix: u64) -> Result<Limiter, RestoreError> {
    builder(any()).max_keys(max_keys).clock(clock(unix)).restore(file)
}

/// A limiter whose keys from 0 owe one second more each, as a file.
fn file(keys: u64) -> Vec<u8> {
    let clock = clock(BEGUN);
    clock.advance(Duration::from_secs(1_000));
    let limiter = limiter(100_000, &clock);
    for key in 0..keys {
        let quota = nanos(SECOND, SECOND * keys);
        assert!(check(&limiter, key, &quota, key + 1).is_allowed());
    }
    let mut file = Vec::new();
    assert_eq!(limiter.save(&mut file).unwrap() as u64, keys);
    file
}

#[test]
fn a_restored_call_owes_what_it_owed() {
    let file = file(2_000);
    // Ten seconds pass between the two processes.
    let limiter = restore(&file, 100_000, BEGUN + 1_010).unwrap();
    for key in 0..2_000 {
        assert_eq!(debt(&limiter, key), (key + 1).saturating_sub(10) * SECOND, "key {key}");
    }
    assert_eq!(limiter.usage().live_keys, 1_990);
    assert_eq!(debt(&limiter, 2_000), 0);
}

/// A debt is a time, under any quota.
#[test]
fn calls_are_restored_under_any_default_quota() {
    let other = CallQuota::from_nanos(7, 77).unwrap();
    let restored = builder(other).max_keys(100).clock(clock(BEGUN + 1_000)).restore(&file(3)[..]);
    let limiter = restored.unwrap();
    assert_eq!([0, 1, 2].map(|key| debt(&limiter, key)), [SECOND, 2 * SECOND, 3 * SECOND]);
    let tiers = builder(other).tier(other).clock(clock(BEGUN)).restore(&file(3)[..]).unwrap_err();
    assert!(matches!(tiers, RestoreError::Differs { .. }), "{tiers:?}");
}

#[test]
fn a_clock_set_back_keeps_call_debts() {
    let limiter = restore(&file(3), 100, BEGUN - 86_400).unwrap();
    assert_eq!([0, 1, 2].map(|key| debt(&limiter, key)), [SECOND, 2 * SECOND, 3 * SECOND]);
}

#[test]
fn calls_that_do_not_fit_are_an_error() {
    let error = restore(&file(2_000), 10, BEGUN + 1_000).unwrap_err();
    assert!(matches!(error, RestoreError::NoRoom { keys: 2_000, max_keys: 10 }), "{error:?}");
    // Those that have run out need no room.
    assert!(restore(&file(2_000), 10, BEGUN + 9_000).is_ok());
}

#[test]
fn saved_calls_cut_short_are_truncated() {
    let file = file(3);
    assert!(restore(&file, 100, BEGUN).is_ok());
    for len in 0..file.len() {
        let error = restore(&file[..len], 100, BEGUN).expect_err("a part is not the whole");
        assert!(matches!(error, RestoreError::Truncated), "{len} bytes: {error:?}");
    }
    for bit in 0..8 * file.len() {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(restore(&flipped, 100, BEGUN).is_err(), "bit {bit}");
    }
}

#[test]
fn another_kind_of_limiter_is_no_saved_call() {
    let quota: Quota = "1/s".parse().unwrap();
    let mut several = Vec::new();
    tollgate::Limiter::builder([quota]).per::<u64>().build().unwrap().save(&mut several).unwrap();
    let error = restore(&several, 100, BEGUN).unwrap_err();
    assert!(matches!(error, RestoreError::Differs { .. }), "{error:?}");
    let error = tollgate::Limiter::builder([quota]).per::<u64>().restore(&file(1)[..]).unwrap_err();
    assert!(matches!(error, RestoreError::Differs { .. }), "{error:?}");
}

/// A key that lost its slot left its debt in the bucket, where no reset of another key ends it.
#[test]
fn debts_of_evicted_keys_are_saved_and_restored() {
    let clock = clock(BEGUN);
    clock.advance(Duration::from_secs(1_000));
    let limiter = limiter(1, &clock);
    let quota = nanos(SECOND, 1_000 * SECOND);
    let mut keys = 0;
    while limiter.stats().evicted_with_debt < 5 {
        assert!(check(&limiter, keys, &quota, 1 + keys % 7).is_allowed());
        keys += 1;
    }
    let save = || {
        let mut file = Vec::new();
        assert_eq!(limiter.save(&mut file).unwrap(), limiter.usage().live_keys);
        restore(&file, 1, BEGUN + 1_000).unwrap()
    };
    let all = save();
    assert!((0..keys).all(|key| debt(&all, key) >= debt(&limiter, key)));
    for key in 0..keys {
        limiter.account(key).reset();
    }
    let shared = save();
    assert!((0..keys).all(|key| debt(&shared, key) >= debt(&limiter, key)));
    assert!((0..keys).filter(|key| debt(&limiter, *key) > 0).count() >= 2, "those that were evicted");
}
