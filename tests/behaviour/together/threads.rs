//! Threads charge the same limits together, in one order and in opposite ones.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tollgate::{ManualClock, Outcome, Quota, SlidingLog, together};

use super::{One, every, left, limiter};

const THREADS: usize = 4;
const ROUNDS: u64 = 60;

/// How much was admitted of keys 0 and 1, by threads that charge these limits together.
fn admitted(limits: &[One], is_turned: impl Fn(usize) -> bool + Sync) -> [u64; 2] {
    let barrier = Barrier::new(THREADS);
    let run = |thread: usize| {
        barrier.wait();
        let mut admitted = [0; 2];
        for round in 0..ROUNDS {
            let (key, cost) = (round % 2, 1 + round % 3);
            let mut offers: Vec<_> = limits.iter().map(|one| one.account(key).offer(cost)).collect();
            if is_turned(thread) {
                offers.reverse();
            }
            if together(&mut offers) == Outcome::Allowed {
                admitted[key as usize] += cost;
            }
        }
        admitted
    };
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).fold([0; 2], |[a, b], [c, d]| [a + c, b + d])
    })
}

/// A request that is refused in the end is charged nowhere: the units left and the units admitted
/// are all of the limit.
#[test]
fn threads_leave_exactly_what_they_did_not_take() {
    let (mut races, mut rounds) = (0, 0);
    while races < 200 || rounds < 100 {
        let clock = ManualClock::new();
        let quotas = every(70).into_iter().filter(|quota| !matches!(quota, Quota::SlidingLog(_)));
        let limits: Vec<One> = quotas.map(|quota| limiter(quota, &clock)).collect();
        // In one order, and in opposite ones.
        let admitted = admitted(&limits, |thread| rounds % 2 == 1 && thread % 2 == 1);
        for (key, admitted) in admitted.into_iter().enumerate() {
            for limit in &limits {
                assert_eq!(left(limit, key as u64) + admitted, 70, "{limit:?}");
            }
        }
        races += limits.iter().map(|limit| limit.stats().retried).sum::<u64>();
        rounds += 1;
        assert!(rounds < 20_000, "{races} races in {rounds} rounds");
    }
}

/// Where one refuses from the start, a thread that looks at the others sees them whole always.
#[test]
fn a_refused_request_leaves_no_trace() {
    let clock = ManualClock::new();
    let limits: Vec<One> = every(70).into_iter().map(|quota| limiter(quota, &clock)).collect();
    let spent = limiter(super::bucket(1), &clock);
    assert!(spent.check(1).is_allowed());
    // So that the keys have slots.
    assert!(limits.iter().all(|one| one.check(1).is_allowed()));
    let is_over = AtomicBool::new(false);
    let looks = std::thread::scope(|scope| {
        let looker = scope.spawn(|| {
            let mut looks = 0_u64;
            while !is_over.load(Relaxed) {
                assert!(limits.iter().all(|one| left(one, 1) == 69));
                looks += 1;
            }
            looks
        });
        for _ in 0..5_000 {
            let offers = limits.iter().chain([&spent]).map(|one| one.account(1).offer(2));
            assert_eq!(together(&mut offers.collect::<Vec<_>>()), Outcome::Never);
            let offers = limits.iter().chain([&spent]).map(|one| one.account(1).offer(1));
            assert_eq!(together(&mut offers.collect::<Vec<_>>()), Outcome::Denied);
        }
        is_over.store(true, Relaxed);
        looker.join().unwrap()
    });
    assert!(looks > 0);
}

/// A log undoes its newest request only: charged last, it has nothing to undo.
#[test]
fn a_log_that_is_given_last_is_exact() {
    for _ in 0..100 {
        let clock = ManualClock::new();
        let [bucket, .., log] = every(70);
        assert!(matches!(log, Quota::SlidingLog(SlidingLog { .. })));
        let limits = [bucket, log].map(|quota| limiter(quota, &clock));
        for (key, admitted) in admitted(&limits, |_| false).into_iter().enumerate() {
            let left = limits.each_ref().map(|limit| left(limit, key as u64) + admitted);
            assert_eq!(left, [70, 70]);
        }
    }
}
