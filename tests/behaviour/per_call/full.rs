//! A full table: an error that says so, and no debt is forgotten.

use tollgate::{CallError, CallQuota, Rate};

use super::{Limiter, debt, limiter, nanos};

/// Gives keys below 500 a debt of `debt` until there is no room for another: which they are.
fn fill(limiter: &Limiter, debt: u64) -> Vec<u64> {
    let quota = nanos(debt, debt);
    let is_charged = |key: &u64| limiter.check(key, quota, 1).is_ok_and(|decision| decision.is_allowed());
    (0..500).filter(is_charged).collect()
}

#[test]
fn a_full_table_is_an_error_that_counts_its_keys() {
    let (limiter, clock) = limiter(1);
    let in_debt = fill(&limiter, 1_000).len() as u64;
    assert_eq!(in_debt, 60, "four buckets of fifteen");
    assert_eq!(limiter.stats().refused_full, 500 - in_debt);

    let full = CallError::Full { keys_in_debt: 60, max_keys: 1 };
    assert_eq!(
        full.to_string(),
        "the table has no room for another key, and about 60 keys are in debt: raise max_keys, which is 1"
    );
    let small = nanos(10, 1_999);
    for key in 1_000..1_100 {
        assert_eq!(limiter.check(&key, small, 1).unwrap_err(), full);
        assert_eq!(limiter.peek(&key, small, 1).unwrap_err(), full);
        assert_eq!(limiter.check(&key, small, 0).unwrap_err(), full);
    }
    assert_eq!(limiter.stats().refused_full, 600 - in_debt, "a look is not counted");
    assert_eq!((limiter.usage().live_keys, limiter.stats().shared), (60, 0));
    clock.advance(std::time::Duration::from_nanos(1_000));
    assert!((1_000..1_010).all(|key| limiter.check(&key, small, 1).unwrap().is_allowed()));
}

/// In a table that has grown the count is an estimate.
#[test]
fn a_large_tables_keys_in_debt_are_estimated() {
    let (limiter, _) = limiter(50_000);
    let quota = CallQuota::new(Rate::per_hour(1), 1).unwrap();
    let estimates: Vec<usize> = (0..200_000_u64)
        .filter_map(|key| match limiter.check(&key, quota, 1).err()? {
            CallError::Full { keys_in_debt, max_keys: 50_000 } => Some(keys_in_debt),
            other => panic!("{other}"),
        })
        .collect();
    let (last, keys) = (*estimates.last().unwrap(), limiter.usage().live_keys);
    assert!(keys > 100_000, "{keys}");
    assert!(last.abs_diff(keys) * 10 < keys, "{last} for {keys}");
}

#[test]
fn a_slot_of_small_debt_is_inherited_with_it() {
    let (limiter, _) = limiter(1);
    assert_eq!(fill(&limiter, 1_000).len(), 60);
    let large = nanos(10, 2_000);
    let peeked = limiter.peek(&777, large, 1).unwrap();
    let decision = limiter.check(&777, large, 1).unwrap();
    assert!(decision.is_allowed());
    assert_eq!((peeked.remaining(), decision.remaining()), (99, 99), "half, less one");
    assert_eq!((debt(&limiter, 777), limiter.usage().live_keys), (1_010, 60));
    assert_eq!(limiter.stats().evicted_with_debt, 1);
}

/// The inherited debt leaves no room: no refusal, since it is not the key's own.
#[test]
fn a_request_too_large_beside_inherited_debt_is_full() {
    let (limiter, _) = limiter(1);
    assert_eq!(fill(&limiter, 1_000).len(), 60);
    let quota = nanos(10, 2_000);
    let full = CallError::Full { keys_in_debt: 60, max_keys: 1 };
    assert_eq!(limiter.peek(&777, quota, 101).unwrap_err(), full);
    assert_eq!(limiter.check(&777, quota, 101).unwrap_err(), full);
    assert_eq!(limiter.stats().evicted_with_debt, 0);
    assert!(limiter.check(&777, quota, 100).unwrap().is_allowed());
    // From now on it is the key's own.
    assert!(!limiter.check(&777, quota, 1).unwrap().is_allowed());
}

/// A key that lost its slot has its debt still, also after another's was forgiven or given back.
#[test]
fn a_key_that_lost_its_slot_finds_its_debt() {
    for is_reset in [true, false] {
        let (limiter, _) = limiter(1);
        let owners = fill(&limiter, 1_000);
        let (large, small) = (nanos(1_000, 4_000), nanos(10, 20));
        // Each takes the slot of another.
        let mut inherited: Vec<_> = (1_000..1_200)
            .map(|key| (key, limiter.check(&key, large, 1)))
            .filter_map(|(key, answer)| Some((key, answer.ok()?)))
            .collect();
        assert!(inherited.len() >= 60, "{}", inherited.len());
        assert!(inherited.iter().all(|(_, decision)| decision.is_allowed()));
        for (key, decision) in &mut inherited {
            if is_reset {
                limiter.prepare(key).reset();
            } else {
                limiter.refund(decision, 1);
            }
        }
        for key in owners {
            match limiter.check(&key, small, 1) {
                Ok(decision) => assert!(!decision.is_allowed(), "key {key} owes 1,000"),
                Err(error) => assert!(matches!(error, CallError::Full { .. }), "{error}"),
            }
        }
    }
}
