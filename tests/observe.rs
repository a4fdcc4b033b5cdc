//! Who is told of decisions, and how often.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::{Counters, Limiter, ManualClock, Outcome, Rate, TokenBucket};

const THREE: TokenBucket = TokenBucket::new(Rate::per_hour(3));

/// V10.8 (a middleware of governor's was called 529,457 times for 400,000 grants: it sat inside the retry loop)
#[test]
fn an_observer_is_called_exactly_once_a_decision() {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    let quota = TokenBucket::new(Rate::per_second(1_000_000)).burst(200_000);
    let limiter = Limiter::<u64>::builder(quota)
        .on_decision(move |_| {
            counted.fetch_add(1, Relaxed);
        })
        .build()
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100_000).for_each(|_| drop(limiter.check(&7))));
        }
    });
    assert_eq!(calls.load(Relaxed), 400_000);
}

#[test]
fn every_way_to_ask_is_told_and_looking_is_not() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = told.clone();
    let limiter = Limiter::<u64>::builder(THREE)
        .clock(ManualClock::new())
        .on_decision(move |decision| tell.lock().unwrap().push((decision.outcome(), decision.cost())))
        .build()
        .unwrap();
    let _ = limiter.check(&1);
    let _ = limiter.check_n(&1, 0);
    let _ = limiter.check_n(&1, 4);
    let _ = limiter.prepare(&1).check();
    limiter.check_many([1, 1]).for_each(drop);
    let _ = limiter.tier(0).unwrap().check(&2);
    let _ = limiter.reserve(&2, Duration::MAX);
    let _ = limiter.peek(&1);
    let _ = limiter.prepare(&1).peek();
    use Outcome::{Allowed, Denied, Never};
    let expected = [
        (Allowed, 1),
        (Allowed, 0),
        (Never, 4),
        (Allowed, 1),
        (Allowed, 1),
        (Denied, 1),
        (Allowed, 1),
        (Allowed, 1),
    ];
    assert_eq!(*told.lock().unwrap(), expected);
}

#[test]
fn an_observer_sees_what_the_caller_is_told() {
    let seen = Arc::new(Mutex::new(String::new()));
    let see = seen.clone();
    let limiter = Limiter::<u64>::builder(THREE)
        .clock(ManualClock::new())
        .on_decision(move |decision| *see.lock().unwrap() = format!("{decision:?}"))
        .build()
        .unwrap();
    for cost in [2, 2, 9, 1] {
        let decision = limiter.check_n(&1, cost);
        assert_eq!(format!("{decision:?}"), *seen.lock().unwrap());
    }
}

#[test]
fn counters_count_what_many_threads_decide() {
    let counters = Arc::new(Counters::new());
    let counted = counters.clone();
    let limiter =
        Limiter::<u64>::builder(THREE).on_decision(move |decision| counted.count(decision)).build().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| (0..100).for_each(|_| drop(limiter.check(&7))));
        }
    });
    let _ = limiter.check_n(&7, 4);
    let counts = counters.counts();
    assert_eq!((counts.allowed, counts.denied, counts.never), (3, 1_997, 1));
}

#[test]
fn what_a_lease_takes_is_told_once_and_what_it_spends_is_not() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = told.clone();
    let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_hour(10)))
        .clock(ManualClock::new())
        .on_decision(move |decision| tell.lock().unwrap().push((decision.is_allowed(), decision.cost())))
        .build()
        .unwrap();
    let mut lease = limiter.lease(&1).permits(8);
    assert_eq!((0..20).filter(|_| lease.check().is_allowed()).count(), 10);
    let told = told.lock().unwrap();
    let taken: u64 = told.iter().filter(|(allowed, _)| *allowed).map(|(_, cost)| cost).sum();
    assert_eq!((taken, told[0]), (10, (true, 8)));
    // The ten that were refused, and no take that found no room.
    let refused: Vec<_> = told.iter().filter(|(allowed, _)| !*allowed).collect();
    assert_eq!(refused, vec![&(false, 1); 10]);
}
