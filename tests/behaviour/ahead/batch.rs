//! The promises of `check_many`.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Limiter, ManualClock, Rate, Timestamp, TokenBucket};

use super::{Counting, all_of, every};

/// More keys than two windows of a batch.
const MANY: u64 = 70;

fn one_a_second() -> Limiter<u64, TokenBucket, 1, Counting> {
    Limiter::builder(TokenBucket::new(Rate::per_second(1))).per().clock(Counting::default()).build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_batch_decides_as_checks_one_by_one(
        batches in prop::collection::vec((0_u64..700, prop::collection::vec(0_u64..12, 0..100)), 1..5),
    ) {
        for tiers in every() {
            let clock = ManualClock::new();
            let builder = || Limiter::builder(tiers[0]).per::<u64>().max_keys(10_000).clock(clock.clone());
            let (together, alone) = (builder().build().unwrap(), builder().build().unwrap());
            let mut now = Timestamp::ZERO;
            for (later, keys) in &batches {
                now = now + Duration::from_millis(*later);
                clock.set(now);
                let batch: Vec<String> = together.check_many(keys).map(all_of).collect();
                let singly: Vec<String> = keys.iter().map(|key| all_of(alone.account(key).at(now).check())).collect();
                prop_assert_eq!(batch, singly, "{:?}", tiers[0]);
            }
        }
    }
}

#[test]
fn the_clock_is_read_once_for_all() {
    let clock = Counting::default();
    let limiter = Limiter::builder(TokenBucket::new(Rate::per_second(1))).per::<u64>().clock(clock.clone());
    let limiter = limiter.build().unwrap();
    // New keys, whose insertion could read the clock again, and known keys. Every reading advances
    // the clock, but the batch reads it once.
    let keys: Vec<u64> = (0..MANY).chain(0..MANY).collect();
    assert_eq!(limiter.check_many(&keys).filter(|decision| decision.is_allowed()).count() as u64, MANY);
    assert_eq!(clock.readings(), 1);
}

#[test]
fn dropping_the_batch_leaves_the_rest_unchecked() {
    let limiter = one_a_second();
    let keys: Vec<u64> = (0..MANY).collect();
    let taken = limiter.check_many(&keys).take(3).map(all_of).count();
    assert_eq!(taken, 3);
    let left =
        keys.iter().filter(|key| limiter.account(key).at(Timestamp::ZERO).peek_n(1).is_allowed()).count();
    assert_eq!(left, keys.len() - 3);
}

#[test]
fn a_batch_that_is_not_iterated_changes_nothing() {
    let limiter = one_a_second();
    drop(limiter.check_many(&[1, 2, 3]));
    assert!(limiter.usage().live_keys == 0);
    assert_eq!(limiter.stats(), one_a_second().stats());
}

#[test]
fn a_batch_knows_how_many_are_left() {
    let limiter = one_a_second();
    for len in [0, 1, 31, 32, 33, MANY] {
        let keys: Vec<u64> = (0..len).collect();
        let mut batch = limiter.check_many(&keys);
        for left in (0..len as usize).rev() {
            assert_eq!(batch.size_hint(), (left + 1, Some(left + 1)));
            assert!(batch.next().is_some());
            assert_eq!(batch.size_hint(), (left, Some(left)));
        }
        assert!(batch.next().is_none() && batch.next().is_none(), "an end is the end");
    }
}

#[test]
fn an_iterator_is_not_polled_after_its_end() {
    let limiter = one_a_second();
    // The iterator is not fused: it has a key after its end.
    let mut script = [Some(1), None, Some(2)].into_iter();
    let keys = std::iter::from_fn(move || script.next().flatten());
    assert_eq!(limiter.check_many(keys).count(), 1);
    assert!(limiter.account(2).at(Timestamp::ZERO).peek_n(1).is_allowed());
}

#[test]
fn keys_come_as_slices_arrays_vectors_and_iterators() {
    let numbers = one_a_second();
    assert_eq!(numbers.check_many(&[1, 2]).count(), 2);
    assert_eq!(numbers.check_many([1, 2]).count(), 2);
    assert_eq!(numbers.check_many(vec![1, 2]).count(), 2);
    assert_eq!(numbers.check_many(1..=2).count(), 2);
    let names = Limiter::builder(TokenBucket::new(Rate::per_second(1))).per::<str>().build().unwrap();
    assert_eq!(names.check_many(["a", "b"]).count(), 2);
    assert_eq!(names.check_many(vec!["a".to_owned(), "b".to_owned()]).count(), 2);
    assert_eq!(names.check_many(["a", "b"].iter().copied()).count(), 2);
    let owned = Limiter::builder(TokenBucket::new(Rate::per_second(1))).per::<String>().build().unwrap();
    assert_eq!(owned.check_many(&["a".to_owned()]).count(), 1);
}
