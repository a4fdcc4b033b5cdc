//! A save beside checks: nothing that was admitted before it is forgotten.
#![cfg(loom)]

use std::sync::{Arc, Mutex};

use loom_tests::{Named, Run, Shared, X, Y, Z, admitted, explore, limiter, take};
use tollgate::{Limiter, ManualClock, Rate, SlidingLog, TokenBucket, WhenFull};

/// One token a second, four at most: a slot that owes two or less may be handed over.
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

/// What the key has left in a limiter restored from `file`.
fn left<A: tollgate::Algorithm>(quota: A, file: &File, key: Named) -> u64 {
    let builder = Limiter::<Named, A>::builder(quota).max_keys(1).clock(ManualClock::new());
    let restored = builder.restore(&file.lock().expect("nobody panics")[..]).expect("it was saved just now");
    restored.peek_n_at(&key, 0, restored.now()).remaining()
}

/// X is handed out of its bucket, and comes back to another slot, while the bucket is read.
#[test]
fn a_key_that_loses_its_slot_during_the_save_is_in_it() {
    explore(Some(3), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Share);
        assert!(limiter.check_n(&X, 1).is_allowed() && limiter.check_n(&Z, 4).is_allowed());
        let file = File::default();
        let moving = limiter.clone();
        let moves: Run = Box::new(move || {
            let _ = moving.check(&Y);
            assert!(moving.reset(&Z));
            let _ = moving.check(&X);
            0
        });
        admitted([save(&limiter, &file), moves]);
        assert!(left(FOUR, &file, X) <= 3);
    });
}

/// A log's ring is overwritten, lap after lap, while it is read.
#[test]
fn a_log_is_saved_with_all_its_times() {
    const LOG: SlidingLog = SlidingLog::new(Rate::per_second(2));
    explore(Some(3), || {
        let (limiter, _) = limiter(LOG, WhenFull::Share);
        assert!(limiter.check_n(&X, 1).is_allowed());
        let file = File::default();
        admitted([save(&limiter, &file), take(&limiter, &[(X, 1), (X, 1)], X)]);
        assert!(left(LOG, &file, X) <= 1);
    });
}
