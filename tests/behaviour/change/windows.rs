//! Changes of windows.

use std::time::Duration;

use tollgate::Inherit::{Additive, AsIs, Proportional, Reset};
use tollgate::{
    BuildError, FixedWindow, Inherit, Limiter, ManualClock, Quota, Rate, SlidingLog, SlidingWindow, WhenFull,
};

use super::{SECOND, at, global, keyed, left, per};

const ALL: [Inherit; 4] = [AsIs, Proportional, Additive, Reset];

fn fixed(limit: u64, nanos: u64) -> FixedWindow {
    FixedWindow::new(per(limit, nanos))
}

#[test]
fn a_fixed_window_inherits_by_all_meanings() {
    for (inherit, known, unknown) in
        [(AsIs, 6, 10), (Proportional, 15, 25), (Additive, 21, 25), (Reset, 25, 25)]
    {
        let (limiter, clock) = keyed(fixed(10, SECOND));
        clock.set(at(SECOND / 2));
        assert!(limiter.check_n(7, 4).is_allowed());
        limiter.change().to(fixed(25, SECOND)).inherit(inherit).apply().unwrap();
        assert_eq!((left(&limiter, 7), left(&limiter, 8)), (known, unknown), "{inherit:?}");
        for (key, left) in [(7, known), (8, unknown)] {
            assert!(
                limiter.check_n(key, left).is_allowed() && !limiter.check(key).is_allowed(),
                "{inherit:?}"
            );
        }
        clock.set(at(SECOND));
        assert_eq!((left(&limiter, 7), left(&limiter, 8), left(&limiter, 9)), (25, 25, 25), "{inherit:?}");
    }
}

#[test]
fn a_fixed_window_shrinks_and_never_underflows() {
    for (inherit, known, unknown) in [(AsIs, 1, 5), (Proportional, 0, 5), (Additive, 0, 5), (Reset, 5, 5)] {
        let (limiter, clock) = keyed(fixed(10, SECOND));
        assert!(limiter.check_n(7, 9).is_allowed());
        limiter.change().to(fixed(5, SECOND)).inherit(inherit).apply().unwrap();
        assert_eq!((left(&limiter, 7), left(&limiter, 8)), (known, unknown), "{inherit:?}");
        clock.set(at(SECOND));
        assert_eq!((left(&limiter, 7), left(&limiter, 8)), (5, 5), "{inherit:?}");
    }
}

#[test]
fn a_fixed_window_may_change_its_period() {
    let (hour, minute, second) = (fixed(100, 3_600 * SECOND), fixed(20, 60 * SECOND), fixed(5, SECOND));
    let (limiter, clock) = keyed(second);
    clock.set(at(90 * SECOND));
    assert!(limiter.check_n(7, 2).is_allowed());
    limiter.change().to(minute).inherit(AsIs).apply().unwrap();
    assert_eq!((left(&limiter, 7), left(&limiter, 8)), (3, 5));
    assert_eq!(limiter.check_n(7, 4).retry_after(), Some(Duration::from_secs(30)));
    clock.set(at(120 * SECOND));
    assert!(limiter.check_n(7, 20).is_allowed());
    limiter.change().to(hour).inherit(Additive).apply().unwrap();
    assert_eq!((left(&limiter, 7), left(&limiter, 8)), (80, 100));
    assert_eq!(limiter.check_n(7, 81).retry_after(), Some(Duration::from_secs(3_600 - 120)));
    limiter.change().to(second).inherit(Proportional).apply().unwrap();
    assert_eq!((left(&limiter, 7), left(&limiter, 8)), (4, 5));
    clock.set(at(121 * SECOND));
    assert_eq!(left(&limiter, 7), 5);
}

/// The counts of past windows are forgotten, and the changes with them.
#[test]
fn a_fixed_window_allows_changes_while_windows_pass() {
    let (limiter, clock) = global(fixed(10, SECOND));
    for turn in 1..=2_000 {
        clock.set(at(turn * 2 * SECOND));
        assert!(limiter.check_n((), 10).is_allowed());
        limiter.change().to(fixed(10, SECOND)).inherit(AsIs).apply().unwrap();
        assert!(!limiter.check(()).is_allowed());
    }
}

#[test]
fn windows_stay_aligned_to_the_unix_epoch() {
    let clock = ManualClock::starting_at(Duration::from_secs(59));
    let limiter = Limiter::builder(fixed(2, SECOND)).per::<u64>().clock(clock.clone()).build().unwrap();
    limiter.change().to(fixed(2, 60 * SECOND)).inherit(Reset).apply().unwrap();
    assert!(limiter.check_n(7, 2).is_allowed());
    assert_eq!(limiter.check(7).retry_after(), Some(Duration::from_secs(1)));
    clock.set(at(SECOND));
    assert!(limiter.check_n(7, 2).is_allowed());
}

#[test]
fn retry_after_is_exact_after_a_window_changes() {
    for inherit in ALL {
        let (limiter, clock) = keyed(fixed(10, 1_000));
        clock.set(at(1_300));
        assert!(limiter.check_n(7, 9).is_allowed());
        limiter.change().to(fixed(8, 700)).inherit(inherit).apply().unwrap();
        while limiter.check(7).is_allowed() {}
        let wait = u64::try_from(limiter.check(7).retry_after().unwrap().as_nanos()).unwrap();
        assert!(!limiter.account(7).at(at(1_300 + wait - 1)).check().is_allowed());
        assert!(limiter.account(7).at(at(1_300 + wait)).check().is_allowed());
        assert_eq!((1_300 + wait) % 700, 0);
    }
}

#[test]
fn a_windows_time_before_a_change_is_the_change() {
    let (limiter, clock) = keyed(fixed(10, 1_000));
    clock.set(at(5_500));
    assert!(limiter.check_n(7, 10).is_allowed());
    limiter.change().to(fixed(20, 1_000)).inherit(AsIs).apply().unwrap();
    assert!(!limiter.account(7).at(at(0)).check().is_allowed());
    assert_eq!(limiter.account(7).at(at(4_000)).check().retry_after(), Some(Duration::from_nanos(2_000)));
    assert_eq!(limiter.account(8).at(at(0)).peek_n(0).remaining(), 10);
}

#[test]
fn a_window_that_began_anew_owes_nothing_to_refunds() {
    let (limiter, clock) = keyed(fixed(10, SECOND));
    let taken = limiter.check_n(7, 10);
    limiter.change().to(fixed(20, SECOND)).inherit(AsIs).apply().unwrap();
    clock.advance(Duration::from_secs(1));
    assert_eq!((limiter.refund(taken), left(&limiter, 7)), (0, 20));
}

#[test]
fn a_window_refunds_over_a_change() {
    let (limiter, clock) = keyed(fixed(10, SECOND));
    assert!(limiter.check_n(7, 4).is_allowed());
    let taken = limiter.check_n(7, 3);
    limiter.change().to(fixed(20, SECOND)).inherit(Additive).apply().unwrap();
    assert_eq!(limiter.refund(taken), 3);
    assert_eq!(left(&limiter, 7), 16);
    let taken = limiter.check_n(7, 3);
    assert_eq!(limiter.refund(taken), 3);
    let taken = limiter.check_n(7, 3);
    clock.set(at(SECOND));
    assert_eq!(limiter.refund(taken), 0);
}

#[test]
fn a_full_bucket_of_windows_forgets_nothing_over_a_change() {
    for (inherit, limit) in
        [(AsIs, 100), (AsIs, 20), (AsIs, 5), (Additive, 20), (Proportional, 30), (Proportional, 5)]
    {
        let clock = ManualClock::new();
        let builder = Limiter::builder(fixed(10, SECOND)).per::<u64>().max_keys(1);
        let limiter = builder.when_full(WhenFull::Share).clock(clock).build().unwrap();
        let ask = |cost| -> Vec<u64> {
            (0..200).map(|key| if limiter.check_n(key, cost).is_allowed() { cost } else { 0 }).collect()
        };
        let before: Vec<u64> = [1, 2, 3].map(ask).into_iter().reduce(add).unwrap();
        limiter.change().to(fixed(limit, SECOND)).inherit(inherit).apply().unwrap();
        let after: Vec<u64> = [30, 1, 1, 2, 4, 1].map(ask).into_iter().reduce(add).unwrap();
        for (before, after) in before.into_iter().zip(after) {
            let had = 10 - before;
            let carried = match inherit {
                Inherit::AsIs => had.min(limit),
                Inherit::Proportional => had * limit / 10,
                _ => (had + limit).saturating_sub(10),
            };
            assert!(after <= carried, "{inherit:?} to {limit}: {after} after {before}");
        }
    }
}

fn add(sums: Vec<u64>, more: Vec<u64>) -> Vec<u64> {
    sums.into_iter().zip(more).map(|(sum, more)| sum + more).collect()
}

#[test]
fn a_sliding_window_changes_its_limit_and_keeps_its_counts() {
    for quota in [SlidingWindow::new(per(10, SECOND)), SlidingWindow::new(per(10, SECOND)).subwindows(4)] {
        let limit = |count| {
            let new = SlidingWindow::new(per(count, SECOND));
            if quota == SlidingWindow::new(per(10, SECOND)) { new } else { new.subwindows(4) }
        };
        let (limiter, clock) = keyed(quota);
        assert!(limiter.check_n(7, 8).is_allowed());
        limiter.change().to(limit(4)).inherit(Additive).apply().unwrap();
        assert_eq!((left(&limiter, 7), left(&limiter, 8)), (0, 4));
        limiter.change().to(limit(9)).inherit(Additive).apply().unwrap();
        assert_eq!(left(&limiter, 7), 1);
        let refused = |error| Err(BuildError::CannotInherit { field: error });
        assert_eq!(limiter.change().to(limit(5)).inherit(AsIs).apply(), refused("inherit"));
        // With the same limit, every policy but `Reset` keeps the debt.
        assert_eq!(limiter.change().to(limit(9)).inherit(Reset).apply(), refused("inherit"));
        for stays in [AsIs, Proportional, Additive] {
            limiter.change().to(limit(9)).inherit(stays).apply().unwrap();
        }
        assert_eq!(left(&limiter, 7), 1);
        assert_eq!(
            limiter.change().to(SlidingWindow::new(per(9, SECOND)).subwindows(3)).inherit(Additive).apply(),
            refused("subwindows")
        );
        clock.set(at(3 * SECOND));
        assert_eq!(left(&limiter, 7), 9);
    }
    let (limiter, _) = keyed(SlidingWindow::new(per(10, SECOND)));
    let other = limiter.change().to(SlidingWindow::new(per(10, 2 * SECOND))).inherit(Additive).apply();
    assert_eq!(other, Err(BuildError::CannotInherit { field: "rate.period" }));
}

#[test]
fn a_change_that_cannot_inherit_says_what_works() {
    let (limiter, _) = keyed(Quota::from(SlidingWindow::new(per(10, SECOND))));
    let window = |count, length| Quota::from(SlidingWindow::new(per(count, length)));
    let says = |quota, inherit, works: &str| {
        let message = limiter.change().to(quota).inherit(inherit).apply().unwrap_err().to_string();
        assert!(message.contains(works), "{message}");
    };
    says(window(9, SECOND), AsIs, "under another inherit: Inherit::Additive works");
    limiter.change().to(window(9, SECOND)).inherit(Additive).apply().unwrap();
    says(window(9, SECOND), Reset, "and AsIs and Proportional if the limit stays");
    limiter.change().to(window(9, SECOND)).inherit(AsIs).apply().unwrap();
    limiter.change().to(window(9, SECOND)).inherit(Proportional).apply().unwrap();
    says(window(9, 2 * SECOND), Additive, "under another rate.period: leave it as it is");
    says(FixedWindow::new(per(9, SECOND)).into(), Additive, "give a quota of the same algorithm");
}

#[test]
fn a_log_changes_its_limit_within_its_ring() {
    let log = |count| SlidingLog::new(Rate::per_second(count));
    let (limiter, clock) = global(log(10));
    assert!(limiter.check_n((), 6).is_allowed());
    clock.set(at(SECOND / 2));
    assert!(limiter.check_n((), 2).is_allowed());
    limiter.change().to(log(5)).inherit(Additive).apply().unwrap();
    assert_eq!(limiter.account(()).at(limiter.now()).peek_n(0).remaining(), 0);
    assert_eq!(limiter.check(()).retry_after(), Some(Duration::from_nanos(SECOND / 2)));
    clock.set(at(SECOND));
    assert_eq!(limiter.account(()).at(limiter.now()).peek_n(0).remaining(), 3);
    limiter.change().to(log(10)).inherit(Additive).apply().unwrap();
    assert_eq!(limiter.account(()).at(limiter.now()).peek_n(0).remaining(), 8);
    let longer = limiter.change().to(log(11)).inherit(Additive).apply();
    assert!(matches!(longer, Err(BuildError::OutOfRange { field: "rate.count", max: 10, .. })), "{longer:?}");
    let reset = limiter.change().to(log(9)).inherit(Reset).apply();
    assert_eq!(reset, Err(BuildError::CannotInherit { field: "inherit" }));
    assert!(limiter.check_n((), 8).is_allowed() && !limiter.check(()).is_allowed());
}
