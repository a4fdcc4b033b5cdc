//! Overflow, meaningless parameters, and costs above the limit.

use std::fmt;
use std::time::Duration;

use tollgate::{
    Algorithm, BuildError, CountPolicy, FixedWindow, LeakyBucket, Limiter, ManualClock, Quota, Rate,
    SlidingLog, SlidingWindow, Timestamp, TokenBucket,
};

use super::{HOUR, MINUTE, MS, One, SECOND, UPTIME, bucket, per};
use tollgate_testing::limits;

/// Returns the error of a quota.
fn refusal<A: Algorithm>(quota: A) -> BuildError {
    let built = Limiter::builder(quota).clock(ManualClock::new()).build();
    built.expect_err("the quota means nothing and must be refused")
}

/// Returns whether the error names this field, and this value outside of its range.
fn names(error: &BuildError, name: &str, given: u128) -> bool {
    matches!(*error, BuildError::OutOfRange { field, value, min, max }
        if field == name && value == given && !(min..=max).contains(&given))
}

/// Seen in Bucket4j #51: negative tokens.
#[test]
fn half_a_day_of_idling_overflows_nothing() {
    let limit = One::new(bucket(300, 300));
    assert!(limit.check(0));
    let later = 12 * HOUR;
    assert!(limit.check(later));
    assert_eq!(limit.drain(later), 299);
    assert_eq!(limit.wait(later, 1), Some(3_333_334));
    for rate in [per(700_000, HOUR), per(14_500, MINUTE)] {
        let limit = One::new(TokenBucket::new(rate));
        assert!(limit.check(0));
        assert!(limit.check_n(later, rate.count()));
        let interval = u64::try_from(rate.period().as_nanos()).unwrap().div_ceil(rate.count());
        assert!(interval - limit.wait(later, 1).unwrap() <= 1, "{rate}");
    }
}

/// governor panics.
#[test]
fn a_huge_burst_is_exact_or_an_error() {
    for burst in [u64::from(u32::MAX), u64::MAX] {
        let builder = Limiter::builder(TokenBucket::new(Rate::per_day(1)).burst(burst));
        match builder.clock(ManualClock::new()).build() {
            Err(error) => assert!(names(&error, "burst", burst.into()), "{error}"),
            Ok(limiter) => {
                assert_eq!(limiter.check_n((), burst).remaining(), 0);
                assert_eq!(limiter.check(()).retry_after(), Some(Duration::from_secs(86_400)));
            }
        }
    }
}

#[test]
fn a_period_has_at_most_73_years() {
    const LONGEST: u64 = 2_305_843_009_213_693_951;
    let rate = |nanos| Rate::new(1, Duration::from_nanos(nanos));
    let build = |quota: Quota| Limiter::builder(quota).clock(ManualClock::new()).build();
    let windows: [fn(Rate) -> Quota; 3] = [
        |rate| FixedWindow::new(rate).into(),
        |rate| SlidingWindow::new(rate).into(),
        |rate| SlidingLog::new(rate).into(),
    ];
    for window in windows {
        let limiter = build(window(rate(LONGEST))).expect("the longest period that there is");
        assert!(limiter.check(()).is_allowed());
        let error = refusal(window(rate(LONGEST + 1)));
        assert!(
            matches!(error, BuildError::OutOfRange { field: "rate.period", max, .. } if max == LONGEST.into()),
            "{error}"
        );
    }
}

/// ratelimit reads a rate of zero as unlimited.
#[test]
fn a_rate_of_zero_is_refused() {
    let none = Rate::per_second(0);
    assert!(names(&refusal(TokenBucket::new(none).burst(1)), "rate.count", 0));
    assert!(names(&refusal(LeakyBucket::meter(none).capacity(1)), "rate.count", 0));
    assert!(names(&refusal(FixedWindow::new(none)), "rate.count", 0));
    assert!(names(&refusal(SlidingWindow::new(none)), "rate.count", 0));
    assert!(names(&refusal(SlidingWindow::new(none).subwindows(4)), "rate.count", 0));
    assert!(names(&refusal(SlidingLog::new(none)), "rate.count", 0));
}

/// Seen in golang/go #71154.
#[test]
fn a_tiny_rate_waits_for_long_but_never_for_nothing() {
    let rate = Rate::new(1, Duration::from_secs(10_000_000_000));
    match Limiter::builder(TokenBucket::new(rate).burst(1)).clock(ManualClock::new()).build() {
        Err(error) => assert!(names(&error, "rate.period", rate.period().as_nanos()), "{error}"),
        Ok(limiter) => {
            assert!(limiter.check(()).is_allowed());
            assert!(limiter.check(()).retry_after() >= Some(Duration::from_secs(10_000_000_000)));
        }
    }
}

/// Seen in folly: 5000 of 5000.
#[test]
fn a_clock_in_unix_time_admits_one_burst_at_first() {
    for rate in [1_000_000, 10_000_000] {
        for at in [0, UPTIME - 1, 1_700_000_000 * SECOND] {
            let limit = One::new(bucket(rate, 1_000));
            assert_eq!((0..5_000).filter(|_| limit.check(at)).count(), 1_000);
        }
    }
}

/// Seen in rate-net RN-COR-02.
#[test]
fn a_count_near_its_end_does_not_wrap() {
    let BuildError::OutOfRange { max, .. } = refusal(FixedWindow::new(per(u64::MAX, SECOND))) else {
        panic!("a limit too large is out of range")
    };
    let largest = u64::try_from(max).unwrap();
    assert!(largest >= 1_000_000);
    for count in [CountPolicy::Allowed, CountPolicy::All] {
        let limit = One::new(FixedWindow::new(per(largest, SECOND)).count(count));
        assert!(limit.check_n(0, largest - 1));
        for cost in [2, largest - 1, largest] {
            assert!(!limit.check_n(0, cost));
        }
        assert_eq!(limit.remaining(SECOND), largest);
        assert!(!limit.check_n(SECOND, u64::MAX));
        assert!(limit.check_n(SECOND, largest));
    }
}

/// Seen in Guava #6475: unlimited in production; rate-net RN-COR-04.
#[test]
fn meaningless_settings_are_errors() {
    let never = Rate::new(1, Duration::ZERO);
    assert!(names(&refusal(TokenBucket::new(never)), "rate.period", 0));
    assert!(names(&refusal(FixedWindow::new(never)), "rate.period", 0));
    assert!(names(&refusal(SlidingWindow::new(never)), "rate.period", 0));
    assert!(names(&refusal(SlidingLog::new(never)), "rate.period", 0));
    assert!(names(&refusal(bucket(1, 0)), "burst", 0));
    assert!(names(&refusal(LeakyBucket::queue(per(1, SECOND)).capacity(0)), "capacity", 0));
    assert!(names(&refusal(SlidingWindow::new(per(9, SECOND)).subwindows(0)), "subwindows", 0));
    assert!(names(&refusal(bucket(1, 5).initial(6)), "initial", 6));
    let forever = Rate::new(1, Duration::MAX);
    assert!(names(&refusal(FixedWindow::new(forever)), "rate.period", Duration::MAX.as_nanos()));
    for keys in [0, usize::MAX] {
        let built = Limiter::builder(bucket(1, 1)).per::<u64>().max_keys(keys).build();
        assert!(names(&built.err().unwrap(), "max_keys", keys as u128));
    }
}

/// A million a window must be valid for windows of one second or more.
#[test]
fn a_million_a_second_fits_every_window() {
    for period in [SECOND, MINUTE, HOUR, 24 * HOUR] {
        let rate = per(1_000_000, period);
        assert!(One::new(FixedWindow::new(rate)).check_n(0, 1_000_000));
        assert!(One::new(SlidingWindow::new(rate)).check_n(0, 1_000_000));
        assert!(One::new(SlidingLog::new(rate)).check_n(0, 1_000_000));
    }
}

/// Seen in Guava: tryAcquire(Long.MAX_VALUE).
#[test]
fn at_the_end_of_its_time_a_limit_fails_closed() {
    fails_closed(bucket(10, 5));
    fails_closed(LeakyBucket::meter(per(10, SECOND)).capacity(5));
    fails_closed(LeakyBucket::queue(per(10, SECOND)).capacity(5));
    fails_closed(FixedWindow::new(per(5, SECOND)));
    fails_closed(SlidingWindow::new(per(5, SECOND)));
    fails_closed(SlidingWindow::new(per(5, SECOND)).subwindows(3));
    fails_closed(SlidingLog::new(per(5, SECOND)));
}

fn fails_closed<A: Algorithm + fmt::Display>(quota: A) {
    for now in [UPTIME - 1, UPTIME, UPTIME + 1, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX - 1, u64::MAX]
    {
        let limit = One::new(quota);
        assert!(limit.drain(now) <= 5, "{quota} at {now}");
        assert!(limit.drain(u64::MAX) <= 5, "{quota} at the end, after {now}");
        assert!(!limit.check(u64::MAX), "{quota} at the end, after {now}");
        assert!(limit.wait(u64::MAX, 1) > Some(0), "{quota} at the end, after {now}");
    }
}

/// The slow tier's bucket takes eleven years to refill, and the fast tier's rate needs grains. Each
/// tier has a grain of its own.
#[test]
fn a_deep_slow_tier_fits_beside_a_fast_one() {
    const BURST: u64 = 100_000;
    let clock = ManualClock::new();
    let limiter = Limiter::builder(TokenBucket::new(Rate::per_second(999_999_937)).burst(1_000))
        .per::<u64>()
        .tier(TokenBucket::new(Rate::per_hour(1)).burst(BURST))
        .clock(clock.clone())
        .build()
        .unwrap();
    let slow = limiter.account(1).tier(1).unwrap();
    assert!(limiter.check_n(0, 1_000).is_allowed() && !limiter.check(0).is_allowed());
    assert!(slow.check_n(BURST).is_allowed() && !slow.check().is_allowed());
    // At most a grain early, and at most a billionth late.
    clock.set(Timestamp::from_nanos(HOUR - 2));
    assert!(!slow.check().is_allowed());
    clock.set(Timestamp::from_nanos(HOUR + HOUR / 1_000_000_000 + 1));
    assert!(slow.check().is_allowed() && !slow.check().is_allowed());
    assert!(limiter.check_n(0, 1_000).is_allowed());
}

/// Seen in governor #11, Bucket4j #20, throttlecrab: a hint of one second.
#[test]
fn a_cost_above_the_burst_is_never_and_changes_nothing() {
    let limit = One::new(bucket(5, 5));
    let never = limit.0.check_n((), 6);
    assert!(never.is_never() && !never.is_allowed());
    assert_eq!((never.limit(), never.remaining(), never.retry_after()), (5, 5, None));
    assert!(limit.0.check_n((), u64::MAX).is_never());
    assert_eq!(limit.drain(0), 5);
    assert_eq!(limit.wait(0, 1), Some(200 * MS));
}

/// A bucket has fifteen slots; the only key is in the first.
#[test]
fn a_limit_for_everything_has_one_ring() {
    let builder = Limiter::builder(SlidingLog::new(Rate::per_hour(20_000))).clock(ManualClock::new());
    assert_eq!(builder.memory(), Ok(256 + 20_000 * 8));
    let limiter = builder.build().unwrap();
    assert!(limiter.check_n((), 20_000).is_allowed());
    let refused = limiter.check(());
    assert!(!refused.is_allowed());
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(3_600)));
}

/// A limit for everything has its key from the beginning, and that was never charged.
#[test]
fn a_reset_before_the_first_charge_forgives_nothing() {
    for quota in limits::every(Rate::per_hour(5)) {
        let clock = ManualClock::starting_at(Duration::from_secs(1_700_000_000));
        clock.advance(Duration::from_secs(7_200));
        let limiter = Limiter::builder(quota).clock(clock.clone()).build().unwrap();
        let keyed = Limiter::builder(quota).per::<u64>().clock(clock.clone()).build().unwrap();
        assert!(!limiter.account(()).reset() && !keyed.account(7).reset(), "{quota}");
        assert_eq!(limiter.save(&mut Vec::new()).unwrap(), 0, "{quota}");
        assert!(limiter.check(()).is_allowed() && limiter.account(()).reset(), "{quota}");
    }
}
