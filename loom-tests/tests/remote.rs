//! What a process keeps beside its store: a lease's permits, and remembered refusals.
//!
//! The files of `tollgate-redis` are compiled here by themselves, with loom's atomics.
#![cfg(loom)]

use std::time::Duration;

use loom::sync::Arc;
use loom::thread;
use loom_tests::explore;

#[allow(dead_code, reason = "the limiter uses the rest")]
#[path = "../../crates/tollgate-redis/src/deny.rs"]
mod deny;
#[allow(dead_code, reason = "the limiter uses the rest")]
#[path = "../../crates/tollgate-redis/src/lease/permits.rs"]
mod permits;

mod sync {
    pub(crate) use loom::sync::atomic;
}

use deny::{DenyCache, Refusal};
use permits::{Permits, Terms};

const NOW: Duration = Duration::ZERO;

/// The terms of a lease by which its permits are known again.
fn terms(rest: u64) -> Terms {
    Terms { until: Duration::from_secs(rest), rest, reset: Duration::from_secs(rest) }
}

/// Two threads spend while a third opens the next lease, of another key. Each permit is spent once,
/// and with the terms of its own lease.
#[test]
fn a_permit_is_spent_once_and_by_its_own_terms() {
    explore(Some(2), || {
        let permits = Arc::new(Permits::default());
        let _ = permits.open(1, 2, 2, terms(1));
        let spends = |key: u64| {
            let permits = Arc::clone(&permits);
            thread::spawn(move || {
                let spent = permits.spend(key, 1, NOW);
                if let Some(spent) = &spent {
                    assert_eq!((spent.terms, spent.size), (terms(key), 1 + key));
                }
                spent.is_some()
            })
        };
        let threads = [spends(1), spends(2)];
        let (_, first) = permits.open(2, 3, 3, terms(2));
        let spent = threads.map(|thread| thread.join().expect("no panic"));
        let second = permits.close_if_of(2);
        assert_eq!([first.spent, second.spent], spent.map(u64::from), "what the leases say");
        assert_eq!((first.left, second.left), (2 - first.spent, 3 - second.spent));
    });
}

/// A permit that is put back while its lease ends is in the rest of that lease, or nowhere.
#[test]
fn a_permit_goes_back_into_its_own_lease_only() {
    explore(None, || {
        let permits = Arc::new(Permits::default());
        let (generation, _) = permits.open(1, 1, 1, terms(1));
        let spent = permits.spend(1, 1, NOW).expect("a permit is there");
        let back = {
            let permits = Arc::clone(&permits);
            thread::spawn(move || permits.put_back(spent.generation, 1, NOW))
        };
        let ended = permits.close(generation).expect("the lease is open");
        let (_, _) = permits.open(1, 4, 1, terms(1));
        let is_back = back.join().expect("no panic");
        assert_eq!(ended.left, u64::from(is_back));
        assert_eq!(permits.left(NOW), 1, "the next lease has its own");
    });
}

/// A refusal that was sent before the key was forgotten is gone when both have ended.
#[test]
fn a_forgotten_refusal_does_not_come_back() {
    explore(None, || {
        let cache = Arc::new(DenyCache::new(1));
        let wait = Duration::from_nanos(1_000);
        let refusal = Refusal { cost: 1, wait, reset: wait, limit: 0, most: 1, remaining: 0 };
        let remembers = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || cache.remember(1, refusal, Duration::from_nanos(5)))
        };
        cache.forget(1, Duration::from_nanos(5));
        remembers.join().expect("no panic");
        assert!(cache.refused(1, 1, Duration::from_nanos(5)).is_none());
    });
}
