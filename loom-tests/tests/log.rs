//! The sliding log's ring: propose, then win the head.
#![cfg(loom)]

use std::sync::Arc;

use loom_tests::{Run, X, Y, Z, admitted, at, explore, limiter, take, tick};
use tollgate::{CountPolicy, Limiter, ManualClock, Rate, SlidingLog, WhenFull};

/// Two in any second.
const TWO: SlidingLog = SlidingLog::new(Rate::per_second(2));

/// One of two was charged: of two charges at once, one is admitted.
#[test]
fn a_log_admits_its_limit_and_no_more() {
    explore(Some(3), || {
        let (limiter, _) = limiter(TWO, WhenFull::Deny);
        assert!(limiter.check(&X).is_allowed());
        let threads = [take(&limiter, &[(X, 1)], X), take(&limiter, &[(X, 1)], X)];
        assert_eq!(admitted(threads), 1);
    });
}

/// The first charges of a limit for everything come at once: there is one ring for them.
#[test]
fn a_log_for_everything_is_exact_from_the_first_charge() {
    for count in [CountPolicy::Allowed, CountPolicy::All] {
        explore(Some(2), move || {
            let one = SlidingLog::new(Rate::per_second(1)).count(count);
            let limiter = Arc::new(Limiter::builder(one).clock(ManualClock::new()).build().unwrap());
            let take = || -> Run {
                let limiter = limiter.clone();
                Box::new(move || limiter.account(()).check().is_allowed().into())
            };
            assert_eq!(admitted([take(), take()]), 1);
        });
    }
}

/// Three threads, one of them with a cost of two.
#[test]
fn a_log_takes_a_cost_whole_or_not_at_all() {
    explore(Some(2), || {
        let (limiter, clock) = limiter(TWO, WhenFull::Deny);
        assert!(limiter.check(&X).is_allowed());
        clock.set(at(1));
        let threads =
            [take(&limiter, &[(X, 2)], X), take(&limiter, &[(X, 1)], X), take(&limiter, &[(X, 1)], X)];
        assert_eq!(admitted(threads), 2);
    });
}

/// A moving clock: two at one tick and two at the next.
#[test]
fn a_log_under_a_moving_clock_admits_two_a_window() {
    explore(Some(2), || {
        let (limiter, clock) = limiter(TWO, WhenFull::Deny);
        assert!(limiter.check_n(&X, 2).is_allowed());
        let threads =
            [take(&limiter, &[(X, 1), (X, 1)], X), take(&limiter, &[(X, 2)], X), tick(&clock, &[1])];
        assert!(admitted(threads) <= 2);
    });
}

/// The slot's last owner is reset while another key enters it.
#[test]
fn a_reset_takes_no_entry_of_the_slots_new_owner() {
    explore(Some(3), || {
        let (limiter, clock) = limiter(TWO, WhenFull::Deny);
        assert!(limiter.check(&X).is_allowed());
        clock.set(at(2));
        assert!(limiter.check(&Z).is_allowed());
        clock.set(at(3));
        let resetting = limiter.clone();
        let reset: Run = Box::new(move || {
            resetting.account(&X).reset();
            0
        });
        // The other way round loom never lets the time be proposed before the reset reads the ring.
        let threads = [take(&limiter, &[(Y, 1)], Y), reset];
        let first = admitted(threads);
        let rest = (0..3).filter(|_| limiter.check(&Y).is_allowed()).count();
        assert_eq!(first + rest as u64, 2, "whatever it was admitted beside the reset is in its ring");
    });
}

/// The ring's slot is recycled under a charge of its last owner.
#[test]
fn a_recycled_ring_loses_no_entry_of_its_new_owner() {
    explore(Some(2), || {
        let (limiter, clock) = limiter(TWO, WhenFull::Deny);
        assert!(limiter.check_n(&X, 2).is_allowed() && limiter.check_n(&Z, 1).is_allowed());
        // The log knows to within one step of its word that it ran out: a step later both slots are
        // vacant.
        clock.set(at(3));
        let threads = [take(&limiter, &[(X, 1)], Y), take(&limiter, &[(Y, 1), (Y, 2), (Y, 1), (Y, 1)], Y)];
        assert_eq!(admitted(threads), 2);
    });
}
