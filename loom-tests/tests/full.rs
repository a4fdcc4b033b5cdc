//! A full bucket: keys evicted with their debt, and the shared allowance.
#![cfg(loom)]

use loom_tests::{Named, Run, X, Y, Z, admitted, at, explore, limiter, take};
use tollgate::{Rate, TokenBucket, WhenFull};

/// One token a second, four at most: a key with a debt of two or less may be evicted.
const FOUR: TokenBucket = TokenBucket::new(Rate::per_second(1)).burst(4);
/// One token a second, two at most.
const TWO: TokenBucket = TokenBucket::new(Rate::per_second(1)).burst(2);
const W: Named = Named::new(3);

/// The key with the least debt is evicted while it is charged.
#[test]
fn a_slot_handed_over_under_a_charge_forgives_nothing() {
    explore(Some(3), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Share);
        assert!(limiter.check_n(&X, 1).is_allowed() && limiter.check_n(&Z, 4).is_allowed());
        // X has a debt of 1. It gets at most the 3 that are left, concurrently with Y.
        let threads = [take(&limiter, &[(X, 2), (X, 2)], X), take(&limiter, &[(Y, 1)], X)];
        assert!(admitted(threads) <= 3);
    });
}

/// A key is charged to the shared word, a slot runs out, the key moves into it: the debt moves too.
#[test]
fn a_key_leaves_the_shared_allowance_with_its_debt() {
    explore(Some(1), || {
        let (limiter, clock) = limiter(TWO, WhenFull::Share);
        // Z is in debt for one second, X for two: no key can be evicted (half of two is one token:
        // both debts are larger).
        assert!(limiter.check_n(&X, 2).is_allowed() && limiter.check_n(&Z, 2).is_allowed());
        let late = clock.clone();
        let moves: Run = Box::new(move || {
            late.set(at(2));
            0
        });
        // Until second 2 at most 2 + 2 tokens for Y, whichever words it was charged to.
        let threads = [take(&limiter, &[(Y, 1), (Y, 2)], Y), take(&limiter, &[(Y, 1), (Y, 1)], Y), moves];
        assert!(admitted(threads) <= 4);
    });
}

/// Without a clock: the shared word is one allowance, not one for each who asks.
#[test]
fn the_shared_allowance_is_granted_once() {
    explore(Some(3), || {
        let (limiter, _) = limiter(TWO, WhenFull::Share);
        assert!(limiter.check_n(&X, 2).is_allowed() && limiter.check_n(&Z, 2).is_allowed());
        let threads = [take(&limiter, &[(Y, 1), (Y, 1)], Y), take(&limiter, &[(Y, 1)], Y)];
        assert_eq!(admitted(threads), 1, "half the limit");
    });
}

/// The shared word while a slot is vacated by a reset and filled by another key.
#[test]
fn a_slot_that_empties_beside_the_shared_allowance_mints_nothing() {
    explore(Some(2), || {
        let (limiter, _) = limiter(TWO, WhenFull::Share);
        assert!(limiter.check_n(&X, 2).is_allowed() && limiter.check_n(&Z, 2).is_allowed());
        let reset = limiter.clone();
        let empties: Run = Box::new(move || {
            assert!(reset.account(&X).reset());
            let _ = reset.check(&W);
            0
        });
        let threads = [take(&limiter, &[(Y, 1), (Y, 1), (Y, 1)], Y), empties];
        assert!(admitted(threads) <= 2);
    });
}
