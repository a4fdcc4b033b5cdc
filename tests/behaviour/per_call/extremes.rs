//! The ends of every range: an error that names the value and the range, and charges nothing.

use std::time::Duration;

use tollgate::{BuildError, CallQuota, Rate, ReserveError, Timestamp};

use super::{MOST, any, builder, check, debt, limiter, nanos, peek};

/// The last nanosecond of the clock that counts: 109 years.
const LAST: u64 = (1 << 62) - 2 - MOST;

fn out_of_range(field: &'static str, value: u64, min: u64, max: u64) -> BuildError {
    BuildError::OutOfRange { field, value: value.into(), min: min.into(), max: max.into() }
}

#[test]
fn a_quota_out_of_range_is_an_error() {
    let period = |nanos| Duration::from_nanos(nanos);
    let new = |count, nanos, burst| CallQuota::new(Rate::new(count, period(nanos)), burst);
    assert_eq!(new(0, 9, 1).unwrap_err(), out_of_range("rate.count", 0, 1, 9));
    assert_eq!(new(10, 9, 1).unwrap_err(), out_of_range("rate.count", 10, 1, 9));
    assert_eq!(new(1, 0, 1).unwrap_err(), out_of_range("rate.period", 0, 1, MOST));
    assert_eq!(new(1, MOST + 1, 1).unwrap_err(), out_of_range("rate.period", MOST + 1, 1, MOST));
    assert_eq!(
        new(u64::MAX, u64::MAX, u64::MAX).unwrap_err(),
        out_of_range("rate.period", u64::MAX, 1, MOST)
    );
    let longest = CallQuota::new(Rate::new(1, Duration::MAX), 1).unwrap_err();
    assert!(matches!(longest, BuildError::OutOfRange { value, .. } if value == Duration::MAX.as_nanos()));
    assert_eq!(new(1, 9, 0).unwrap_err(), out_of_range("burst", 0, 1, MOST / 9));
    assert_eq!(new(1, 9, MOST / 9 + 1).unwrap_err(), out_of_range("burst", MOST / 9 + 1, 1, MOST / 9));
    assert!(new(1, MOST, 1).is_ok() && new(1, 9, MOST / 9).is_ok() && new(9, 9, MOST).is_ok());

    let raw = CallQuota::from_nanos;
    assert_eq!(raw(0, 5).unwrap_err(), out_of_range("emission", 0, 1, MOST));
    assert_eq!(raw(MOST + 1, u64::MAX).unwrap_err(), out_of_range("emission", MOST + 1, 1, MOST));
    assert_eq!(raw(5, 4).unwrap_err(), out_of_range("tolerance", 4, 5, MOST));
    assert_eq!(raw(5, u64::MAX).unwrap_err(), out_of_range("tolerance", u64::MAX, 5, MOST));
    assert!(raw(5, 4).unwrap_err().to_string().ends_with(" nanoseconds"));
    assert!(raw(1, MOST).is_ok() && raw(MOST, MOST).is_ok());
}

#[test]
fn a_limiter_out_of_range_is_an_error() {
    let small = || builder(any());
    assert!(matches!(small().max_keys(0).memory(), Err(BuildError::OutOfRange { field: "max_keys", .. })));
    assert!(matches!(small().max_keys(usize::MAX).memory(), Err(BuildError::OutOfRange { .. })));
    let error = small().max_keys(1 << 36).build().unwrap_err();
    assert!(matches!(error, BuildError::OverBudget { .. }), "{error}");
}

/// No product of a cost and an emission interval wraps around.
#[test]
fn a_cost_beyond_computing_is_never_admitted() {
    let (limiter, _) = limiter(100);
    for (emission, tolerance) in [(1, 1), (2, MOST), (3, 9), (MOST, MOST), (MOST - 1, MOST)] {
        let quota = nanos(emission, tolerance);
        let limit = tolerance / emission;
        for cost in [limit + 1, u64::MAX / emission, u64::MAX / 2 + 2, u64::MAX - 1, u64::MAX] {
            if cost > limit {
                assert!(check(&limiter, 7, &quota, cost).is_never());
                assert!(peek(&limiter, 7, &quota, cost).is_never());
                let turn = limiter.account(7).under(&quota).reserve(cost, Duration::MAX).map(drop);
                assert_eq!(turn, Err(ReserveError::Never { cost, limit }));
            }
        }
    }
    assert_eq!((limiter.usage().live_keys, limiter.stats().inserted), (0, 0), "nothing was charged");
    let quota = nanos(3, 10);
    assert_eq!(limiter.account(7).under(&quota).check_up_to(u64::MAX).cost(), 3);
    assert_eq!(debt(&limiter, 7), 9);
    assert_eq!(limiter.account(7).under(&quota).credit(u64::MAX), 3);
}

/// The largest tolerances leave the same room, at each time that the clock counts.
#[test]
fn the_largest_quota_is_exact_for_73_years() {
    let (limiter, clock) = limiter(100);
    let (large, small) = (nanos(1, MOST), nanos(1, 10));
    for now in [0, 1, 1 << 60, 1 << 61] {
        clock.set(Timestamp::from_nanos(now));
        limiter.account(7).reset();
        assert!(check(&limiter, 7, &large, MOST - 1).is_allowed());
        assert_eq!(check(&limiter, 7, &large, 2).retry_after(), Some(Duration::from_nanos(1)));
        assert!(check(&limiter, 7, &large, 1).is_allowed());
        assert_eq!(debt(&limiter, 7), MOST);
        assert_eq!(check(&limiter, 7, &small, 1).retry_after(), Some(Duration::from_nanos(MOST - 9)));
    }
}

#[test]
fn a_clock_at_its_end_admits_one_burst() {
    let (limiter, clock) = limiter(100);
    let quotas = [nanos(1, MOST), nanos(1, 10), nanos(10, 10), nanos(MOST, MOST)];
    let never = Some(Duration::from_nanos(u64::MAX));
    for now in [LAST, LAST + 1, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
        clock.set(Timestamp::from_nanos(now));
        for (key, quota) in (0..).zip(&quotas) {
            let limit = quota.quota().limit();
            let is_first = now == LAST;
            let decision = check(&limiter, key, quota, limit);
            assert_eq!(decision.is_allowed(), is_first, "{quota:?} at {now}");
            assert_eq!(check(&limiter, key, quota, 1).retry_after(), never);
            assert_eq!(limiter.account(key).under(quota).check_up_to(9).remaining(), 0);
        }
    }
}

/// A debit goes as far as the word has room, under the smallest tolerance and the largest.
#[test]
fn a_debit_of_a_call_fills_exactly_the_word() {
    for tolerance in [1, 10, MOST] {
        let (limiter, _) = limiter(100);
        let quota = nanos(1, tolerance);
        let key = limiter.account(7).under(&quota);
        assert_eq!(key.debit(u64::MAX).unwrap().cost(), LAST + tolerance);
        assert_eq!(key.debit(u64::MAX).unwrap().cost(), 0);
        assert!(!key.check().is_allowed());
        assert_eq!(key.credit(LAST + tolerance - 1), LAST + tolerance - 1);
        assert_eq!(debt(&limiter, 7), 1);
    }
}

/// No numbers panic, and none that is refused is charged.
#[test]
fn any_numbers_are_an_answer_or_an_error() {
    let numbers = [0, 1, 2, 1 << 31, MOST - 1, MOST, MOST + 1, LAST - 1, LAST, LAST + 1, 1 << 62, u64::MAX];
    let (limiter, clock) = limiter(1);
    for now in numbers {
        clock.set(Timestamp::from_nanos(now));
        for emission in numbers {
            for tolerance in numbers {
                let Ok(quota) = CallQuota::from_nanos(emission, tolerance) else { continue };
                let quota = quota.lend();
                for cost in numbers {
                    let key = now ^ emission.rotate_left(20) ^ cost.rotate_left(40);
                    let before = debt(&limiter, key);
                    let decision = check(&limiter, key, &quota, cost);
                    let (said, is_charged) = (format!("{decision:?}"), decision.is_allowed() && cost > 0);
                    assert!(is_charged || debt(&limiter, key) == before, "{said}");
                    limiter.refund(decision);
                    let key = limiter.account(key).under(&quota);
                    let _ = (key.debit(cost).map(|decision| format!("{decision:?}")), key.credit(cost));
                    let _ =
                        key.reserve(cost, Duration::from_nanos(tolerance)).map(tollgate::Reservation::cancel);
                    key.reset();
                }
            }
        }
    }
}
