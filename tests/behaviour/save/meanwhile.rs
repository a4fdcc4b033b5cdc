//! Saves while other threads check.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use tollgate::{Limiter, Quota, Rate, SlidingLog, SlidingWindow, TokenBucket, WhenFull};
use tollgate_testing::random::Random;

use super::{SECOND, Subject, clock, saved};

const BEGUN: u64 = 1_700_000_000 * SECOND;
const KEYS: u64 = 80;

/// Charges random keys until `done`, and counts the admissions of each key.
pub(crate) fn keep_charging(
    seed: u64,
    admitted: &[AtomicU64],
    done: &AtomicBool,
    is_admitted: impl Fn(u64) -> bool,
) {
    let mut random = Random::with_seed(seed);
    while !done.load(SeqCst) {
        let key = random.u64(..admitted.len() as u64);
        if is_admitted(key) {
            admitted[key as usize].fetch_add(1, SeqCst);
        }
    }
}

/// Two threads charge all keys while a third saves. Nothing refills.
fn forgets_nothing(quota: Quota, max_keys: usize) {
    let builder = |max_keys| {
        let builder = Limiter::builder(quota).per::<u64>().max_keys(max_keys);
        builder.when_full(WhenFull::Share).clock(clock(BEGUN, SECOND))
    };
    let limiter: Subject = builder(max_keys).build().unwrap();
    let admitted: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let done = AtomicBool::new(false);
    let files = thread::scope(|scope| {
        for seed in 1..=2_u64 {
            let (limiter, admitted, done) = (&limiter, &admitted, &done);
            scope.spawn(move || keep_charging(seed, admitted, done, |key| limiter.check(key).is_allowed()));
        }
        let files: Vec<_> = (0..30)
            .map(|_| {
                let before: Vec<u64> = admitted.iter().map(|count| count.load(SeqCst)).collect();
                (before, saved(&limiter))
            })
            .collect();
        done.store(true, SeqCst);
        files
    });
    let after: Vec<u64> = admitted.iter().map(|count| count.load(SeqCst)).collect();
    for (before, file) in files {
        // In a larger table, a key without a record does not share another key's debt.
        let restored = builder(max_keys.max(2_000)).restore(&file[..]).unwrap();
        for key in 0..KEYS {
            let decision = restored.account(key).at(restored.now()).peek_n(0);
            let counted = decision.limit() - decision.remaining();
            assert!(counted >= before[key as usize], "{quota}: key {key} is forgiven");
            // Keys that never share a slot have the debt of their admissions and of at most two
            // requests in progress.
            if max_keys > 1_000 {
                assert!(counted <= after[key as usize] + 2, "{quota}: key {key} owes too much");
            }
        }
    }
}

#[test]
fn a_save_contains_every_earlier_admission() {
    let rate = Rate::per_day(5_000);
    forgets_nothing(TokenBucket::new(rate).into(), 10_000);
    forgets_nothing(SlidingWindow::new(rate).into(), 10_000);
    forgets_nothing(SlidingLog::new(Rate::per_day(400)).into(), 2_000);
}

#[test]
fn a_save_contains_keys_evicted_meanwhile() {
    // Two buckets for forty keys: keys are evicted and share allowances all the time.
    for _ in 0..20 {
        forgets_nothing(TokenBucket::new(Rate::per_day(5_000)).into(), 8);
    }
}
