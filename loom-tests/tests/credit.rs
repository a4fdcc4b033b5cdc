//! Credits against charges, insertions, refunds and resets.
#![cfg(loom)]

use loom_tests::{Run, Shared, X, Y, Z, admitted, explore, limiter, take, tick};
use tollgate::{Algorithm, FixedWindow, Rate, SlidingLog, TokenBucket, WhenFull};

/// One token a second, two at most.
const TWO: TokenBucket = TokenBucket::new(Rate::per_second(1)).burst(2);
/// One token a second, four at most.
const FOUR: TokenBucket = TokenBucket::new(Rate::per_second(1)).burst(4);

fn left<A: Algorithm>(limiter: &Shared<A>) -> u64 {
    limiter.account(&X).at(limiter.now()).peek_n(0).remaining()
}

/// Credits X with `units`, and says how many were given.
fn credit<A: Algorithm>(limiter: &Shared<A>, units: u64) -> Run {
    let limiter = limiter.clone();
    Box::new(move || limiter.account(&X).credit(units))
}

/// What both did, of which neither did ten.
fn both(first: Run, second: Run) -> (u64, u64) {
    let done = admitted([Box::new(move || 10 * first()), second]);
    (done / 10, done % 10)
}

#[test]
fn a_credit_beside_a_charge_gives_what_it_says() {
    explore(None, || {
        let (limiter, _) = limiter(FOUR, WhenFull::Deny);
        assert!(limiter.check_n(&X, 3).is_allowed());
        let (given, taken) = both(credit(&limiter, 2), take(&limiter, &[(X, 1), (X, 1)], X));
        assert_eq!((given, left(&limiter)), (2, 4 - 3 + given - taken));
    });
}

#[test]
fn a_credit_beside_a_logs_charge_keeps_the_other_times() {
    explore(Some(2), || {
        let (limiter, _) = limiter(SlidingLog::new(Rate::per_second(2)), WhenFull::Deny);
        assert!(limiter.check(&X).is_allowed());
        let (given, taken) = both(credit(&limiter, 2), take(&limiter, &[(X, 1), (X, 1)], X));
        assert_eq!(left(&limiter), 1 + given - taken);
    });
}

/// Whichever comes first, the charge comes back at most once, and the credit on top.
#[test]
fn a_credit_beside_a_refund_adds_what_it_says() {
    explore(Some(3), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Deny);
        let receipt = limiter.check_n(&X, 2).receipt();
        assert!(limiter.check(&X).is_allowed());
        let refunder = limiter.clone();
        let refund: Run = Box::new(move || refunder.refund(receipt));
        let (given, back) = both(credit(&limiter, 2), refund);
        assert_eq!(left(&limiter), 1 + given + back);
        assert!(given + back == 3 && back > 0, "{given} given, {back} came back");
    });
}

/// A reset forgives what a credit has left; charges after the reset stay, but for
/// a credit that comes later.
#[test]
fn a_credit_beside_a_reset_adds_what_it_says() {
    explore(Some(3), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Deny);
        assert!(limiter.check_n(&X, 4).is_allowed());
        let resetter = limiter.clone();
        let reset: Run = Box::new(move || {
            resetter.account(&X).reset();
            take(&resetter, &[(X, 3)], X)()
        });
        let (given, taken) = both(credit(&limiter, 1), reset);
        assert_eq!(taken, 3, "after a reset there are four");
        assert!(left(&limiter) <= 4 - taken + given);
    });
}

/// A refund that stalls between its two steps, over a reset and a charge that brings the word back:
/// a credit that held the word then would let it go on.
#[test]
fn a_credit_lets_no_stalled_refund_lower_a_charge() {
    explore(Some(2), || {
        let (limiter, _) = limiter(TWO, WhenFull::Deny);
        let receipt = limiter.check(&X).receipt();
        let (refunder, operator) = (limiter.clone(), limiter.clone());
        let stalled: Run = Box::new(move || {
            refunder.refund(receipt);
            0
        });
        let later: Run = Box::new(move || {
            let key = operator.account(&X);
            key.reset();
            // It is charged, and given back unless the refund still runs.
            u64::from(key.check().is_allowed()) - key.credit(1)
        });
        let taken = admitted([stalled, later]);
        assert_eq!(left(&limiter), 2 - taken);
    });
}

/// X's request has run out, and its slot goes to Y, while X is credited.
#[test]
fn a_credit_gives_a_slots_new_owner_nothing() {
    explore(Some(1), || {
        let (limiter, clock) = limiter(TWO, WhenFull::Deny);
        assert!(limiter.check_n(&Z, 2).is_allowed());
        assert!(limiter.check(&X).is_allowed());
        let owner = take(&limiter, &[(Y, 2), (Y, 1)], Y);
        let given = limiter.clone();
        let given: Run = Box::new(move || {
            given.account(&X).credit(1);
            0
        });
        // X is in debt until second 1, Z until second 2; the owner of a slot has two tokens and one
        // more a second.
        assert!(admitted([given, tick(&clock, &[1]), owner]) <= 3);
        assert!(limiter.account(&Y).at(limiter.now()).peek_n(0).remaining() <= 2);
    });
}

/// In a window, counts that come back are alike: only the window's number tells two owners apart.
#[test]
fn a_window_credited_to_zero_is_not_recycled_early() {
    explore(Some(2), || {
        let (limiter, _) = limiter(FixedWindow::new(Rate::per_second(1)), WhenFull::Deny);
        assert!(limiter.check(&Z).is_allowed());
        assert!(limiter.check(&X).is_allowed());
        let (given, taken) = both(credit(&limiter, 1), take(&limiter, &[(Y, 1), (Y, 1)], Y));
        assert!(given == 1 && taken <= 1);
    });
}
