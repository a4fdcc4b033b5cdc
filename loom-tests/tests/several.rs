//! Several limits on one key: all or nothing in every interleaving.
#![cfg(loom)]

use std::sync::Arc;

use loom_tests::{Named, Run, X, admitted, at, explore};
use tollgate::{
    FixedWindow, Inherit, Limiter, ManualClock, Outcome, Quota, Rate, SlidingLog, TokenBucket, WhenFull, together,
};

type Shared<const N: usize> = Arc<Limiter<Named, Quota, N, ManualClock>>;

/// So many a second, in a bucket.
fn bucket(count: u64) -> Quota {
    TokenBucket::new(Rate::per_second(count)).into()
}

/// So many a second, in a window.
fn window(count: u64) -> Quota {
    FixedWindow::new(Rate::per_second(count)).into()
}

fn limiter<const N: usize>(quotas: [Quota; N]) -> (Shared<N>, ManualClock) {
    let clock = ManualClock::new();
    let builder = Limiter::builder(quotas).per().max_keys(1).when_full(WhenFull::Deny).clock(clock.clone());
    (Arc::new(builder.build().expect("the model's quotas are valid")), clock)
}

/// Asks for `cost` of X.
fn take<const N: usize>(limiter: &Shared<N>, cost: u64) -> Run {
    let limiter = limiter.clone();
    Box::new(move || if limiter.check_n(&X, cost).is_allowed() { cost } else { 0 })
}

/// What X has left of each limit.
fn left<const N: usize>(limiter: &Shared<N>) -> Vec<u64> {
    limiter.account(&X).at(limiter.now()).peek_n(0).parts().map(|part| part.remaining()).collect()
}

/// Both look at one unit of the second limit, and both charge the first: one gives it back.
#[test]
fn a_race_for_the_last_unit_charges_each_limit_once() {
    explore(None, || {
        let (limiter, _) = limiter([bucket(3), bucket(2)]);
        assert!(limiter.check_n(&X, 1).is_allowed());
        assert_eq!(admitted([take(&limiter, 1), take(&limiter, 1)]), 1);
        assert_eq!(left(&limiter), [1, 0]);
    });
}

/// The same by two limiters, whose offers are charged together.
#[test]
fn offers_that_race_charge_each_limiter_once() {
    explore(None, || {
        let ((three, _), (two, _)) = (limiter([bucket(3)]), limiter([bucket(2)]));
        assert!(three.check_n(&X, 1).is_allowed() && two.check_n(&X, 1).is_allowed());
        let take = || -> Run {
            let (three, two) = (three.clone(), two.clone());
            Box::new(move || {
                let outcome = together(&mut [three.account(&X).offer(1), two.account(&X).offer(1)]);
                u64::from(outcome == Outcome::Allowed)
            })
        };
        assert_eq!(admitted([take(), take()]), 1);
        assert_eq!((left(&three), left(&two)), (vec![1], vec![0]));
    });
}

/// A change of quota between an offer and its charge: admitted by the quota of the offer, or
/// decided by the new one.
#[test]
fn an_offer_and_a_change_lose_no_debt() {
    explore(None, || {
        let (shared, _) = limiter([bucket(4)]);
        assert!(shared.check_n(&X, 1).is_allowed());
        let (taking, changing) = (shared.clone(), shared.clone());
        let admitted = admitted([
            Box::new(move || {
                let mut offer = taking.account(&X).offer(2);
                if offer.take() == Outcome::Allowed { 2 } else { 0 }
            }),
            Box::new(move || {
                changing.change().to([bucket(2)]).inherit(Inherit::Additive).apply().expect("it is a small change");
                0
            }),
        ]);
        assert_eq!(left(&shared), [if admitted == 2 { 0 } else { 1 }]);
    });
}

/// The same while the key is inserted into both tables.
#[test]
fn a_race_to_insert_the_key_charges_each_limit_once() {
    explore(Some(1), || {
        let (limiter, _) = limiter([bucket(2), bucket(1)]);
        assert_eq!(admitted([take(&limiter, 1), take(&limiter, 1)]), 1);
        assert_eq!(left(&limiter), [1, 0]);
    });
}

/// Both look at one unit of the window. The log, named first, is charged last: it could not undo
/// the older of two.
#[test]
fn a_race_between_three_algorithms_charges_each_limit_once() {
    explore(Some(2), || {
        let log = SlidingLog::new(Rate::per_second(3));
        let (limiter, _) = limiter([log.into(), bucket(5), window(2)]);
        assert!(limiter.check_n(&X, 1).is_allowed());
        assert_eq!(admitted([take(&limiter, 1), take(&limiter, 1)]), 1);
        assert_eq!(left(&limiter), [1, 3, 0]);
    });
}

/// Costs of which one fits: whichever thread wins, no request is admitted in part.
#[test]
fn a_race_of_unequal_costs_is_all_or_nothing() {
    explore(Some(3), || {
        let (limiter, _) = limiter([window(4), bucket(3)]);
        assert!(limiter.check_n(&X, 1).is_allowed());
        let admitted = admitted([take(&limiter, 2), take(&limiter, 1)]);
        assert!(admitted == 2 || admitted == 1, "{admitted}");
        assert_eq!(left(&limiter), [3 - admitted, 2 - admitted]);
    });
}

/// Time moves while a charge is undone: the other gets no more than the bucket holds.
#[test]
fn an_undone_charge_mints_nothing_while_time_moves() {
    explore(Some(2), || {
        let (limiter, clock) = limiter([bucket(2), window(3)]);
        assert!(limiter.check_n(&X, 1).is_allowed());
        let later = take(&limiter, 2);
        let later: Run = Box::new(move || {
            clock.set(at(1));
            later()
        });
        let admitted = admitted([take(&limiter, 1), later]);
        // Two at second 1; or one at second 0, and what has come back by then.
        assert!(admitted <= 3, "{admitted}");
        assert!(left(&limiter)[0] <= 2);
    });
}

/// Other quotas for all limits.
fn change<const N: usize>(limiter: &Shared<N>, quotas: [Quota; N], inherit: Inherit) -> Run {
    let limiter = limiter.clone();
    Box::new(move || {
        limiter.change().to(quotas).inherit(inherit).apply().expect("the model's quotas are valid");
        0
    })
}

/// The same, and then a request for one.
fn change_and_take<const N: usize>(limiter: &Shared<N>, quotas: [Quota; N], inherit: Inherit) -> Run {
    let (change, take) = (change(limiter, quotas, inherit), take(limiter, 1));
    Box::new(move || change() + take())
}

/// A request over the change is decided by all of the old quotas or by all of the new ones.
#[test]
fn a_check_during_a_change_sees_one_version() {
    explore(Some(2), || {
        let (limiter, _) = limiter([bucket(4), window(3)]);
        assert!(limiter.check_n(&X, 1).is_allowed());
        let checks = limiter.clone();
        let checks: Run = Box::new(move || {
            let decision = checks.check(&X);
            let limits: Vec<u64> = decision.parts().map(|part| part.limit()).collect();
            assert!(limits == [4, 3] || limits == [5, 6], "{limits:?}: a mixture");
            u64::from(decision.is_allowed())
        });
        // There is room for both by either quotas: no check is refused for the change.
        let changes = change_and_take(&limiter, [bucket(5), window(6)], Inherit::Additive);
        assert_eq!(admitted([changes, checks]), 2);
        // What the check took of the bucket before the change overtook it may stay there, and then
        // only there.
        let left = left(&limiter);
        assert!((1..=2).contains(&left[0]) && left[1] == 3, "{left:?}");
    });
}

/// Charges in flight over the change: no available token is granted twice, by either
/// limit.
#[test]
fn a_change_under_charges_admits_what_was_there() {
    explore(Some(2), || {
        let (limiter, _) = limiter([bucket(4), bucket(3)]);
        assert!(limiter.check_n(&X, 1).is_allowed());
        let twice = limiter.clone();
        let twice: Run = Box::new(move || (0..2).map(|_| u64::from(twice.check(&X).is_allowed())).sum());
        let taken = admitted([change(&limiter, [bucket(6), bucket(2)], Inherit::AsIs), twice]);
        // Two were left of the second limit, and two it is at the most afterwards.
        assert_eq!(taken + take(&limiter, 1)(), 2);
        assert_eq!(left(&limiter)[1], 0);
    });
}

/// A request that the second limit refuses for its new word gives back what it took of the first,
/// or leaves it there; it never takes less.
#[test]
fn an_overtaken_request_is_charged_once_or_refused() {
    explore(Some(2), || {
        let (limiter, _) = limiter([bucket(4), bucket(3)]);
        assert!(limiter.check_n(&X, 1).is_allowed());
        let changes = change_and_take(&limiter, [bucket(3), bucket(4)], Inherit::AsIs);
        let taken = admitted([changes, take(&limiter, 1)]);
        let left = left(&limiter);
        assert!(left[0] + taken <= 3 && left[1] + taken <= 2, "{left:?} after {taken}");
    });
}
