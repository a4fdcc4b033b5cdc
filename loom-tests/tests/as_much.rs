//! Requests that take as much as there is, and debits, beside others.
#![cfg(loom)]

use std::time::Duration;

use loom_tests::{Named, Run, Shared, X, Y, Z, admitted, explore, limiter, take, take_and_return};
use tollgate::{Algorithm, FixedWindow, Inherit, Rate, SlidingLog, TokenBucket, WhenFull};

/// One token a second, four at most.
const FOUR: TokenBucket = TokenBucket::new(Rate::per_second(1)).burst(4);
/// One in two seconds, two at most: other grains.
const TWO: TokenBucket = TokenBucket::new(Rate::per_minute(30)).burst(2);

/// Takes what there is for the key, at most `most`.
fn up_to<A: Algorithm>(limiter: &Shared<A>, key: Named, most: u64) -> Run {
    let limiter = limiter.clone();
    Box::new(move || {
        let decision = limiter.account(&key).check_up_to(most);
        if decision.is_allowed() { decision.cost() } else { 0 }
    })
}

/// Debits the key.
fn debit<A: Algorithm>(limiter: &Shared<A>, key: Named, cost: u64) -> Run {
    let limiter = limiter.clone();
    Box::new(move || limiter.account(&key).debit(cost).expect("there is room").cost())
}

fn change<A: Algorithm>(limiter: &Shared<A>, quota: A, inherit: Inherit) -> Run {
    let limiter = limiter.clone();
    Box::new(move || {
        limiter.change().to(quota).inherit(inherit).apply().expect("the model's quota is valid");
        0
    })
}

/// How long X is refused one unit.
fn wait<A: Algorithm>(limiter: &Shared<A>) -> Duration {
    limiter.check(&X).retry_after().expect("it is in debt")
}

/// Three units are left, of which each thread asks for two: the second thread gets the third.
#[test]
fn two_threads_take_what_there_is() {
    explore(None, || {
        let (limiter, _) = limiter(FOUR, WhenFull::Deny);
        assert!(limiter.check(&X).is_allowed());
        assert_eq!(admitted([up_to(&limiter, X, 2), up_to(&limiter, X, 2)]), 3);
        assert!(!limiter.check(&X).is_allowed());
    });
}

#[test]
fn what_there_is_beside_a_check_is_taken_once() {
    explore(None, || {
        let (limiter, _) = limiter(FOUR, WhenFull::Deny);
        assert!(limiter.check(&X).is_allowed());
        assert_eq!(admitted([up_to(&limiter, X, 3), take(&limiter, &[(X, 1)], X)]), 3);
        assert!(!limiter.check(&X).is_allowed());
    });
}

/// The key has no slot yet.
#[test]
fn two_threads_that_insert_take_what_there_is() {
    explore(Some(2), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Deny);
        assert_eq!(admitted([up_to(&limiter, X, 3), up_to(&limiter, X, 3)]), 4);
        assert!(!limiter.check(&X).is_allowed());
    });
}

#[test]
fn two_threads_take_what_a_log_has() {
    explore(Some(3), || {
        let (limiter, _) = limiter(SlidingLog::new(Rate::per_second(4)), WhenFull::Deny);
        assert!(limiter.check(&X).is_allowed());
        assert_eq!(admitted([up_to(&limiter, X, 2), up_to(&limiter, X, 2)]), 3);
        assert!(!limiter.check(&X).is_allowed());
    });
}

/// Units given back meanwhile are there, or not yet.
#[test]
fn what_there_is_beside_a_refund_mints_nothing() {
    explore(Some(3), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Deny);
        assert!(limiter.check(&X).is_allowed());
        let stays = admitted([take_and_return(&limiter, X, 2), up_to(&limiter, X, 3)]);
        let rest = up_to(&limiter, X, 4)();
        assert_eq!(stays + rest, 3);
    });
}

/// The debit is charged whole, and the check before it or not at all.
#[test]
fn a_debit_beside_a_check_loses_no_unit() {
    explore(None, || {
        let (limiter, _) = limiter(FOUR, WhenFull::Deny);
        assert!(limiter.check_n(&X, 3).is_allowed());
        let charged = admitted([debit(&limiter, X, 3), take(&limiter, &[(X, 1)], X)]);
        assert!((3..=4).contains(&charged), "{charged}");
        // The debt is three and the charged units, of four; and one more is asked for.
        assert_eq!(wait(&limiter), Duration::from_secs(charged));
    });
}

#[test]
fn two_debits_that_insert_a_key_are_both_charged() {
    explore(Some(2), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Deny);
        assert_eq!(admitted([debit(&limiter, X, 3), debit(&limiter, X, 6)]), 9);
        assert_eq!(wait(&limiter), Duration::from_secs(6));
    });
}

/// The debit goes beyond the horizon of the first version, while a change seals it.
#[test]
fn a_debit_under_a_change_stays_charged() {
    explore(Some(3), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Share);
        assert!(limiter.check_n(&X, 4).is_allowed());
        assert_eq!(admitted([change(&limiter, FOUR, Inherit::AsIs), debit(&limiter, X, 6)]), 6);
        // The debt is ten, of four.
        assert_eq!(wait(&limiter), Duration::from_secs(7));
    });
}

/// By the old rate or by the new one, debt above the limit stays.
#[test]
fn a_debit_under_another_rate_is_charged_once() {
    explore(Some(3), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Share);
        assert!(limiter.check_n(&X, 4).is_allowed());
        assert_eq!(admitted([change(&limiter, TWO, Inherit::AsIs), debit(&limiter, X, 6)]), 6);
        // Six tokens are below zero, of two seconds each; and one more is asked for.
        assert_eq!(wait(&limiter), Duration::from_secs(14));
    });
}

#[test]
fn a_window_debited_under_a_change_is_charged_once() {
    explore(Some(3), || {
        let four = FixedWindow::new(Rate::per_second(4));
        let (limiter, _) = limiter(four, WhenFull::Share);
        assert!(limiter.check_n(&X, 2).is_allowed());
        let ten = FixedWindow::new(Rate::per_second(10));
        assert_eq!(admitted([change(&limiter, ten, Inherit::Additive), debit(&limiter, X, 5)]), 5);
        assert_eq!(up_to(&limiter, X, 9)(), 3, "seven of ten are counted");
    });
}

/// No slot is free: the debit charges the allowance that a check takes from. A charge of it that
/// another request overtakes stays there, and is made again: that errs by refusing.
#[test]
fn a_debit_of_a_shared_allowance_is_not_lost() {
    explore(Some(2), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Share);
        assert!(limiter.check_n(&X, 3).is_allowed() && limiter.check_n(&Z, 3).is_allowed());
        let taken = admitted([debit(&limiter, Y, 4), take(&limiter, &[(Y, 1)], Y)]);
        assert!((4..=5).contains(&taken), "{taken}");
        // Half of four is the shared debt, and the charged units.
        let wait = limiter.check(&Y).retry_after().expect("it is in debt");
        assert!(wait >= Duration::from_secs(2 + taken + 1 - 4), "{wait:?} after {taken}");
    });
}
