//! A bucket whose keys move to the other half while they are charged, inserted, given back and forgiven.
#![cfg(loom)]

use loom_tests::{Run, Shared, X, Z, admitted, at, explore, growing, take, take_and_return};
use tollgate::{Algorithm, Rate, TokenBucket};

/// One token a second, two at most.
const TWO: TokenBucket = TokenBucket::new(Rate::per_second(1)).burst(2);
/// One token a second, one at most.
const ONE: TokenBucket = TokenBucket::new(Rate::per_second(1)).burst(1);

/// Leaves one bucket after the other, the models' first.
fn sweep<A: Algorithm>(limiter: &Shared<A>, buckets: usize) -> Run {
    let limiter = limiter.clone();
    Box::new(move || {
        limiter.sweep(buckets);
        0
    })
}

/// The charge lands in the slot that is left, or in the one where the key has settled, and counts once.
#[test]
fn a_key_is_charged_once_while_its_bucket_is_left() {
    explore(Some(3), || {
        let (limiter, _) = growing(TWO);
        assert!(limiter.check(&X).is_allowed());
        let threads = [take(&limiter, &[(X, 1), (X, 1)], X), sweep(&limiter, 1)];
        assert_eq!(admitted(threads), 1);
        assert!(!limiter.check(&X).is_allowed());
    });
}

/// Two threads that need the key help; it settles once.
#[test]
fn helpers_settle_a_key_once() {
    explore(Some(2), || {
        let (limiter, _) = growing(TWO);
        assert!(limiter.check(&X).is_allowed());
        assert!(!limiter.sweep(0), "the round has begun, and the key is in the half that is left");
        assert_eq!(admitted([take(&limiter, &[(X, 1)], X), take(&limiter, &[(X, 1)], X)]), 1);
        assert_eq!(limiter.len(), 1);
    });
}

/// An insertion that began before the round commits before its bucket is left, or not at all.
#[test]
fn a_key_inserted_under_a_sweep_is_inserted_once() {
    explore(Some(2), || {
        let (limiter, _) = growing(ONE);
        let threads = [take(&limiter, &[(X, 1)], X), sweep(&limiter, 1)];
        assert_eq!(admitted(threads), 1);
        assert!(!limiter.check(&X).is_allowed());
    });
}

/// The same by two threads that help.
#[test]
fn a_key_inserted_twice_under_a_sweep_is_inserted_once() {
    explore(Some(2), || {
        let (limiter, _) = growing(ONE);
        assert!(!limiter.sweep(0));
        assert_eq!(admitted([take(&limiter, &[(X, 1)], X), take(&limiter, &[(X, 1)], X)]), 1);
        assert!(!limiter.check(&X).is_allowed());
    });
}

/// A slot that has run out is vacated, while its key comes back.
#[test]
fn a_key_that_comes_back_while_its_slot_is_vacated_is_charged_once() {
    explore(Some(2), || {
        let (limiter, clock) = growing(ONE);
        assert!(limiter.check(&X).is_allowed());
        clock.set(at(1));
        let threads = [take(&limiter, &[(X, 1), (X, 1)], X), sweep(&limiter, 1)];
        assert_eq!(admitted(threads), 1);
        assert!(!limiter.check(&X).is_allowed());
    });
}

/// What a refund gives back comes back to the key, in whichever half it is by then.
#[test]
fn a_refund_under_a_sweep_gives_back_once() {
    explore(Some(2), || {
        let (limiter, _) = growing(TWO);
        assert!(limiter.check(&X).is_allowed());
        let taken = admitted([take_and_return(&limiter, X, 1), sweep(&limiter, 1)]);
        let left = u64::from(limiter.check(&X).is_allowed());
        assert_eq!((taken, left, limiter.check(&X).is_allowed()), (0, 1, false));
    });
}

/// A reset finds the key.
#[test]
fn a_reset_under_a_sweep_finds_its_key() {
    explore(Some(2), || {
        let (limiter, _) = growing(TWO);
        assert!(limiter.check_n(&X, 2).is_allowed());
        let other = limiter.clone();
        let reset: Run = Box::new(move || u64::from(other.reset(&X)));
        assert_eq!(admitted([reset, sweep(&limiter, 1)]), 1);
        assert_eq!(limiter.check_n(&X, 2).remaining(), 0);
    });
}

/// A whole round, with the half cleared behind it, while a key is charged by a thread that knows its old slot.
#[test]
fn a_half_is_cleared_behind_everybody() {
    explore(Some(2), || {
        let (limiter, _) = growing(TWO);
        assert!(limiter.check(&X).is_allowed());
        let threads = [take(&limiter, &[(X, 1), (X, 1)], X), sweep(&limiter, usize::MAX)];
        assert_eq!(admitted(threads), 1);
        assert!(!limiter.check(&X).is_allowed());
    });
}

/// A key settles, and a newcomer comes to the same bucket. While a slot is being given up, it may be refused for want of
/// one.
#[test]
fn a_newcomer_finds_room_beside_those_who_settle() {
    explore(Some(1), || {
        let (limiter, _) = growing(ONE);
        assert!(limiter.check(&X).is_allowed());
        assert!(!limiter.sweep(0));
        let taken = admitted([take(&limiter, &[(Z, 1), (X, 1)], Z), sweep(&limiter, 1)]);
        assert_eq!(taken + u64::from(limiter.check(&Z).is_allowed()), 1);
        assert!([X, Z].iter().all(|key| !limiter.check(key).is_allowed()));
    });
}
