//! Debits of one limit.

use std::time::Duration;

use tollgate::Inherit::{Additive, AsIs, Proportional};
use tollgate::{
    BuildError, DebitError, FixedWindow, LeakyBucket, Limiter, ManualClock, Quota, Rate, SlidingLog,
    SlidingWindow, Timestamp, TokenBucket,
};

use super::{every, limiter, seconds};

/// Every algorithm but the log.
fn keeping_debts() -> Vec<Quota> {
    every().into_iter().filter(|quota| !matches!(quota, Quota::SlidingLog(_))).collect()
}

fn is_a_bucket(quota: &Quota) -> bool {
    matches!(quota, Quota::TokenBucket(_) | Quota::LeakyBucket(_)) || quota.is_by_intervals()
}

#[test]
fn a_debit_is_paid_before_the_next_check() {
    for quota in keeping_debts().into_iter().filter(|quota| is_a_bucket(quota) && !quota.is_by_intervals()) {
        let (limiter, clock) = limiter(quota);
        assert!(limiter.check_n(1, 4).is_allowed());
        let debit = limiter.account(1).debit(31).unwrap();
        assert_eq!((debit.is_allowed(), debit.cost(), debit.remaining()), (true, 31, 0), "{quota}");
        // 25 of 35 units are above the burst, and one more is asked for.
        let wait = limiter.check(1).retry_after().unwrap();
        assert_eq!(wait, Duration::from_millis(2_600), "{quota}");
        clock.advance(wait - Duration::from_nanos(1));
        assert!(!limiter.check(1).is_allowed(), "{quota}");
        clock.advance(Duration::from_nanos(1));
        assert!(limiter.check(1).is_allowed() && !limiter.check(1).is_allowed(), "{quota}");
    }
}

#[test]
fn intervals_pay_a_debit_by_their_refills() {
    for quota in keeping_debts().into_iter().filter(Quota::is_by_intervals) {
        let (limiter, clock) = limiter(quota);
        assert!(limiter.check_n(1, 4).is_allowed());
        assert_eq!(limiter.account(1).debit(31).unwrap().cost(), 31, "{quota}");
        // Three refills of ten leave five of 35 units.
        let wait = limiter.check(1).retry_after().unwrap();
        let late = wait.checked_sub(seconds(3)).unwrap();
        assert!(late < Duration::from_nanos(3 * 2 * limiter.resolution().tick), "{quota}: {wait:?}");
        clock.advance(wait - Duration::from_nanos(1));
        assert!(!limiter.check(1).is_allowed(), "{quota}");
        clock.advance(Duration::from_nanos(1));
        assert_eq!(limiter.check(1).remaining(), 4, "{quota}");
    }
}

#[test]
fn a_window_counts_a_debit_over_its_limit() {
    let rate = Rate::per_second(10);
    // When a request of ten is admitted again, in quarters of a second.
    let windows: [(Quota, u64); 4] = [
        (FixedWindow::new(rate).into(), 4),
        // Its ticks end a few nanoseconds after the second.
        (FixedWindow::new(rate).from_first_hit().into(), 5),
        (SlidingWindow::new(rate).into(), 8),
        (SlidingWindow::new(rate).subwindows(4).into(), 5),
    ];
    for (quota, quarters) in windows {
        let (limiter, _) = limiter(quota);
        assert_eq!(limiter.account(1).debit(13).unwrap().cost(), 13, "{quota}");
        let admits = |quarter: u64| {
            let now = Timestamp::ZERO + Duration::from_millis(250 * quarter);
            limiter.account(1).at(now).peek_n(10).is_allowed()
        };
        assert_eq!((0..20).find(|&quarter| admits(quarter)), Some(quarters), "{quota}");
    }
}

#[test]
fn a_debit_charges_as_far_as_the_word_has_room() {
    let years = |years: u64| Timestamp::ZERO + seconds(years * 31_557_600);
    let coarse = Quota::from(TokenBucket::new(Rate::new(999_983, seconds(1))).burst(1_000_000));
    for quota in keeping_debts().into_iter().chain([coarse]) {
        for now in [years(0), years(5), years(500), Timestamp::from_nanos(u64::MAX)] {
            let (limiter, _) = limiter(quota);
            let all = limiter.account(1).at(now);
            let first = all.debit(u64::MAX).unwrap();
            assert!(first.is_allowed() && (10..u64::MAX >> 2).contains(&first.cost()), "{quota}: {first:?}");
            if !is_a_bucket(&quota) {
                assert_eq!(first.cost(), limiter.resolution().ceiling, "{quota}");
            }
            let next = all.debit(u64::MAX).unwrap();
            assert_eq!((next.is_allowed(), next.cost(), next.remaining()), (true, 0, 0), "{quota}");
            assert_eq!(next.receipt().left(), 0, "{quota}");
            assert!(!all.check().is_allowed() && !all.check_up_to(5).is_allowed(), "{quota}");
            assert!(all.check().retry_after().is_some() && all.peek_n(0).is_allowed(), "{quota}");
            assert!(limiter.check_n(2, 10).is_allowed(), "{quota}: another key's debt is its own");
        }
    }
}

#[test]
fn a_log_keeps_no_debt_above_its_limit() {
    let (limiter, _) = limiter(SlidingLog::new(Rate::per_second(10)));
    for cost in [0, 1, 11] {
        assert_eq!(limiter.account(1).debit(cost).map(|debit| debit.cost()), Err(DebitError::NoDebt));
    }
    assert_eq!(limiter.usage().live_keys, 0);
}

#[test]
fn a_debit_of_nothing_changes_nothing() {
    for quota in keeping_debts() {
        let (limiter, _) = limiter(quota);
        let nothing = limiter.account(1).debit(0).unwrap();
        assert_eq!((nothing.is_allowed(), nothing.cost(), nothing.remaining()), (true, 0, 10), "{quota}");
        assert_eq!(limiter.usage().live_keys, 0, "{quota}");
    }
}

#[test]
fn a_debit_gives_back_by_its_receipt() {
    for quota in keeping_debts() {
        let (limiter, _) = limiter(quota);
        assert!(limiter.check_n(1, 6).is_allowed());
        let mut receipt = limiter.account(1).debit(9).unwrap().receipt();
        assert_eq!(receipt.left(), 9, "{quota}");
        assert_eq!(limiter.refund_part(&mut receipt, 4), 4, "{quota}");
        assert_eq!(limiter.account(1).at(limiter.now()).peek_n(0).remaining(), 0, "{quota}: 11 of 10");
        assert_eq!(limiter.refund_part(&mut receipt, 9), 5, "{quota}");
        assert_eq!(limiter.account(1).at(limiter.now()).peek_n(0).remaining(), 4, "{quota}");
    }
}

/// A debit has used its units already, and no later request rests on it.
#[test]
fn a_debit_takes_nothing_from_later_refunds() {
    let (limiter, _) = limiter(TokenBucket::new(Rate::per_second(10)).burst(4));
    assert!(limiter.account(2).debit(9).is_ok());
    let (first, second) = (limiter.check(1), limiter.check_n(1, 2));
    let debit = limiter.account(1).debit(9).unwrap();
    assert_eq!([first, second, debit].map(|charged| limiter.refund(charged)), [1, 2, 9]);
    assert!(limiter.check_n(1, 4).is_allowed());
}

#[test]
fn a_reset_forgives_a_debit_and_ends_its_receipt() {
    for quota in keeping_debts() {
        let (limiter, _) = limiter(quota);
        let debit = limiter.account(1).debit(25).unwrap();
        assert!(limiter.account(1).reset());
        assert_eq!(limiter.refund(debit), 0, "{quota}");
        assert!(limiter.check_n(1, 10).is_allowed(), "{quota}");
    }
}

#[test]
fn a_debit_outlives_a_change_of_the_quota() {
    for inherit in [AsIs, Proportional, Additive] {
        for quota in
            [Quota::from(TokenBucket::new(Rate::per_second(10))), FixedWindow::new(Rate::per_hour(10)).into()]
        {
            let (limiter, _) = limiter(quota);
            let debit = limiter.account(1).debit(35).unwrap();
            limiter.change().to(quota).inherit(inherit).apply().unwrap();
            let refused = limiter.check(1);
            if is_a_bucket(&quota) {
                assert_eq!(refused.retry_after(), Some(Duration::from_millis(2_600)), "{inherit:?}");
            }
            assert!(!refused.is_allowed(), "{quota}, {inherit:?}");
            // The debt of 35 and 15 more are of the new version.
            assert_eq!(limiter.account(1).debit(15).unwrap().cost(), 15, "{quota}, {inherit:?}");
            assert_eq!(limiter.refund(debit), 0, "{quota}, {inherit:?}");
            if is_a_bucket(&quota) {
                assert_eq!(limiter.check(1).retry_after(), Some(Duration::from_millis(4_100)), "{inherit:?}");
            }
        }
    }
}

/// A change needs room for the time until which a key is booked. Seven grains a nanosecond leave a
/// word twenty years.
#[test]
fn a_debit_to_the_end_of_time_leaves_no_change() {
    let quota = TokenBucket::new(Rate::per_second(7));
    let (limiter, _) = limiter(quota);
    assert!(limiter.account(1).debit(1_000_000).unwrap().cost() == 1_000_000);
    assert!(limiter.change().to(Quota::from(quota)).inherit(Additive).apply().is_ok());
    assert!(limiter.account(1).debit(u64::MAX).is_ok());
    assert_eq!(
        limiter.change().to(Quota::from(quota)).inherit(Additive).apply(),
        Err(BuildError::ChangedTooOften)
    );
    assert!(limiter.check(2).is_allowed() && !limiter.check(1).is_allowed());
}

#[test]
fn a_restored_limiter_remembers_a_debit() {
    for quota in keeping_debts() {
        let (limiter, _) = limiter(quota);
        assert!(limiter.account(1).debit(55).is_ok());
        let wait = limiter.check(1).retry_after();
        let mut file = Vec::new();
        limiter.save(&mut file).unwrap();
        let again = Limiter::builder(quota).per::<u64>().clock(ManualClock::new());
        let again = again.max_keys(100).restore(&file[..]).unwrap();
        assert_eq!(again.check(1).retry_after(), wait, "{quota}");
    }
}

/// A debit is late; the next departs behind it.
#[test]
fn a_queue_departs_behind_a_debit() {
    let (limiter, clock) = limiter(LeakyBucket::queue(Rate::per_second(10)).capacity(5));
    assert_eq!(limiter.account(1).debit(8).unwrap().cost(), 8);
    assert_eq!(limiter.check(1).retry_after(), Some(Duration::from_millis(400)));
    clock.advance(Duration::from_millis(400));
    assert_eq!(limiter.check(1).delay(), Duration::from_millis(400));
}

/// The word is of the last window that there is, and the clock has stepped back.
#[test]
fn the_last_window_counts_a_debit_before_it() {
    let quota = FixedWindow::new(Rate::per_second(10));
    let (limiter, _) = limiter(quota);
    let last = limiter.account(1).at(Timestamp::from_nanos(u64::MAX));
    assert_eq!(last.debit(3).unwrap().cost(), 3);
    assert_eq!(limiter.account(1).debit(3).unwrap().cost(), 3);
    assert_eq!(limiter.account(1).check_up_to(5).cost(), 4);
    let several = tollgate::Limiter::builder([quota, quota]).per::<u64>().clock(ManualClock::new());
    let several = several.build().unwrap();
    assert!(several.account(1).at(Timestamp::from_nanos(u64::MAX)).check().is_allowed());
    assert_eq!(several.account(1).debit(3).unwrap().cost(), 3);
    assert_eq!(several.account(1).check_up_to(9).cost(), 6);
}
