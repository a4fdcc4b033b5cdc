//! Checks against a change of the quota.
//!
//! In each model the thread that changes the quota comes first: loom looks for other orders of a
//! load only when it follows a store.
#![cfg(loom)]

use loom_tests::{Named, Run, Shared, X, Y, Z, admitted, explore, limiter, take, take_and_return};
use tollgate::{Algorithm, FixedWindow, Inherit, Rate, TokenBucket, WhenFull};

/// One token a second, four at most.
const FOUR: TokenBucket = TokenBucket::new(Rate::per_second(1)).burst(4);
/// One in two seconds, two at most: other grains.
const TWO: TokenBucket = TokenBucket::new(Rate::per_minute(30)).burst(2);

fn change<A: Algorithm>(limiter: &Shared<A>, quotas: &'static [A], carry: Inherit) -> Run {
    let limiter = limiter.clone();
    Box::new(move || {
        for quota in quotas {
            limiter.change().to(*quota).inherit(carry).apply().expect("the model's quota is valid");
        }
        0
    })
}

/// A charge in flight over the change is one of before or of after: nothing is forgotten, nothing
/// granted twice.
#[test]
fn a_change_under_charges_admits_what_was_there() {
    explore(Some(2), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Share);
        assert!(limiter.check_n(&X, 1).is_allowed());
        let threads = [
            change(&limiter, &[TWO], Inherit::AsIs),
            take(&limiter, &[(X, 1), (X, 1)], X),
            take(&limiter, &[(X, 1)], X),
        ];
        let taken = admitted(threads) + take(&limiter, &[(X, 1), (X, 1), (X, 1)], X)();
        // Three were left. The available tokens stay, up to two: a check before the change may take
        // the third.
        assert!((2..=3).contains(&taken), "{taken}");
        assert_eq!(limiter.check(&X).limit(), 2, "who comes after the change is decided by the new quota");
    });
}

/// There is room for all by either quota: no check is refused by the old rule on the new one's
/// word.
fn nobody_is_refused<A: Algorithm>(old: A, new: A) {
    explore(Some(3), move || {
        let (limiter, _) = limiter(old, WhenFull::Share);
        assert!(limiter.check_n(&X, 1).is_allowed());
        let charges = limiter.clone();
        let changes: Run = Box::new(move || {
            charges.change().to(new).inherit(Inherit::Additive).apply().expect("the model's quota is valid");
            u64::from(charges.check(&X).is_allowed())
        });
        assert_eq!(admitted([changes, take(&limiter, &[(X, 1)], X)]), 2);
    });
}

#[test]
fn a_bucket_refuses_nobody_for_a_change() {
    nobody_is_refused(FOUR, TokenBucket::new(Rate::per_minute(30)).burst(5));
}

#[test]
fn a_window_refuses_nobody_for_a_change() {
    nobody_is_refused(FixedWindow::new(Rate::per_second(4)), FixedWindow::new(Rate::per_minute(5)));
}

/// A charge in flight over two changes, the second back to the first quota.
#[test]
fn a_change_and_back_under_a_charge_mints_nothing() {
    explore(Some(3), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Share);
        assert!(limiter.check_n(&X, 3).is_allowed());
        let threads = [change(&limiter, &[TWO, FOUR], Inherit::AsIs), take(&limiter, &[(X, 1), (X, 1)], X)];
        let taken = admitted(threads) + take(&limiter, &[(X, 1), (X, 1)], X)();
        assert_eq!(taken, 1);
    });
}

/// A booking goes beyond the horizon of the first version, while a change seals it.
#[test]
fn a_booking_under_a_change_stays_booked() {
    explore(Some(3), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Share);
        assert!(limiter.check_n(&X, 4).is_allowed());
        let books = limiter.clone();
        let books: Run = Box::new(move || {
            let patience = std::time::Duration::from_secs(60);
            u64::from(books.account(&X).reserve(3, patience).is_ok())
        });
        let booked = admitted([change(&limiter, &[FOUR], Inherit::AsIs), books]);
        assert_eq!(booked, 1);
        // The debt is seven, of four.
        let wait = limiter.check(&X).retry_after();
        assert_eq!(wait, Some(std::time::Duration::from_secs(4)));
    });
}

/// A key is inserted into a slot, and into the shared allowance of a full bucket, while the quota
/// changes.
#[test]
fn a_full_bucket_under_a_change_forgives_nothing() {
    explore(Some(3), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Share);
        assert!(limiter.check_n(&X, 3).is_allowed() && limiter.check_n(&Z, 3).is_allowed());
        let threads = [change(&limiter, &[TWO], Inherit::AsIs), take(&limiter, &[(Y, 1), (X, 1)], X)];
        let taken = admitted(threads) + take(&limiter, &[(Y, 1), (X, 1)], X)();
        assert!(taken <= 1, "{taken}");
    });
}

/// The same where both keys share the allowance of a full bucket: the old rule refuses no check on
/// the overflow word of the new.
#[test]
fn a_full_bucket_refuses_nobody_for_a_change() {
    explore(Some(2), || {
        // Room for charges that are lost, too, when another thread changes the header first.
        let twelve = TokenBucket::new(Rate::per_second(1)).burst(12);
        let (limiter, _) = limiter(twelve, WhenFull::Share);
        assert!(limiter.check_n(&X, 12).is_allowed() && limiter.check_n(&Z, 12).is_allowed());
        let shares = limiter.clone();
        let changes: Run = Box::new(move || {
            let larger = TokenBucket::new(Rate::per_minute(30)).burst(20);
            shares.change().to(larger).inherit(Inherit::Additive).apply().expect("the model's quota is valid");
            u64::from(shares.check(&Y).is_allowed())
        });
        assert_eq!(admitted([changes, take(&limiter, &[(W, 1)], W)]), 2);
    });
}

/// A fourth key.
const W: Named = Named::new(3);

/// Two threads enter a full bucket, one by the old quota and one by the new: keys are evicted
/// with debts of both.
#[test]
fn keys_that_enter_by_two_quotas_are_forgiven_nothing() {
    // Two preemptions take four minutes: `cargo xtask loom --thorough` explores them.
    explore(Some(1), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Share);
        assert!(limiter.check_n(&X, 1).is_allowed() && limiter.check_n(&Z, 2).is_allowed());
        let enters = limiter.clone();
        let changes: Run = Box::new(move || {
            let slower = TokenBucket::new(Rate::per_minute(30)).burst(4);
            enters.change().to(slower).inherit(Inherit::Additive).apply().expect("the model's quota is valid");
            let _ = enters.check(&W);
            0
        });
        let taken = admitted([changes, take(&limiter, &[(Y, 1)], X)]);
        let taken = taken + take(&limiter, &[(X, 2), (X, 1), (X, 1)], X)();
        assert!(taken <= 3, "{taken}");
    });
}

/// A charge and its refund by the old quota, around a change and a charge by the new one.
#[test]
fn a_refund_during_a_change_lowers_no_new_word() {
    explore(Some(3), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Share);
        assert!(limiter.check_n(&X, 2).is_allowed());
        let charges = limiter.clone();
        let changes: Run = Box::new(move || {
            charges.change().to(TWO).inherit(Inherit::AsIs).apply().expect("the model's quota is valid");
            u64::from(charges.check(&X).is_allowed())
        });
        let kept = admitted([changes, take_and_return(&limiter, X, 1)]);
        let taken = kept + take(&limiter, &[(X, 1), (X, 1), (X, 1)], X)();
        assert!(taken <= 2, "{taken}");
    });
}

/// The fixed window's counts over a change.
#[test]
fn a_window_under_a_change_admits_what_was_there() {
    const WINDOWS: [FixedWindow; 2] =
        [FixedWindow::new(Rate::per_second(3)), FixedWindow::new(Rate::per_minute(9))];
    explore(Some(3), || {
        let (limiter, _) = limiter(WINDOWS[0], WhenFull::Share);
        assert!(limiter.check_n(&X, 1).is_allowed());
        let threads = [change(&limiter, &WINDOWS, Inherit::AsIs), take(&limiter, &[(X, 1), (X, 1)], X)];
        assert_eq!(admitted(threads) + take(&limiter, &[(X, 1), (X, 1)], X)(), 2);
    });
}

/// A charge by the old window in flight over a change and a charge by the new one: only one of them
/// has room.
#[test]
fn a_window_is_charged_by_one_quota_at_a_time() {
    const TWO_A_MINUTE: &[FixedWindow] = &[FixedWindow::new(Rate::per_minute(2))];
    explore(Some(3), || {
        let (limiter, _) = limiter(FixedWindow::new(Rate::per_second(5)), WhenFull::Share);
        assert!(limiter.check_n(&X, 1).is_allowed());
        let changes = change(&limiter, TWO_A_MINUTE, Inherit::Additive);
        let charges = take(&limiter, &[(X, 1)], X);
        let changes: Run = Box::new(move || changes() + charges());
        assert_eq!(admitted([changes, take(&limiter, &[(X, 1)], X)]), 1);
    });
}

/// A peek reads a word of the new quota by the old one's number.
#[test]
fn a_peek_during_a_change_shows_one_quotas_numbers() {
    explore(Some(3), || {
        let (limiter, _) = limiter(FOUR, WhenFull::Share);
        assert!(limiter.check_n(&X, 3).is_allowed());
        let looks = limiter.clone();
        let looks: Run = Box::new(move || {
            let seen = looks.account(&X).at(looks.now()).peek_n(0);
            // One left of four, or of two; none once it was charged by the quota of two.
            assert!(matches!((seen.limit(), seen.remaining()), (4 | 2, 1) | (2, 0)), "{seen:?}");
            0
        });
        let charges = limiter.clone();
        let changes: Run = Box::new(move || {
            charges.change().to(TWO).inherit(Inherit::AsIs).apply().expect("the model's quota is valid");
            assert!(charges.check(&X).is_allowed());
            0
        });
        assert_eq!(admitted([changes, looks]), 0);
    });
}
