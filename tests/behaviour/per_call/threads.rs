//! Many threads, each call with another quota: no key gets more than its bound.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use tollgate::Timestamp;
use tollgate_testing::random::Random;

use super::{check, debt, limiter, nanos};

/// The least tolerance that comes with a call, and the largest.
const TOLERANCES: [u64; 2] = [1_000, 50_000];

/// While time stands still a key's debt is exactly the admitted units.
#[test]
fn threads_with_varying_quotas_are_charged_exactly() {
    for keys in [1, 3] {
        let (limiter, _) = limiter(100);
        let charged: Vec<AtomicU64> = (0..keys).map(|_| AtomicU64::new(0)).collect();
        let work = |seed: u64| {
            let mut random = Random::with_seed(seed);
            for _ in 0..20_000 {
                let (emission, cost, key) = (random.u64(1..=9), random.u64(..4), random.u64(..keys));
                let most = random.u64(TOLERANCES[0]..TOLERANCES[1]);
                let quota = nanos(emission, if random.u64(..4) == 0 { TOLERANCES[1] } else { most });
                let decision = check(&limiter, key, &quota, cost);
                assert!(!decision.is_full());
                if decision.is_allowed() {
                    charged[key as usize].fetch_add(cost * emission, Relaxed);
                }
                assert!(u64::try_from(decision.reset_after().as_nanos()).unwrap() <= TOLERANCES[1]);
            }
        };
        let work = &work;
        thread::scope(|scope| (1..=4).for_each(|seed| drop(scope.spawn(move || work(seed)))));
        for key in 0..keys {
            let charged = charged[key as usize].load(Relaxed);
            assert_eq!(debt(&limiter, key), charged);
            assert!(charged <= TOLERANCES[1] && charged > TOLERANCES[1] - 36, "{charged}: all were used");
        }
    }
}

/// More keys than fit, and a clock that goes on: what a key is admitted stays within the time that
/// passed and the largest tolerance.
#[test]
fn threads_on_a_full_table_exceed_no_bound() {
    const KEYS: u64 = 150;
    const END: u64 = 40_000;
    let (limiter, clock) = limiter(1);
    let charged: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let full = AtomicU64::new(0);
    let work = |seed: u64| {
        let mut random = Random::with_seed(seed);
        for _ in 0..30_000 {
            let (emission, cost, key) = (random.u64(1..=900), random.u64(1..=3), random.u64(..KEYS));
            let quota = nanos(emission, TOLERANCES[0].max(emission) + random.u64(..9_000));
            let decision = check(&limiter, key, &quota, cost);
            full.fetch_add(u64::from(decision.is_full()), Relaxed);
            if decision.is_allowed() {
                charged[key as usize].fetch_add(cost * emission, Relaxed);
            }
        }
    };
    let tick = || {
        for now in 0..=END {
            clock.set(Timestamp::from_nanos(now));
            if now.is_multiple_of(64) {
                thread::yield_now();
            }
        }
    };
    let (work, tick) = (&work, &tick);
    thread::scope(|scope| {
        (1..=3).for_each(|seed| drop(scope.spawn(move || work(seed))));
        scope.spawn(tick);
    });
    let most = TOLERANCES[0] + 9_000 + END;
    assert!(charged.iter().all(|charged| charged.load(Relaxed) <= most));
    assert!(charged.iter().any(|charged| charged.load(Relaxed) > 0));
    assert!(full.into_inner() > 0 && limiter.stats().evicted_with_debt > 0, "{:?}", limiter.stats());
}
