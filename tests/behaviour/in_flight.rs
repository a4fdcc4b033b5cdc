//! The promises of the in-flight limit: a bound on the units held at once, all of which come back.

mod owned;
mod waiting;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use proptest::prelude::*;
use tollgate::{AcquireError, BuildError, InFlight, InFlightLimiter, OwnedInFlight};
use tollgate_testing::random::Random;

fn limiter(limit: u64) -> InFlightLimiter<u64> {
    InFlightLimiter::builder(limit).per().max_keys(100).build().unwrap()
}

/// The smallest table, with one or two buckets.
fn smallest(limit: u64) -> InFlightLimiter<u64> {
    InFlightLimiter::builder(limit).per().max_keys(1).build().unwrap()
}

/// The test counts the held units by itself.
#[test]
fn never_more_than_the_limit_is_held_at_once() {
    for (limit, most) in [(1, 1), (3, 1), (7, 3), (12, 12)] {
        let (limiter, held, granted) = (limiter(limit), AtomicU64::new(0), AtomicU64::new(0));
        let work = |seed: u64| {
            let mut guards: Vec<InFlight<'_>> = Vec::new();
            let mut random = Random::with_seed(seed);
            for _ in 0..40_000 {
                let units = random.u64(1..=most);
                // Some threads hold several guards at a time.
                if random.u64(..16) < 9
                    && let Ok(guard) = limiter.try_acquire_n(1, units)
                {
                    assert!(held.fetch_add(units, Relaxed) + units <= limit, "more than {limit} at once");
                    granted.fetch_add(1, Relaxed);
                    guards.push(guard);
                } else if let Some(guard) = guards.pop() {
                    held.fetch_sub(guard.units(), Relaxed);
                    drop(guard);
                }
            }
            for guard in guards {
                held.fetch_sub(guard.units(), Relaxed);
            }
        };
        let work = &work;
        thread::scope(|scope| (1..=4).for_each(|seed| drop(scope.spawn(move || work(seed)))));
        assert!(granted.into_inner() > 1_000);
        assert_eq!((limiter.in_flight(1), limiter.usage().live_keys), (0, 0));
    }
}

#[test]
fn the_limit_can_be_held_and_one_more_is_refused() {
    let limiter = limiter(5);
    let guards: Vec<_> = (0..5).map(|_| limiter.try_acquire(1).unwrap()).collect();
    assert_eq!(limiter.try_acquire(1).unwrap_err(), AcquireError::Busy);
    assert_eq!((limiter.in_flight(1), limiter.usage().live_keys, limiter.limit()), (5, 1, 5));
    drop(guards);
    assert_eq!(limiter.try_acquire_n(1, 5).unwrap().units(), 5);
}

#[test]
fn everything_is_given_back_when_all_guards_are_dropped() {
    let limiter = InFlightLimiter::builder(9).per::<u64>().max_keys(100_000).build().unwrap();
    let guards: Vec<_> = (0..1_500).map(|key| limiter.try_acquire_n(key, 1 + key % 9).unwrap()).collect();
    assert!((0..1_500).all(|key| limiter.in_flight(key) == 1 + key % 9));
    assert_eq!(limiter.usage().live_keys, 1_500);
    // Drop the guards on another thread, in another order.
    thread::scope(|scope| drop(scope.spawn(|| guards.into_iter().rev().for_each(drop))));
    assert!((0..1_500).all(|key| limiter.in_flight(key) == 0));
    assert!(limiter.usage().live_keys == 0);
}

#[test]
fn a_holder_that_panics_gives_back() {
    let limiter = limiter(1);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = limiter.try_acquire(1).unwrap();
        assert!(limiter.try_acquire(1).is_err());
        panic!("the request failed");
    }));
    assert!(panicked.is_err());
    assert_eq!(limiter.in_flight(1), 0);
    assert!(limiter.try_acquire(1).is_ok());
}

#[test]
fn a_forgotten_guard_keeps_its_units() {
    let limiter = limiter(3);
    std::mem::forget(limiter.try_acquire_n(1, 2).unwrap());
    assert_eq!(limiter.in_flight(1), 2);
    assert!(limiter.try_acquire_n(1, 2).is_err());
    assert!(limiter.try_acquire(1).is_ok());
}

#[test]
fn keys_do_not_disturb_each_other() {
    let limiter = limiter(2);
    let one = limiter.try_acquire_n(1, 2).unwrap();
    let two = limiter.try_acquire(2).unwrap();
    assert_eq!([1, 2, 3].map(|key| limiter.in_flight(key)), [2, 1, 0]);
    drop(one);
    assert_eq!([1, 2, 3].map(|key| limiter.in_flight(key)), [0, 1, 0]);
    drop(two);
    assert!(limiter.usage().live_keys == 0);
}

#[test]
fn a_refusal_acquires_nothing() {
    let limiter = limiter(4);
    let _three = limiter.try_acquire_n(1, 3).unwrap();
    assert_eq!(limiter.try_acquire_n(1, 2).unwrap_err(), AcquireError::Busy);
    assert_eq!(limiter.in_flight(1), 3);
    assert!(limiter.try_acquire(1).is_ok());
}

#[test]
fn more_than_the_limit_is_never_granted() {
    let limiter = limiter(4);
    assert_eq!(limiter.try_acquire_n(1, 5).unwrap_err(), AcquireError::Never { units: 5, limit: 4 });
    assert_eq!(
        limiter.try_acquire_n(1, u64::MAX).unwrap_err(),
        AcquireError::Never { units: u64::MAX, limit: 4 }
    );
    assert!(limiter.usage().live_keys == 0);
    assert_eq!(limiter.stats().inserted, 0);
}

#[test]
fn zero_units_are_granted_and_need_no_room() {
    let limiter = limiter(1);
    let _one = limiter.try_acquire(1).unwrap();
    let nothing = limiter.try_acquire_n(1, 0).unwrap();
    let of_another = limiter.try_acquire_n(2, 0).unwrap();
    assert_eq!((nothing.units(), of_another.units()), (0, 0));
    drop((nothing, of_another));
    assert_eq!((limiter.in_flight(1), limiter.usage().live_keys, limiter.stats().inserted), (1, 1, 1));
}

#[test]
fn a_full_bucket_refuses_and_counts_it() {
    let limiter = smallest(3);
    let (mut guards, mut refused) = (Vec::new(), Vec::new());
    for key in 0..300 {
        match limiter.try_acquire(key) {
            Ok(guard) => guards.push((key, guard)),
            Err(error) => {
                assert_eq!(error, AcquireError::Busy);
                refused.push(key);
            }
        }
    }
    assert_eq!(limiter.usage().live_keys, guards.len());
    assert_eq!(guards.len(), 60, "four buckets of fifteen slots");
    assert_eq!(limiter.stats().refused_full, refused.len() as u64);
    // The refusals changed no key's count.
    for key in 0..300 {
        let holds = guards.iter().any(|(holder, _)| *holder == key);
        assert_eq!(limiter.in_flight(key), u64::from(holds));
    }
    // A key with a slot is served as before; the others are, as soon as a slot is free.
    let (known, _) = guards[0];
    assert!(limiter.try_acquire(known).is_ok());
    drop(guards);
    assert!(refused.iter().all(|key| limiter.try_acquire(key).is_ok()));
    let stats = limiter.stats();
    assert_eq!((stats.shared, stats.admitted_uncounted, stats.evicted_with_debt), (0, 0, 0));
}

/// The slots of a bucket are reused even while one of them stays in use.
#[test]
fn slots_that_ran_empty_are_used_again() {
    let limiter = smallest(2);
    let stays = limiter.try_acquire(u64::MAX).unwrap();
    for key in 0..100_000 {
        let both = (limiter.try_acquire(key).unwrap(), limiter.try_acquire(key).unwrap());
        assert!(limiter.try_acquire(key).is_err());
        drop(both);
    }
    assert_eq!((limiter.in_flight(u64::MAX), limiter.usage().live_keys), (1, 1));
    assert_eq!(limiter.stats().refused_full, 0);
    drop(stays);
    assert!(limiter.usage().live_keys == 0);
}

/// Threads use more keys than slots. The test counts by itself what each key holds.
#[test]
fn recycled_slots_never_mix_two_keys_up() {
    const KEYS: usize = 90;
    let (limiter, held) = (smallest(2), [const { AtomicU64::new(0) }; KEYS]);
    let work = |seed: usize| {
        let mut granted = 0;
        for turn in 0..60_000 {
            let key = (seed * 31 + turn * (2 * seed + 7)) % KEYS;
            let Ok(guard) = limiter.try_acquire(key as u64) else { continue };
            granted += 1;
            assert!(held[key].fetch_add(1, Relaxed) < 2, "more than 2 of key {key} at once");
            if turn % 64 == 0 {
                thread::yield_now();
            }
            held[key].fetch_sub(1, Relaxed);
            drop(guard);
        }
        granted
    };
    let work = &work;
    let granted: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|seed| scope.spawn(move || work(seed))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(granted > 100_000, "{granted}: so few never fill two buckets");
    assert!((0..KEYS as u64).all(|key| limiter.in_flight(key) == 0));
    assert!(limiter.usage().live_keys == 0);
}

#[test]
fn a_changed_limit_applies_to_later_acquisitions() {
    let limiter = limiter(3);
    let three: Vec<_> = (0..3).map(|_| limiter.try_acquire(1).unwrap()).collect();
    limiter.set_limit(5).unwrap();
    assert_eq!(limiter.limit(), 5);
    let two = limiter.try_acquire_n(1, 2).unwrap();
    // Five are in flight. Guards stay valid, and no unit is acquired before the third is returned.
    limiter.set_limit(3).unwrap();
    assert_eq!((limiter.in_flight(1), limiter.limit()), (5, 3));
    assert_eq!(limiter.try_acquire_n(1, 4).unwrap_err(), AcquireError::Never { units: 4, limit: 3 });
    drop(two);
    assert_eq!(limiter.try_acquire(1).unwrap_err(), AcquireError::Busy);
    drop(three);
    assert_eq!((limiter.in_flight(1), limiter.usage().live_keys), (0, 0));
    assert_eq!(limiter.try_acquire_n(1, 3).unwrap().units(), 3);
    assert!(limiter.try_acquire_n(2, 3).is_ok(), "for every key");
}

#[test]
fn a_limit_out_of_range_is_an_error() {
    let limiter = limiter(2);
    let largest = (1 << 20) - 1;
    for limit in [0, largest + 1, u64::MAX] {
        let (value, max) = (u128::from(limit), u128::from(largest));
        let refused = limiter.set_limit(limit).unwrap_err();
        assert_eq!(refused, BuildError::OutOfRange { field: "limit", value, min: 1, max });
        assert_eq!(limiter.limit(), 2);
        assert_eq!(limiter.try_acquire_n(1, 3).unwrap_err(), AcquireError::Never { units: 3, limit: 2 });
    }
    for limit in [largest, 1] {
        limiter.set_limit(limit).unwrap();
        assert_eq!(limiter.try_acquire_n(1, limit).unwrap().units(), limit);
    }
}

/// An operation on one of three keys.
#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire { key: u64, units: u64, owned: bool },
    Drop { nth: usize },
    Reconfigure { limit: u64 },
}

/// A guard of either kind. Dropping it gives back.
enum Guard<'l> {
    Borrowed(InFlight<'l>),
    Owned(OwnedInFlight<u64>),
}

impl Guard<'_> {
    fn units(&self) -> u64 {
        match self {
            Self::Borrowed(guard) => guard.units(),
            Self::Owned(guard) => guard.units(),
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..3_u64, 0..7_u64, any::<bool>())
            .prop_map(|(key, units, owned)| Step::Acquire { key, units, owned }),
        3 => (0..8_usize).prop_map(|nth| Step::Drop { nth }),
        2 => (0..7_u64).prop_map(|limit| Step::Reconfigure { limit }),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    /// The model is a sum over the live guards.
    #[test]
    fn limits_that_change_decide_as_a_sum_does(steps in steps()) {
        let (limiter, mut limit) = (Arc::new(limiter(3)), 3);
        let mut guards: Vec<(u64, Guard<'_>)> = Vec::new();
        for step in steps {
            match step {
                Step::Acquire { key, units, owned } => {
                    let held: u64 = guards.iter().filter(|(of, _)| *of == key).map(|(_, guard)| guard.units()).sum();
                    let expected = match units {
                        0 => Ok(0),
                        _ if units > limit => Err(AcquireError::Never { units, limit }),
                        _ if held + units > limit => Err(AcquireError::Busy),
                        _ => Ok(units),
                    };
                    let acquired = if owned {
                        limiter.try_acquire_n_owned(key, units).map(Guard::Owned)
                    } else {
                        limiter.try_acquire_n(key, units).map(Guard::Borrowed)
                    };
                    prop_assert_eq!(acquired.as_ref().map(Guard::units).map_err(|error| *error), expected);
                    guards.extend(acquired.ok().map(|guard| (key, guard)));
                }
                Step::Drop { nth } if nth < guards.len() => drop(guards.swap_remove(nth)),
                Step::Drop { .. } => {}
                Step::Reconfigure { limit: next } => {
                    let changed = limiter.set_limit(next).is_ok();
                    prop_assert_eq!(changed, next > 0);
                    limit = if changed { next } else { limit };
                }
            }
            prop_assert_eq!(limiter.limit(), limit);
            for key in 0..3 {
                let held: u64 = guards.iter().filter(|(of, _)| *of == key).map(|(_, guard)| guard.units()).sum();
                prop_assert_eq!(limiter.in_flight(key), held);
            }
        }
    }
}

/// Threads acquire and return while the limit changes. Once a key's count is within a lower limit,
/// it stays there, even if an acquisition began under a higher limit.
#[test]
fn a_key_stays_at_a_lower_limit() {
    let (limiter, held, over) = (limiter(8), AtomicU64::new(0), AtomicBool::new(false));
    let work = |seed: u64| {
        let mut random = Random::with_seed(seed);
        while !over.load(Relaxed) {
            let Ok(guard) = limiter.try_acquire_n(1, random.u64(1..=2)) else { continue };
            held.fetch_add(guard.units(), Relaxed);
            if random.bool() {
                thread::yield_now();
            }
            held.fetch_sub(guard.units(), Relaxed);
        }
    };
    let work = &work;
    // Nothing is asserted while the threads run, which would go on without end.
    let beyond = thread::scope(|scope| {
        (1..=4).for_each(|seed| drop(scope.spawn(move || work(seed))));
        let beyond = (0..400).find_map(|turn| {
            let low = 2 + turn % 3;
            limiter.set_limit(8).unwrap();
            thread::yield_now();
            limiter.set_limit(low).unwrap();
            // A limit that is kept is reached long before.
            (0..200_000).take_while(|_| limiter.in_flight(1) > low).for_each(|_| thread::yield_now());
            let most = (0..200).map(|_| held.load(Relaxed)).max()?;
            (most > low).then_some((most, low))
        });
        over.store(true, Relaxed);
        beyond
    });
    assert_eq!(beyond, None, "at once, and the limit");
    assert!(limiter.usage().live_keys == 0);
}

#[test]
fn nothing_allocates() {
    let limiter = smallest(2);
    let seen = allocation_counter::measure(|| {
        for key in 0..1_000 {
            let guards = [limiter.try_acquire(key), limiter.try_acquire(key), limiter.try_acquire(key)];
            assert_eq!((limiter.in_flight(key), guards[2].is_err()), (2, true));
        }
    });
    assert_eq!((seen.count_total, limiter.usage().live_keys), (0, 0));
}

#[test]
fn a_guard_may_go_to_another_thread() {
    fn is_sent_and_shared<T: Send + Sync>() {}
    is_sent_and_shared::<InFlight<'_>>();
    is_sent_and_shared::<InFlightLimiter<str>>();
}

#[test]
fn without_keys_the_limit_is_one_for_everything() {
    let limiter = InFlightLimiter::builder(2).build().unwrap();
    let (first, second) = (limiter.try_acquire(()).unwrap(), limiter.try_acquire(()).unwrap());
    assert_eq!(limiter.try_acquire(()).unwrap_err(), AcquireError::Busy);
    assert_eq!((limiter.usage().live_keys, limiter.usage().max_keys), (1, 1));
    drop((first, second));
    assert_eq!((limiter.in_flight(()), limiter.usage().live_keys), (0, 0));
    let sized = InFlightLimiter::builder(2).max_keys(10).build().unwrap_err();
    assert_eq!(sized, BuildError::NoKeys { field: "max_keys" });
}

#[test]
fn every_value_that_names_a_key_shares_its_limit() {
    let limiter = InFlightLimiter::builder(2).per::<(u32, String)>().build().unwrap();
    let places = (limiter.try_acquire((7, "alice")), limiter.try_acquire(&(7, String::from("alice"))));
    assert!(places.0.is_ok() && places.1.is_ok());
    assert_eq!((limiter.in_flight((7, "alice")), limiter.in_flight((8, "alice"))), (2, 0));
}

#[test]
fn settings_are_judged_when_the_limiter_is_built() {
    let largest = (1 << 20) - 1;
    for limit in [0, largest + 1] {
        let error = InFlightLimiter::builder(limit).per::<u64>().build().unwrap_err();
        let (value, max) = (u128::from(limit), u128::from(largest));
        assert_eq!(error, BuildError::OutOfRange { field: "limit", value, min: 1, max });
        assert!(InFlightLimiter::builder(limit).per::<u64>().memory().is_err());
    }
    let all = limiter(largest);
    assert_eq!(all.try_acquire_n(1, largest).unwrap().units(), largest);
    assert!(InFlightLimiter::builder(1).per::<u64>().max_keys(0).build().is_err());
    let needed = InFlightLimiter::builder(1).per::<u64>().memory().unwrap();
    let tight = InFlightLimiter::builder(1).per::<u64>().memory_budget(needed - 1).build().unwrap_err();
    assert_eq!(tight, BuildError::OverBudget { needed, budget: needed - 1 });
    assert!(InFlightLimiter::builder(1).per::<u64>().memory_budget(needed).build().is_ok());
}
