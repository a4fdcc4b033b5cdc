//! The ends of every range: an error that names the value and the range, and charges nothing.

use std::time::Duration;

use tollgate::{BuildError, CallError, CallQuota, PerCallLimiter, Rate, Timestamp};

use super::{debt, limiter, nanos, wait};

const MOST: u64 = i64::MAX as u64;

/// The latest TAT.
const LAST: u64 = (1 << 62) - 2;

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
    let builder = || PerCallLimiter::<u64>::builder();
    assert!(matches!(builder().max_keys(0).build(), Err(BuildError::OutOfRange { field: "max_keys", .. })));
    assert!(matches!(builder().max_keys(usize::MAX).memory(), Err(BuildError::OutOfRange { .. })));
    let error = builder().max_keys(1 << 36).build().unwrap_err();
    assert!(matches!(error, BuildError::OverBudget { .. }), "{error}");
}

/// A cost that cannot be computed with is an error; one that can be is never admitted.
#[test]
fn a_cost_beyond_computing_is_an_error() {
    let (limiter, _) = limiter(100);
    for (emission, tolerance) in [(1, 1), (2, MOST), (3, 9), (MOST, MOST), (MOST - 1, MOST)] {
        let quota = nanos(emission, tolerance);
        let max = MOST / emission;
        for cost in [max + 1, u64::MAX / emission, u64::MAX / 2 + 2, u64::MAX - 1, u64::MAX] {
            let expected = CallError::CostOutOfRange { cost, max };
            if cost > max {
                assert_eq!(limiter.check(&7, quota, cost).unwrap_err(), expected);
                assert_eq!(limiter.peek(&7, quota, cost).unwrap_err(), expected);
            }
        }
        match limiter.peek(&7, quota, max) {
            Ok(most) => assert_eq!(most.is_never(), max > quota.limit(), "{quota:?}"),
            Err(error) => assert!(matches!(error, CallError::TatOutOfRange { .. }), "{error}"),
        }
    }
    assert_eq!((limiter.usage().live_keys, limiter.stats().inserted), (0, 0), "nothing was charged");
}

#[test]
fn a_tat_beyond_the_word_is_an_error() {
    let (limiter, clock) = limiter(100);
    let (large, small) = (nanos(1, MOST), nanos(1, 10));
    let beyond = |tat| CallError::TatOutOfRange { tat, max: LAST };
    assert_eq!(limiter.check(&7, large, LAST + 1).unwrap_err(), beyond(LAST + 1));
    assert_eq!(limiter.check(&7, large, MOST).unwrap_err(), beyond(MOST));
    assert_eq!(limiter.usage().live_keys, 0, "nothing was charged");
    assert!(limiter.check(&7, large, LAST - 1).unwrap().is_allowed());
    assert_eq!(limiter.check(&7, large, 2).unwrap_err(), beyond(LAST + 1));
    assert_eq!(limiter.peek(&7, large, 2).unwrap_err(), beyond(LAST + 1));
    assert_eq!(debt(&limiter, 7), LAST - 1);
    assert!(limiter.check(&7, large, 1).unwrap().is_allowed());
    assert_eq!(limiter.check(&7, large, 1).unwrap_err(), beyond(LAST + 1));
    assert_eq!(wait(&limiter.check(&7, small, 1).unwrap()), Some(LAST - 9), "a refusal goes before");

    // Near the end of time, and at it, where it stands still: nothing is charged.
    clock.set(Timestamp::from_nanos(LAST - 1));
    assert!(limiter.check(&8, small, 1).unwrap().is_allowed());
    assert_eq!(limiter.check(&9, small, 2).unwrap_err(), beyond(LAST + 1));
    for now in [LAST, LAST + 1, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
        clock.set(Timestamp::from_nanos(now));
        for key in [7, 8, 9] {
            for quota in [large, small, nanos(10, 10), nanos(MOST, MOST)] {
                let tat = LAST + u64::try_from(quota.emission().as_nanos()).unwrap();
                assert_eq!(limiter.check(&key, quota, 1).unwrap_err(), beyond(tat));
                let look = limiter.check(&key, quota, 0).unwrap();
                assert_eq!((look.remaining(), look.reset_after()), (quota.limit(), Duration::ZERO));
            }
        }
    }
}

/// No numbers panic or charge by an error.
#[test]
fn any_numbers_are_an_answer_or_an_error() {
    let numbers = [0, 1, 2, 1 << 31, LAST - 1, LAST, LAST + 1, 1 << 62, MOST - 1, MOST, 1 << 63, u64::MAX];
    let (limiter, clock) = limiter(1);
    for now in numbers {
        clock.set(Timestamp::from_nanos(now));
        for emission in numbers {
            for tolerance in numbers {
                let Ok(quota) = CallQuota::from_nanos(emission, tolerance) else { continue };
                for cost in numbers {
                    let key = now ^ emission.rotate_left(20) ^ cost.rotate_left(40);
                    let before = debt(&limiter, key);
                    match limiter.check(&key, quota, cost) {
                        Ok(mut decision) => {
                            let _ = (format!("{decision:?}"), limiter.refund(&mut decision, cost));
                            limiter.prepare(&key).reset();
                        }
                        Err(error) => {
                            assert!(!error.to_string().is_empty());
                            assert_eq!(debt(&limiter, key), before, "{error}");
                        }
                    }
                }
            }
        }
    }
}
