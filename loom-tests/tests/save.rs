//! A save beside checks: nothing that was admitted before it is forgotten.
//!
//! The save runs in the thread that is spawned: a first thread that only loads is never interrupted
//! by loom.
#![cfg(loom)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use loom_tests::{Named, Run, Shared, X, Y, Z, admitted, at, explore, limiter, take};
use tollgate::{Limiter, ManualClock, Rate, SlidingLog, TokenBucket, WhenFull};

/// One token a second, four at most: a key with a debt of two or less may be evicted.
const FOUR: TokenBucket = TokenBucket::new(Rate::per_second(1)).burst(4);

type File = Arc<Mutex<Vec<u8>>>;

/// Saves the limiter to `file`.
fn save<A: tollgate::Algorithm>(limiter: &Shared<A>, file: &File) -> Run {
    let (limiter, file) = (limiter.clone(), file.clone());
    Box::new(move || {
        let mut saved = Vec::new();
        limiter.save(&mut saved).expect("a vector takes all");
        *file.lock().expect("nobody panics") = saved;
        0
    })
}

/// What the key has left in a limiter restored from `file` at that second, where it does not share
/// its bucket.
fn left<A: tollgate::Algorithm>(quota: A, file: &File, key: Named, second: u64) -> u64 {
    let clock = ManualClock::new();
    clock.set(at(second));
    let builder = Limiter::builder(quota).per::<Named>().max_keys(8).clock(clock);
    let restored = builder.restore(&file.lock().expect("nobody panics")[..]).expect("it was saved just now");
    restored.account(&key).at(restored.now()).peek_n(0).remaining()
}

/// X is handed out of its bucket, and comes back to another slot, while the bucket is read.
#[test]
fn a_key_evicted_during_a_save_is_saved() {
    explore(Some(2), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Share);
        assert!(limiter.check_n(&X, 1).is_allowed() && limiter.check_n(&Z, 4).is_allowed());
        let file = File::default();
        let moving = limiter.clone();
        let moves: Run = Box::new(move || {
            let _ = moving.check(&Y);
            assert!(moving.account(&Z).reset());
            let _ = moving.check(&X);
            0
        });
        admitted([moves, save(&limiter, &file)]);
        assert!(left(FOUR, &file, X, 0) <= 3);
    });
}

/// A log's ring goes on to the next lap while it is read: what has not left the window is found.
#[test]
fn a_log_is_saved_with_the_times_that_count() {
    const LOG: SlidingLog = SlidingLog::new(Rate::new(2, Duration::from_secs(2)));
    explore(Some(3), || {
        let (limiter, clock) = limiter(LOG, WhenFull::Share);
        assert!(limiter.check(&X).is_allowed());
        clock.set(at(1));
        assert!(limiter.check(&X).is_allowed());
        clock.set(at(2));
        // The first has left, and its entry may be overwritten. The second counts until second 3.
        let file = File::default();
        admitted([take(&limiter, &[(X, 1), (X, 1)], X), save(&limiter, &file)]);
        assert!(left(LOG, &file, X, 2) <= 1);
    });
}
