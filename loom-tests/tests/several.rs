//! Several limits on one key: all or nothing in every interleaving.
#![cfg(loom)]

use std::sync::Arc;

use loom_tests::{Named, Run, X, admitted, at, explore};
use tollgate::{FixedWindow, ManualClock, MultiLimiter, Quota, Rate, SlidingLog, TokenBucket, WhenFull};

type Shared = Arc<MultiLimiter<Named, ManualClock>>;

/// So many a second, in a bucket.
fn bucket(count: u64) -> Quota {
    TokenBucket::new(Rate::per_second(count)).into()
}

/// So many a second, in a window.
fn window(count: u64) -> Quota {
    FixedWindow::new(Rate::per_second(count)).into()
}

fn limiter<const N: usize>(quotas: [Quota; N]) -> (Shared, ManualClock) {
    let clock = ManualClock::new();
    let builder = MultiLimiter::builder(quotas).max_keys(1).when_full(WhenFull::Deny).clock(clock.clone());
    (Arc::new(builder.build().expect("the model's quotas are valid")), clock)
}

/// Asks for `cost` of X.
fn take(limiter: &Shared, cost: u64) -> Run {
    let limiter = limiter.clone();
    Box::new(move || if limiter.check_n(&X, cost).is_allowed() { cost } else { 0 })
}

/// What X has left of each limit.
fn left(limiter: &Shared) -> Vec<u64> {
    limiter.peek_n_at(&X, 0, limiter.now()).parts().map(|part| part.remaining()).collect()
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

/// The same while the key is inserted into both tables.
#[test]
fn a_race_to_insert_the_key_charges_each_limit_once() {
    explore(Some(1), || {
        let (limiter, _) = limiter([bucket(2), bucket(1)]);
        assert_eq!(admitted([take(&limiter, 1), take(&limiter, 1)]), 1);
        assert_eq!(left(&limiter), [1, 0]);
    });
}

/// Both look at one unit of the window. The log, named first, is charged last: it could not undo the older of two.
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

/// Costs of which one fits: whoever wins, nobody is admitted in part.
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
