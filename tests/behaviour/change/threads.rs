//! Threads check while another changes the quota.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tollgate::{Algorithm, FixedWindow, Inherit, Limiter, ManualClock};

use super::{SECOND, bucket, per};

/// Three threads check one key while the quotas become current in turn. Returns the number of
/// admissions and the limits in the decisions.
fn contested<A: Algorithm>(quotas: [A; 2], inherit: Inherit, changes: u64) -> (u64, Vec<u64>) {
    let limiter =
        Arc::new(Limiter::builder(quotas[0]).per::<u64>().clock(ManualClock::new()).build().unwrap());
    let (admitted, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut limits = Vec::new();
    thread::scope(|scope| {
        let ask = || {
            let (mut limits, key) = (Vec::new(), limiter.account(7));
            while !done.load(Ordering::Relaxed) {
                let decision = key.check();
                if decision.is_allowed() {
                    admitted.fetch_add(1, Ordering::Relaxed);
                }
                // The numbers are those of the version that decided.
                assert!(decision.remaining() < decision.limit());
                if !limits.contains(&decision.limit()) {
                    limits.push(decision.limit());
                }
            }
            limits
        };
        let askers: Vec<_> = (0..3).map(|_| scope.spawn(ask)).collect();
        for change in 1..=changes {
            limiter.change().to(quotas[(change % 2) as usize]).inherit(inherit).apply().unwrap();
            if change % 16 == 0 {
                thread::yield_now();
            }
        }
        done.store(true, Ordering::Relaxed);
        limits = askers.into_iter().flat_map(|asker| asker.join().unwrap()).collect();
    });
    limits.sort_unstable();
    limits.dedup();
    (admitted.load(Ordering::Relaxed), limits)
}

const CHANGES: u64 = 1_000;

#[test]
fn threads_are_admitted_as_the_sequence_of_quotas_allows() {
    // The clock stands still and available tokens stay, so the changes admit at most the smallest
    // burst.
    let quotas = [bucket(1_000, 100), bucket(7, 5_000)];
    let (admitted, limits) = contested(quotas, Inherit::AsIs, CHANGES);
    assert!(admitted <= 100, "{admitted}");
    assert!(limits.iter().all(|limit| [100, 5_000].contains(limit)), "{limits:?}");
    // A half-full bucket stays half full, so admissions under the larger burst reduce the smaller
    // one.
    let (admitted, _) = contested(quotas, Inherit::Proportional, CHANGES);
    assert!(admitted <= 5_000, "{admitted}");
    // Each raise adds 4900. A smaller burst cannot remember more debt than itself.
    let (admitted, _) = contested(quotas, Inherit::Additive, CHANGES);
    assert!(admitted <= 100 + CHANGES / 2 * 4_900, "{admitted}");
}

#[test]
fn windows_admit_threads_as_the_sequence_of_limits_allows() {
    let quotas = [FixedWindow::new(per(100, SECOND)), FixedWindow::new(per(5_000, 60 * SECOND))];
    let (admitted, _) = contested(quotas, Inherit::AsIs, CHANGES);
    assert!(admitted <= 100, "{admitted}");
    let (admitted, _) = contested(quotas, Inherit::Proportional, CHANGES);
    assert!(admitted <= 5_000, "{admitted}");
}

#[test]
fn a_change_that_resets_admits_one_burst_for_each() {
    let (admitted, _) = contested([bucket(1, 50), bucket(2, 100)], Inherit::Reset, CHANGES);
    assert!(admitted <= 50 + CHANGES / 2 * 150, "{admitted}");
}
