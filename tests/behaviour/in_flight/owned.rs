//! Guards that borrow nothing: each gives back once, whoever drops it and whenever.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;

use tollgate::{AcquireError, InFlightLimiter, OwnedInFlight};
use tollgate_testing::random::Random;

use super::{limiter, smallest};

#[test]
fn owned_guards_take_from_the_same_limit_as_borrowed_ones() {
    let limiter = Arc::new(limiter(5));
    let owned = limiter.try_acquire_n_owned(1, 3).unwrap();
    let borrowed = limiter.try_acquire_n(1, 2).unwrap();
    assert_eq!((owned.units(), limiter.in_flight(1)), (3, 5));
    assert_eq!(limiter.try_acquire_owned(1).unwrap_err(), AcquireError::Busy);
    let too_many = AcquireError::Never { units: 6, limit: 5 };
    assert_eq!(limiter.try_acquire_n_owned(1, 6).unwrap_err(), too_many);
    assert_eq!(limiter.try_acquire_n_owned(1, 0).unwrap().units(), 0);
    assert_eq!(Arc::strong_count(&limiter), 2, "refusals keep nothing");
    drop(borrowed);
    assert_eq!(limiter.in_flight(1), 3);
    drop(owned);
    assert_eq!((limiter.in_flight(1), limiter.usage().live_keys), (0, 0));
    assert_eq!(Arc::strong_count(&limiter), 1);
}

/// Every slot of the table is held by a key of its own, in another number of units.
#[test]
fn an_owned_guard_gives_back_to_its_own_slot() {
    let limiter = Arc::new(smallest(99));
    let hold = |key: u64| limiter.try_acquire_n_owned(key, 1 + key % 99).ok().map(|guard| (key, guard));
    let mut guards: Vec<_> = (0..300).filter_map(hold).collect();
    assert_eq!(guards.len(), 60, "four buckets of fifteen slots");
    while !guards.is_empty() {
        let (key, guard) = guards.swap_remove(guards.len() * 3 / 7);
        drop(guard);
        assert_eq!(limiter.in_flight(key), 0);
        assert!(guards.iter().all(|(key, _)| limiter.in_flight(key) == 1 + key % 99));
    }
    assert_eq!(limiter.usage().live_keys, 0);
}

#[test]
fn a_guard_keeps_its_limiter_until_it_has_given_back() {
    let limiter = Arc::new(smallest(2));
    let (alive, guard) = (Arc::downgrade(&limiter), limiter.try_acquire_n_owned(1, 2).unwrap());
    drop(limiter);
    assert_eq!(alive.upgrade().unwrap().in_flight(1), 2);
    thread::spawn(move || drop(guard)).join().unwrap();
    assert!(alive.upgrade().is_none());
}

#[test]
fn an_owned_guard_gives_back_when_its_task_panics() {
    let limiter = Arc::new(limiter(1));
    let guard = limiter.try_acquire_owned(1).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _guard = guard;
        panic!("the task failed");
    }));
    assert!(panicked.is_err());
    assert_eq!(limiter.in_flight(1), 0);
}

/// Threads acquire for more keys than slots and hand every guard to another thread, which drops it
/// later, while the limit changes. The test counts by itself what each key holds.
#[test]
fn guards_dropped_by_other_threads_give_back_once() {
    const KEYS: u64 = 90;
    let (limiter, held) = (Arc::new(smallest(4)), [const { AtomicU64::new(0) }; KEYS as usize]);
    let (sent, received): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::sync_channel(24)).unzip();
    let (limiter, held) = (&limiter, &held);
    let granted: u64 = thread::scope(|scope| {
        for guards in received {
            scope.spawn(move || {
                for (key, guard) in guards {
                    let (key, guard): (u64, OwnedInFlight<u64>) = (key, guard);
                    held[key as usize].fetch_sub(guard.units(), Relaxed);
                    drop(guard);
                }
            });
        }
        let work = |seed: u64, sent: Vec<mpsc::SyncSender<_>>| {
            let (mut random, mut granted) = (Random::with_seed(seed), 0);
            for turn in 0..30_000 {
                let (key, units) = (random.u64(..KEYS), random.u64(1..=3));
                if turn % 500 == 0 {
                    limiter.set_limit(random.u64(3..=4)).unwrap();
                }
                let Ok(guard) = limiter.try_acquire_n_owned(key, units) else { continue };
                granted += 1;
                assert!(held[key as usize].fetch_add(units, Relaxed) + units <= 4, "more than 4 of {key}");
                sent[random.usize(..3)].send((key, guard)).unwrap();
            }
            granted
        };
        let workers: Vec<_> = (1..=3)
            .map(|seed| {
                let sent = sent.clone();
                scope.spawn(move || work(seed, sent))
            })
            .collect();
        // The receivers end when the last worker has.
        drop(sent);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert!(granted > 10_000, "{granted}");
    assert!((0..KEYS).all(|key| limiter.in_flight(key) == 0));
    assert_eq!((limiter.usage().live_keys, Arc::strong_count(limiter)), (0, 1));
}

#[test]
fn an_owned_guard_allocates_nothing() {
    let limiter = Arc::new(smallest(1));
    let seen = allocation_counter::measure(|| {
        for key in 0..1_000 {
            let guard = limiter.try_acquire_owned(key).unwrap();
            assert!(limiter.try_acquire_owned(key).is_err());
            drop(guard);
        }
    });
    assert_eq!(seen.count_total, 0);
}

#[test]
fn an_owned_guard_may_go_anywhere() {
    fn is_sent_and_kept<T: Send + Sync + 'static>() {}
    is_sent_and_kept::<OwnedInFlight<str>>();
    is_sent_and_kept::<InFlightLimiter<[u8]>>();
}
