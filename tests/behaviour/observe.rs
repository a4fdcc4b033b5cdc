//! Observers of decisions: each decision is observed exactly once.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::{
    Counters, Counts, FixedWindow, Inherit, Lease, Limiter, ManualClock, Outcome, Quota, Rate, ReserveError,
    TokenBucket,
};

use Outcome::{Allowed, Denied, Never};

const THREE: TokenBucket = TokenBucket::new(Rate::per_hour(3));

/// The decisions that an observer has seen.
type Told = Arc<Mutex<Vec<(Outcome, u64)>>>;

/// Calls `check` from four contending threads and counts the outcomes.
fn answered(check: impl Fn() -> Outcome + Sync) -> [u64; 3] {
    let answers = [const { AtomicU64::new(0) }; 3];
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100_000 {
                    answers[check() as usize].fetch_add(1, Relaxed);
                }
            });
        }
    });
    answers.map(AtomicU64::into_inner)
}

fn counted(counts: Counts) -> [u64; 3] {
    [counts.allowed, counts.denied, counts.never]
}

/// governor's middleware was called 529,457 times for 400,000 grants, because it was inside the
/// retry loop.
#[test]
fn an_observer_is_called_exactly_once_a_decision() {
    let counters = [(); 3].map(|()| Arc::new(Counters::new()));
    let [keyed, global, several] = counters.clone();
    // Some requests are refused after they lost to a concurrent update.
    let quota = TokenBucket::new(Rate::per_second(1_000_000)).burst(200_000);
    let keyed = Limiter::builder(quota).per::<u64>().on_decision(move |decision| keyed.count(decision));
    let global = Limiter::builder(quota).on_decision(move |decision| global.count(decision));
    let several = Limiter::builder([quota, quota.burst(200_003)])
        .per::<u64>()
        .on_decision(move |decision| several.count(decision));
    let (keyed, global) = (keyed.build().unwrap(), global.build().unwrap());
    let several = several.build().unwrap();
    let [of_keyed, of_global, of_several] = counters.map(|counters| move || counted(counters.counts()));
    assert_eq!(answered(|| keyed.check(7).outcome()), of_keyed());
    assert_eq!(answered(|| global.check(()).outcome()), of_global());
    assert_eq!(answered(|| several.check(7).outcome()), of_several());
    for told in [of_keyed(), of_global(), of_several()] {
        assert_eq!(told.iter().sum::<u64>(), 400_000, "{told:?}");
    }
}

/// A request that is decided again after a change of the quota is observed after its final
/// decision.
#[test]
fn a_decision_repeated_after_a_change_is_observed_once() {
    let quota = |hours| TokenBucket::new(Rate::per_hour(50_000 + hours));
    let (counters, [first, second, third]) = counters();
    let keyed = Limiter::builder(quota(0)).per::<u64>().on_decision(move |decision| first.count(decision));
    let global = Limiter::builder(quota(0)).on_decision(move |decision| second.count(decision));
    let several = Limiter::builder([quota(1), quota(0)])
        .per::<u64>()
        .on_decision(move |decision| third.count(decision));
    let (keyed, global) = (keyed.build().unwrap(), global.build().unwrap());
    let several = several.build().unwrap();
    let changes = AtomicU64::new(0);
    let sometimes = |change: &dyn Fn(u64)| {
        if changes.fetch_add(1, Relaxed).is_multiple_of(1_000) {
            change(changes.load(Relaxed) / 1_000);
        }
    };
    let mut all = [0; 3];
    let mut add = |answers: [u64; 3]| all = [0, 1, 2].map(|which| all[which] + answers[which]);
    add(answered(|| {
        sometimes(&|count| keyed.change().to(quota(count)).inherit(Inherit::Additive).apply().unwrap());
        keyed.check(7).outcome()
    }));
    add(answered(|| {
        sometimes(&|count| global.change().to(quota(count)).inherit(Inherit::Additive).apply().unwrap());
        global.check(()).outcome()
    }));
    add(answered(|| {
        sometimes(&|count| {
            several.change().to([quota(count), quota(7)]).inherit(Inherit::Additive).apply().unwrap()
        });
        several.check(7).outcome()
    }));
    assert_eq!(counted(counters.counts()), all);
    assert!(all[0] > 150_000 && all[1] > 150_000, "{all:?}: both were answered");
}

/// Counters, with three handles for observers.
fn counters() -> (Arc<Counters>, [Arc<Counters>; 3]) {
    let counters = Arc::new(Counters::new());
    (counters.clone(), [(); 3].map(|()| counters.clone()))
}

#[test]
fn all_verbs_but_peek_are_observed() {
    let told = Told::default();
    let tell = told.clone();
    let limiter = Limiter::builder(THREE)
        .per::<u64>()
        .clock(ManualClock::new())
        .on_decision(move |decision| tell.lock().unwrap().push((decision.outcome(), decision.cost())))
        .build()
        .unwrap();
    let _ = limiter.check(1);
    let _ = limiter.check_n(1, 0);
    let _ = limiter.check_n(1, 4);
    let _ = limiter.account(1).check();
    limiter.check_many([1, 1]).for_each(drop);
    let _ = limiter.account(2).tier(0).unwrap().check();
    let _ = limiter.account(2).reserve(1, Duration::MAX);
    let _ = limiter.account(2).reserve(3, Duration::from_secs(1));
    let _ = limiter.account(2).reserve(4, Duration::MAX);
    let _ = limiter.peek(1);
    let _ = limiter.account(1).peek();
    let expected = [
        (Allowed, 1),
        (Allowed, 0),
        (Never, 4),
        (Allowed, 1),
        (Allowed, 1),
        (Denied, 1),
        (Allowed, 1),
        (Allowed, 1),
        (Denied, 3),
        (Never, 4),
    ];
    assert_eq!(*told.lock().unwrap(), expected);
}

#[test]
fn all_verbs_of_a_global_limiter_but_peek_are_observed() {
    let told = Told::default();
    let tell = told.clone();
    let limiter = Limiter::builder(THREE)
        .on_decision(move |decision| tell.lock().unwrap().push((decision.outcome(), decision.cost())))
        .clock(ManualClock::new())
        .build()
        .unwrap();
    let _ = limiter.check(());
    let _ = limiter.check_n((), 0);
    assert!(limiter.account(()).wait(1, Duration::MAX).is_ok());
    let _ = limiter.account(()).at(limiter.now()).check_n(4);
    let taken = limiter.account(()).reserve(1, Duration::ZERO).unwrap();
    let _ = limiter.account(()).at(limiter.now()).check();
    let _ = limiter.account(()).reserve(2, Duration::from_secs(1));
    let _ = limiter.account(()).reserve(4, Duration::MAX);
    assert!(limiter.account(()).wait(1, Duration::from_secs(1)).is_err());
    let refused = std::pin::pin!(limiter.account(()).ready(1, Duration::from_secs(1), tollgate::ThreadTimer));
    assert!(matches!(refused.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Err(_))));
    let _ = limiter.peek(());
    let _ = limiter.account(()).at(limiter.now()).peek_n(2);
    let _ = taken.cancel();
    limiter.account(()).reset();
    let expected = [
        (Allowed, 1),
        (Allowed, 0),
        (Allowed, 1),
        (Never, 4),
        (Allowed, 1),
        (Denied, 1),
        (Denied, 2),
        (Never, 4),
        (Denied, 1),
        (Denied, 1),
    ];
    assert_eq!(*told.lock().unwrap(), expected);
}

#[test]
fn all_verbs_of_several_limits_but_peek_are_observed() {
    let told = Told::default();
    let tell = told.clone();
    let quotas = [Quota::from(THREE), FixedWindow::new(Rate::per_day(5)).into()];
    let limiter = Limiter::builder(quotas)
        .per::<u64>()
        .on_decision(move |decision| tell.lock().unwrap().push((decision.outcome(), decision.cost())))
        .clock(ManualClock::new())
        .build()
        .unwrap();
    let taken = limiter.check(1);
    let _ = limiter.check_n(1, 0);
    let _ = limiter.account(1).at(limiter.now()).check();
    let _ = limiter.account(1).at(limiter.now()).check_n(2);
    let _ = limiter.check_n(1, 4);
    let _ = limiter.peek(1);
    let _ = limiter.account(1).at(limiter.now()).peek_n(4);
    let _ = limiter.refund(taken);
    limiter.account(1).reset();
    assert_eq!(*told.lock().unwrap(), [(Allowed, 1), (Allowed, 0), (Allowed, 1), (Denied, 2), (Never, 4)]);
}

/// A window has no turns, so there is no decision.
#[test]
fn a_reservation_from_a_window_is_not_observed() {
    let (counters, [first, second, _]) = counters();
    let window = FixedWindow::new(Rate::per_hour(3));
    let keyed = Limiter::builder(window).per::<u64>().on_decision(move |decision| first.count(decision));
    let global = Limiter::builder(window).on_decision(move |decision| second.count(decision));
    let (keyed, global) = (keyed.build().unwrap(), global.build().unwrap());
    for cost in [0, 1, 4] {
        let answers = [
            keyed.account(1).reserve(cost, Duration::MAX).map(drop),
            global.account(()).reserve(cost, Duration::MAX).map(drop),
        ];
        assert_eq!(answers, [Err(ReserveError::NoTurns); 2], "{cost}");
    }
    assert_eq!(counters.counts(), Counts::default());
}

#[test]
fn an_observer_sees_the_decision_of_the_caller() {
    for (quota, larger) in tollgate_testing::limits::every(Rate::per_hour(3))
        .into_iter()
        .zip(tollgate_testing::limits::every(Rate::per_hour(5)))
    {
        let seen = Arc::new(Mutex::new(String::new()));
        let [first, second, third] = [(); 3].map(|()| seen.clone());
        let keyed = Limiter::builder(quota)
            .per::<u64>()
            .on_decision(move |decision| *first.lock().unwrap() = format!("{decision:?}"));
        let global = Limiter::builder(quota)
            .on_decision(move |decision| *second.lock().unwrap() = format!("{decision:?}"));
        let several = Limiter::builder([quota, larger])
            .per::<u64>()
            .on_decision(move |decision| *third.lock().unwrap() = format!("{decision:?}"));
        let keyed = keyed.clock(ManualClock::new()).build().unwrap();
        let global = global.clock(ManualClock::new()).build().unwrap();
        let several = several.clock(ManualClock::new()).build().unwrap();
        let told = || std::mem::take(&mut *seen.lock().unwrap());
        for cost in [2, 2, 9, 1] {
            let decision = keyed.check_n(1, cost);
            assert_eq!(format!("{decision:?}"), told(), "{quota}");
            let decision = global.check_n((), cost);
            assert_eq!(format!("{decision:?}"), told(), "{quota}");
            let decision = several.check_n(1, cost);
            assert_eq!(format!("{decision:?}"), told(), "{quota}");
        }
    }
}

#[test]
fn counters_count_the_decisions_of_all_threads() {
    let (counters, [counted, ..]) = counters();
    let limiter = Limiter::builder(THREE)
        .per::<u64>()
        .on_decision(move |decision| counted.count(decision))
        .build()
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| (0..100).for_each(|_| drop(limiter.check(7))));
        }
    });
    let _ = limiter.check_n(7, 4);
    counters.count(Denied);
    let counts = counters.counts();
    assert_eq!((counts.allowed, counts.denied, counts.never), (3, 1_998, 1));
}

/// Twenty checks of a lease that acquires eight at once, of ten available units.
fn lent<const N: usize>(mut lease: Lease<'_, TokenBucket, N, ManualClock>, told: &Told) {
    assert_eq!((0..20).filter(|_| lease.check().is_allowed()).count(), 10);
    let told = told.lock().unwrap();
    let taken: u64 = told.iter().filter(|(outcome, _)| *outcome == Allowed).map(|(_, cost)| cost).sum();
    assert_eq!((taken, told[0]), (10, (Allowed, 8)));
    // The ten refused checks are observed; acquisitions without room are not.
    let refused: Vec<_> = told.iter().filter(|(outcome, _)| *outcome != Allowed).collect();
    assert_eq!(refused, vec![&(Denied, 1); 10]);
}

#[test]
fn a_leases_acquisitions_are_observed_not_its_checks() {
    let quota = TokenBucket::new(Rate::per_hour(10));
    let told = Told::default();
    let tell = told.clone();
    let limiter = Limiter::builder(quota)
        .per::<u64>()
        .clock(ManualClock::new())
        .on_decision(move |decision| tell.lock().unwrap().push((decision.outcome(), decision.cost())))
        .build()
        .unwrap();
    lent(limiter.account(1).lease().permits(8), &told);
    let told = Told::default();
    let tell = told.clone();
    let limiter = Limiter::builder(quota)
        .clock(ManualClock::new())
        .on_decision(move |decision| tell.lock().unwrap().push((decision.outcome(), decision.cost())))
        .build()
        .unwrap();
    lent(limiter.account(()).lease().permits(8), &told);
}
