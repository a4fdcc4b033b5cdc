//! Threads check several limits while another changes them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tollgate::{FixedWindow, Inherit, Quota, Rate};
use tollgate_testing::limits::list;

use super::bucket;
use super::several::{Several, several};

const CHANGES: u64 = 300;
const THREADS: u64 = 3;

/// Requests of each thread between one change and the next, at most.
const REQUESTS: u64 = 1_000;

/// Three threads check one key while `change` is called with its number, many times. Returns how
/// many requests were admitted and refused.
fn contested(limiter: &Several, change: impl Fn(u64), of: [[u64; 2]; 2]) -> (u64, u64) {
    let begun = Barrier::new(THREADS as usize + 1);
    let (admitted, refused, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let changes = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                begun.wait();
                let mut requests = 0;
                while !done.load(Relaxed) {
                    if requests == changes.load(Relaxed) * REQUESTS {
                        thread::yield_now();
                        continue;
                    }
                    requests += 1;
                    let decision = limiter.check(7);
                    let count = if decision.is_allowed() { &admitted } else { &refused };
                    count.fetch_add(1, Relaxed);
                    let limits: Vec<u64> = decision.parts().map(|part| part.limit()).collect();
                    assert!(of.iter().any(|quotas| *quotas == limits[..]), "{limits:?}: a mixture");
                    assert!(decision.parts().all(|part| part.remaining() <= part.limit()));
                    // No wait is the rest of a version's lifetime.
                    assert!(decision.retry_after().is_none_or(|wait| wait < Duration::from_secs(1_000_000)));
                }
            });
        }
        begun.wait();
        for number in 1..=CHANGES {
            // The threads' requests begin before the change does.
            changes.store(number, Relaxed);
            change(number);
            thread::yield_now();
        }
        done.store(true, Relaxed);
    });
    (admitted.into_inner(), refused.into_inner())
}

#[test]
fn threads_see_the_quotas_of_one_version_only() {
    let quotas = |count, first, second| {
        [Quota::from(bucket(count, first)), FixedWindow::new(Rate::per_hour(second)).into()]
    };
    // The smallest bucket and the smallest window are current at first.
    for of in [[[100, 7_000], [5_000, 300]], [[7_000, 100], [300, 5_000]]] {
        let (limiter, _) = several(quotas(1, of[0][0], of[0][1]));
        let change = |number: u64| {
            let [first, second] = of[number as usize % 2];
            limiter
                .change()
                .to(list(quotas(1 + number % 2, first, second)))
                .inherit(Inherit::AsIs)
                .apply()
                .unwrap();
        };
        let (admitted, refused) = contested(&limiter, change, of);
        // The clock stands still and available tokens stay, so the changes admit at most the
        // smallest burst.
        assert!((1..=100).contains(&admitted), "{admitted}");
        assert!(refused > 0);
    }
}

/// Both versions have room for all requests, so no limit refuses a request because of a change.
#[test]
fn a_change_refuses_no_request() {
    // No bucket runs out even if nothing comes back, and none is full again before the test ends: a
    // thread that stalls after it has read the clock is judged at an earlier time than the others.
    const PLENTY: [[u64; 2]; 2] = [[1 << 20, 1 << 21], [1 << 21, 1 << 22]];
    const STEP: Duration = Duration::from_millis(700);
    const { assert!(THREADS * REQUESTS * CHANGES < PLENTY[0][0]) };
    const { assert!(PLENTY[0][0] > 3_001 * CHANGES * STEP.as_millis() as u64 / 1_000) };
    let quotas = |[one, two]: [u64; 2]| [bucket(3_001, one), bucket(1_003, two)];
    let (limiter, clock) = several(quotas(PLENTY[0]));
    let change = |number: u64| {
        clock.advance(STEP);
        limiter
            .change()
            .to(list(quotas(PLENTY[number as usize % 2])))
            .inherit(Inherit::Additive)
            .apply()
            .unwrap();
    };
    let (admitted, refused) = contested(&limiter, change, PLENTY);
    assert_eq!(refused, 0, "of {admitted}");
}
