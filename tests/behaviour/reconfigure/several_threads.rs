//! Threads check several limits while another changes them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tollgate::{FixedWindow, Inherit, Quota, Rate};

use super::bucket;
use super::several::{Several, several};

const CHANGES: u64 = 300;

/// Three threads check one key while `change` is called with its number, many times. Returns how
/// many requests were admitted and refused.
fn contested(limiter: &Several, change: impl Fn(u64), of: [[u64; 2]; 2]) -> (u64, u64) {
    let begun = Barrier::new(4);
    let (admitted, refused, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                begun.wait();
                while !done.load(Relaxed) {
                    let decision = limiter.check(&7);
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
            limiter.reconfigure(quotas(1 + number % 2, first, second), Inherit::AsIs).unwrap();
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
    // More than three threads request in a step of the clock.
    const PLENTY: [[u64; 2]; 2] = [[1 << 20, 1 << 21], [1 << 21, 1 << 22]];
    let quotas = |[one, two]: [u64; 2]| [bucket(3_000_000, one), bucket(1_000_003, two)];
    let (limiter, clock) = several(quotas(PLENTY[0]));
    let change = |number: u64| {
        clock.advance(Duration::from_millis(700));
        limiter.reconfigure(quotas(PLENTY[number as usize % 2]), Inherit::Additive).unwrap();
    };
    let (admitted, refused) = contested(&limiter, change, PLENTY);
    assert_eq!(refused, 0, "of {admitted}");
}
