//! A bucket that is split while its keys are charged, inserted, given back and forgiven.
#![cfg(loom)]

use loom_tests::{Named, Run, Shared, X, Y, Z, admitted, at, explore, growing, take, take_and_return};
use tollgate::{FixedWindow, Rate, TokenBucket};

/// One token a second, two at most.
const TWO: TokenBucket = TokenBucket::new(Rate::per_second(1)).burst(2);
/// One token a second, one at most.
const ONE: TokenBucket = TokenBucket::new(Rate::per_second(1)).burst(1);
/// A fourth key, which stays with `Y`.
const W: Named = Named::new(3);

/// The key's charge lands in the slot that it leaves, or in the one it has moved to, and counts
/// once.
#[test]
fn a_key_is_charged_once_while_it_moves() {
    explore(Some(2), || {
        let (limiter, _) = growing(TWO);
        assert!(limiter.check(&X).is_allowed() && limiter.check(&Y).is_allowed());
        let threads = [take(&limiter, &[(X, 1), (X, 1)], X), take(&limiter, &[(Z, 1)], X)];
        assert_eq!(admitted(threads), 1);
        assert!(!limiter.check(&X).is_allowed());
        assert_eq!(limiter.check(&Z).remaining(), 0);
        assert_eq!(limiter.check(&Y).remaining(), 0);
    });
}

/// A key that stays takes no notice.
#[test]
fn a_key_is_charged_once_while_its_neighbour_moves() {
    explore(Some(3), || {
        let (limiter, _) = growing(TWO);
        assert!(limiter.check(&X).is_allowed() && limiter.check(&Y).is_allowed());
        let threads = [take(&limiter, &[(Y, 1), (Y, 1)], Y), take(&limiter, &[(Z, 1)], Y)];
        assert_eq!(admitted(threads), 1);
    });
}

/// Two threads split the same bucket, each for a key of its own, and charge one that moves.
#[test]
fn helpers_agree_on_what_moves() {
    explore(Some(2), || {
        let (limiter, _) = growing(TWO);
        assert!(limiter.check(&X).is_allowed() && limiter.check(&Y).is_allowed());
        let threads = [take(&limiter, &[(Z, 1), (X, 1)], X), take(&limiter, &[(W, 1), (X, 1)], X)];
        assert_eq!(admitted(threads), 1);
        assert!(!limiter.check(&X).is_allowed());
        assert!([Y, Z, W].iter().all(|key| limiter.check(key).remaining() == 0));
    });
}

/// The key that splits the bucket is asked for twice at once: it is inserted once.
#[test]
fn a_key_that_splits_its_bucket_is_inserted_once() {
    explore(Some(1), || {
        let (limiter, _) = growing(ONE);
        assert!(limiter.check(&X).is_allowed() && limiter.check(&Y).is_allowed());
        assert_eq!(admitted([take(&limiter, &[(Z, 1)], Z), take(&limiter, &[(Z, 1)], Z)]), 1);
        assert!(!limiter.check(&Z).is_allowed());
        assert_eq!(limiter.usage().live_keys, 3);
    });
}

/// An insertion that began before the split and commits after it, of a key that moves.
#[test]
fn a_key_inserted_during_a_split_is_inserted_once() {
    explore(Some(1), || {
        let (limiter, clock) = growing(ONE);
        assert!(limiter.check(&X).is_allowed());
        clock.set(at(1));
        assert!(limiter.check(&Y).is_allowed());
        // Both want X's slot, which has run out; the slower one splits.
        let threads = [take(&limiter, &[(Z, 1), (X, 1)], Z), take(&limiter, &[(W, 1), (Z, 1)], Z)];
        // While a slot is being given up, a key may be refused for want of one.
        let taken = admitted(threads);
        assert_eq!(taken + u64::from(limiter.check(&Z).is_allowed()), 1);
        assert!(!limiter.check(&Y).is_allowed());
    });
}

/// What a refund gives back comes back to the key, wherever it is by then, or not at all.
#[test]
fn a_refund_of_a_key_that_moves_gives_back_once() {
    explore(Some(3), || {
        let (limiter, _) = growing(TWO);
        assert!(limiter.check(&X).is_allowed() && limiter.check(&Y).is_allowed());
        let taken = admitted([take_and_return(&limiter, X, 1), take(&limiter, &[(Z, 1)], X)]);
        let left = u64::from(limiter.check(&X).is_allowed());
        assert_eq!((taken, left, limiter.check(&X).is_allowed()), (0, 1, false));
    });
}

/// As above, while the thread that moves the key charges it.
#[test]
fn a_refund_of_a_key_that_moves_mints_nothing() {
    explore(Some(2), || {
        let (limiter, _) = growing(TWO);
        assert!(limiter.check(&X).is_allowed() && limiter.check(&Y).is_allowed());
        let threads = [take_and_return(&limiter, X, 1), take(&limiter, &[(Z, 1), (X, 1)], X)];
        let taken = admitted(threads);
        let left = (0..2).filter(|_| limiter.check(&X).is_allowed()).count() as u64;
        assert_eq!(taken + left, 1);
    });
}

/// A reset of a key that moves: it finds the key, and forgives it once.
#[test]
fn a_reset_finds_a_key_that_moves() {
    explore(Some(3), || {
        let (limiter, _) = growing(TWO);
        assert!(limiter.check_n(&X, 2).is_allowed() && limiter.check(&Y).is_allowed());
        let other = limiter.clone();
        let reset: Run = Box::new(move || u64::from(other.account(&X).reset()));
        assert_eq!(admitted([reset, take(&limiter, &[(Z, 1)], X)]), 1);
        assert_eq!(limiter.check_n(&X, 2).remaining(), 0);
    });
}

/// A window's payload moves as it is: not a unit more or less.
#[test]
fn a_window_moves_with_its_count() {
    explore(Some(3), || {
        let (limiter, _) = growing(FixedWindow::new(Rate::per_second(3)));
        assert!(limiter.check(&X).is_allowed() && limiter.check(&Y).is_allowed());
        let threads = [take(&limiter, &[(X, 1)], X), take(&limiter, &[(Z, 1)], X)];
        assert_eq!(admitted(threads), 1);
        assert_eq!(limiter.check(&X).remaining(), 0);
    });
}

/// A peek while the key migrates shows its debt.
#[test]
fn a_look_at_a_key_that_moves_sees_its_debt() {
    explore(Some(3), || {
        let (limiter, _) = growing(ONE);
        assert!(limiter.check(&X).is_allowed() && limiter.check(&Y).is_allowed());
        let other = limiter.clone();
        let look: Run = Box::new(move || u64::from(other.peek(&X).is_allowed()));
        assert_eq!(admitted([look, take(&limiter, &[(Z, 1)], X)]), 0);
    });
}

/// A peek writes nothing and helps no split: it reads a key on its way, and never fewer charges
/// than before.
#[test]
fn peeks_at_a_migrating_key_never_see_fewer_charges() {
    explore(Some(2), || {
        let (limiter, _) = growing(TWO);
        assert!(limiter.check(&X).is_allowed() && limiter.check(&Y).is_allowed());
        let other = limiter.clone();
        let left = |limiter: &Shared<TokenBucket>| limiter.account(&X).at(at(0)).peek_n(0).remaining();
        let peek: Run = Box::new(move || {
            let (first, second) = (left(&other), left(&other));
            assert!(second <= first && first <= 1, "{first}, then {second}");
            0
        });
        assert_eq!(admitted([peek, take(&limiter, &[(Z, 1), (X, 1)], X)]), 1);
    });
}

/// A peek after a charge sees it while another thread splits the bucket.
#[test]
fn a_peek_at_a_migrating_key_sees_earlier_charges() {
    explore(Some(2), || {
        let (limiter, _) = growing(TWO);
        assert!(limiter.check(&X).is_allowed() && limiter.check(&Y).is_allowed());
        let other = limiter.clone();
        let charge_and_peek: Run = Box::new(move || {
            assert!(other.check(&X).is_allowed());
            assert_eq!(other.account(&X).at(at(0)).peek_n(0).remaining(), 0);
            assert!(!other.check(&X).is_allowed());
            1
        });
        assert_eq!(admitted([charge_and_peek, take(&limiter, &[(Z, 1)], X)]), 1);
    });
}

/// The slot of a key that has moved is as good as any.
#[test]
fn a_slot_that_a_key_left_is_taken_once() {
    explore(Some(2), || {
        let (limiter, clock) = growing(ONE);
        assert!([X, Y, Z].iter().all(|key| limiter.check(key).is_allowed()));
        clock.set(at(1));
        assert_eq!(admitted([take(&limiter, &[(W, 1)], W), take(&limiter, &[(W, 1)], W)]), 1);
        assert!(!limiter.check(&W).is_allowed());
    });
}
