//! Leases against resets, charges and each other.
#![cfg(loom)]

use loom_tests::{Run, Shared, X, admitted, explore, limiter, take};
use tollgate::{Algorithm, FixedWindow, Rate, TokenBucket, WhenFull};

const FOUR: Rate = Rate::per_second(4);

/// Spends `spend` permits of a lease of two at a time and drops it.
fn lease<A: Algorithm>(limiter: &Shared<A>, spend: usize) -> Run {
    let limiter = limiter.clone();
    Box::new(move || {
        let mut lease = limiter.account(&X).lease().permits(2);
        (0..spend).filter(|_| lease.check().is_allowed()).count() as u64
    })
}

/// The spent units are charged, and no others.
#[test]
fn two_leases_spend_what_the_key_is_charged() {
    explore(Some(2), || {
        let (limiter, _) = limiter(TokenBucket::new(FOUR), WhenFull::Deny);
        assert!(limiter.check(&X).is_allowed());
        let spent = admitted([lease(&limiter, 1), lease(&limiter, 1)]);
        assert_eq!(spent, 2);
        assert_eq!(limiter.account(&X).at(limiter.now()).peek_n(0).remaining(), 3 - spent);
    });
}

#[test]
fn a_lease_beside_checks_keeps_the_limit() {
    explore(Some(2), || {
        let (limiter, _) = limiter(FixedWindow::new(FOUR), WhenFull::Deny);
        assert!(limiter.check_n(&X, 2).is_allowed());
        let spent = admitted([lease(&limiter, 1), take(&limiter, &[(X, 1), (X, 1)], X)]);
        assert_eq!(limiter.account(&X).at(limiter.now()).peek_n(0).remaining(), 2 - spent);
    });
}

/// A lease whose permits a reset ended acquires anew, from a key that the reset has forgiven.
/// (While the reset is under way it may be refused: the reset counts itself before it lowers the
/// word.)
#[test]
fn permits_that_a_reset_ended_are_acquired_again() {
    explore(None, || {
        let (limiter, _) = limiter(TokenBucket::new(FOUR), WhenFull::Deny);
        assert!(limiter.check_n(&X, 2).is_allowed());
        let mut lease = limiter.account(&X).lease().permits(2);
        let resets = {
            let limiter = limiter.clone();
            loom::thread::spawn(move || assert!(limiter.account(&X).reset()))
        };
        assert!(lease.check().is_allowed(), "two were left, or four");
        resets.join().expect("a reset does not panic");
        assert!((0..2).all(|_| lease.check().is_allowed()));
    });
}

/// A lease that has seen the reset's count takes from the key as the reset left it: what it holds
/// is charged.
#[test]
fn permits_taken_after_a_reset_are_charged() {
    explore(None, || {
        let (limiter, _) = limiter(TokenBucket::new(FOUR), WhenFull::Deny);
        assert!(limiter.check(&X).is_allowed());
        let mut lease = limiter.account(&X).lease().permits(2);
        let resets = {
            let limiter = limiter.clone();
            loom::thread::spawn(move || assert!(limiter.account(&X).reset()))
        };
        assert!(lease.check().is_allowed());
        resets.join().expect("a reset does not panic");
        // All permits that the lease still holds are charged: a forgiven lease acquires anew.
        assert!(lease.check().is_allowed());
        let owed = 4 - limiter.account(&X).at(limiter.now()).peek_n(0).remaining();
        assert!(owed > lease.held(), "{} held, {owed} owed", lease.held());
    });
}
