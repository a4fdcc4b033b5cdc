//! Refunds against charges, insertions and recycling.
#![cfg(loom)]

use loom_tests::{Run, X, Y, Z, admitted, at, explore, limiter, take, take_and_return, tick};
use tollgate::{FixedWindow, Quota, Rate, SlidingLog, TokenBucket, WhenFull};

/// One token a second, two at most.
const TWO: TokenBucket = TokenBucket::new(Rate::per_second(1)).burst(2);
/// One token a second, four at most.
const FOUR: TokenBucket = TokenBucket::new(Rate::per_second(1)).burst(4);

#[test]
fn a_refund_beside_a_charge_gives_back_what_it_took() {
    explore(None, || {
        let (limiter, _) = limiter(TWO, WhenFull::Deny);
        assert!(limiter.check(&X).is_allowed());
        let kept = admitted([take_and_return(&limiter, X, 1), take(&limiter, &[(X, 1)], X)]);
        assert_eq!(limiter.account(&X).at(limiter.now()).peek_n(0).remaining(), 1 - kept);
    });
}

#[test]
fn a_refund_during_the_keys_insertion_gives_back_its_cost() {
    explore(Some(3), || {
        let (limiter, _) = limiter(TWO, WhenFull::Deny);
        let kept = admitted([take_and_return(&limiter, X, 1), take(&limiter, &[(X, 1)], X)]);
        assert_eq!(limiter.account(&X).at(limiter.now()).peek_n(0).remaining(), 2 - kept);
    });
}

/// What a bucket refilled while the refund was on its way is not given back on top of a charge that
/// used it.
#[test]
fn a_refund_that_is_slow_mints_nothing() {
    explore(Some(2), || {
        // Any algorithm's charge carries the clock that it was decided by, as a processor's own
        // clock does.
        let (limiter, clock) = limiter(Quota::from(FOUR), WhenFull::Deny);
        let later = limiter.clone();
        let later: Run = Box::new(move || {
            clock.set(at(1));
            [2, 3].into_iter().filter(|&cost| later.check_n(&X, cost).is_allowed()).sum()
        });
        let early = take_and_return(&limiter, X, 2);
        let early: Run = Box::new(move || {
            early();
            0
        });
        assert!(admitted([early, later]) <= 4, "four at second 1, whatever was given back");
    });
}

/// X's request has run out, and its slot goes to Y, while X is given it back.
#[test]
fn a_refund_gives_a_slots_new_owner_nothing() {
    explore(Some(1), || {
        let (limiter, clock) = limiter(TWO, WhenFull::Deny);
        assert!(limiter.check_n(&Z, 2).is_allowed());
        let threads =
            [take_and_return(&limiter, X, 1), tick(&clock, &[1]), take(&limiter, &[(Y, 2), (Y, 1)], Y)];
        // X is in debt until second 1, Z until second 2; the owner of a slot has two tokens and one
        // more a second.
        assert!(admitted(threads) <= 1 + 3);
        assert!(limiter.account(&Y).at(limiter.now()).peek_n(0).remaining() <= 2);
    });
}

/// In a window, counts that come back are alike: only the window's number tells two owners apart.
#[test]
fn a_window_refunded_to_zero_is_not_recycled_early() {
    explore(Some(2), || {
        let (limiter, _) = limiter(FixedWindow::new(Rate::per_second(1)), WhenFull::Deny);
        assert!(limiter.check(&Z).is_allowed());
        let threads = [take_and_return(&limiter, X, 1), take(&limiter, &[(Y, 1), (Y, 1)], Y)];
        assert!(admitted(threads) <= 1);
        assert!(limiter.usage().live_keys <= 2);
    });
}

#[test]
fn a_logs_refund_during_a_charge_keeps_every_admitted_time() {
    explore(Some(1), || {
        let (limiter, _) = limiter(SlidingLog::new(Rate::per_second(2)), WhenFull::Deny);
        let kept = admitted([take_and_return(&limiter, X, 1), take(&limiter, &[(X, 1), (X, 1)], X)]);
        assert_eq!(limiter.account(&X).at(limiter.now()).peek_n(0).remaining(), 2 - kept);
    });
}

/// A refund that stalls between its two steps, over a reset and a charge that brings the word back.
#[test]
fn a_stalled_refund_lowers_no_charge_after_a_reset() {
    explore(Some(2), || {
        let (limiter, _) = limiter(TWO, WhenFull::Deny);
        let receipt = limiter.check(&X).receipt();
        let (refunder, resetter) = (limiter.clone(), limiter.clone());
        let stalled: Run = Box::new(move || {
            refunder.refund(receipt);
            0
        });
        let later: Run = Box::new(move || {
            resetter.account(&X).reset();
            let decision = resetter.check(&X);
            u64::from(decision.is_allowed()) - resetter.refund(decision)
        });
        let kept = admitted([stalled, later]);
        assert_eq!(limiter.account(&X).at(limiter.now()).peek_n(0).remaining(), 2 - kept);
    });
}

/// A reset and a refund of one charge: whichever comes second sees the first.
#[test]
fn a_charge_is_not_forgiven_and_refunded_by_two_threads() {
    explore(Some(3), || {
        let (limiter, _) = limiter(TWO, WhenFull::Deny);
        let receipt = limiter.check(&X).receipt();
        let (refunder, resetter) = (limiter.clone(), limiter.clone());
        let refund: Run = Box::new(move || {
            refunder.refund(receipt);
            0
        });
        let reset: Run = Box::new(move || {
            resetter.account(&X).reset();
            u64::from(resetter.check(&X).is_allowed())
        });
        // The check after the reset stays charged, also after the refund.
        assert_eq!(admitted([refund, reset]), 1);
        assert_eq!(limiter.account(&X).at(limiter.now()).peek_n(0).remaining(), 1);
    });
}
