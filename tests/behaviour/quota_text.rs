//! Quotas as text. The displayed text parses as the same quota. An error names the position, what
//! was expected, and a quota that is right.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    CountPolicy, FixedWindow, LeakyBucket, Limiter, ParseQuotaError, Quota, Rate, SlidingLog, SlidingWindow,
    TokenBucket,
};

fn quota(text: &str) -> Quota {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> ParseQuotaError {
    text.parse::<Quota>().expect_err(text)
}

#[test]
fn every_part_of_a_quota_means_what_it_says() {
    let rate = Rate::new(5, Duration::from_secs(10));
    let minute = Rate::per_minute(60);
    let cases: [(&str, Quota); 22] = [
        ("token-bucket:5/10s", TokenBucket::new(rate).into()),
        ("5/10s", TokenBucket::new(rate).into()),
        ("60/min,burst=20", TokenBucket::new(minute).burst(20).into()),
        ("token-bucket:1_000/h,initial=0", TokenBucket::new(Rate::per_hour(1000)).initial(0).into()),
        ("60/min,burst=90,intervals", TokenBucket::new(minute).burst(90).by_intervals().into()),
        ("fixed-window:5/10s,first-hit", FixedWindow::new(rate).from_first_hit().into()),
        ("leaky-bucket:5/10s", LeakyBucket::meter(rate).into()),
        ("leaky-bucket:5/10s,meter", LeakyBucket::meter(rate).into()),
        ("leaky-bucket:5/10s,mode=queue,capacity=3", LeakyBucket::queue(rate).capacity(3).into()),
        ("leaky-bucket:5/10s,capacity=3,queue", LeakyBucket::queue(rate).capacity(3).into()),
        ("fixed-window:5/10s", FixedWindow::new(rate).into()),
        ("fixed-window:5/10s,count=all", FixedWindow::new(rate).count(CountPolicy::All).into()),
        ("sliding-window:5/10s,count=allowed", SlidingWindow::new(rate).into()),
        ("sliding-window:5/10s,subwindows=6", SlidingWindow::new(rate).subwindows(6).into()),
        ("sliding-log:3/250ms", SlidingLog::new(Rate::new(3, Duration::from_millis(250))).into()),
        ("sliding-log:3/1.5h", SlidingLog::new(Rate::new(3, Duration::from_secs(5_400))).into()),
        ("sliding-log:100/minute", SlidingLog::new(Rate::per_minute(100)).into()),
        ("sliding-log:5/w", SlidingLog::new(Rate::new(5, Duration::from_secs(604_800))).into()),
        (" token-bucket : 60/min , burst=20 ", TokenBucket::new(minute).burst(20).into()),
        ("60 / min , burst = 20", TokenBucket::new(minute).burst(20).into()),
        (
            "sliding-log:3/1.5 h, count = all",
            SlidingLog::new(Rate::new(3, Duration::from_secs(5_400))).count(CountPolicy::All).into(),
        ),
        ("1/2days", TokenBucket::new(Rate::new(1, Duration::from_secs(172_800))).into()),
    ];
    for (text, expected) in cases {
        assert_eq!(quota(text), expected, "{text}");
    }
    assert_eq!("5/10s".parse(), Ok(rate));
}

#[test]
fn the_error_for_a_bad_quota_shows_a_right_one() {
    let cases: [(&str, usize, &str, &[&str]); 30] = [
        ("tokenbucket:1/s", 0, "tokenbucket", &["no algorithm", "token-bucket, leaky-bucket, "]),
        ("", 0, "", &["no rate", "60/min"]),
        ("token-bucket", 0, "token-bucket", &["no rate"]),
        ("token-bucket:", 13, "", &["no rate", "e.g. token-bucket:60/min,burst=20"]),
        ("fixed-window:x/s", 13, "x", &["a whole number", "e.g. fixed-window:1000/h"]),
        ("fixed-window:/s", 13, "", &["a whole number"]),
        ("fixed-window:1e3/s", 13, "1e3", &["no number"]),
        ("fixed-window:-1/s", 13, "-1", &["no number"]),
        ("fixed-window:99999999999999999999/s", 13, "99999999999999999999", &["18446744073709551615"]),
        ("fixed-window:1/fortnight", 15, "fortnight", &["no unit", "ns, us, ms, s, min, h, d or w"]),
        ("10/month", 3, "month", &["no fixed length, expected 30d"]),
        ("10/2y", 4, "y", &["no fixed length, expected 365d"]),
        ("1/", 2, "", &["no unit"]),
        ("1/10", 4, "", &["no unit"]),
        ("1/1 x", 4, "x", &["no unit"]),
        ("1/1..5s", 2, "1..5", &["no number"]),
        ("1/_1s", 2, "_1", &["no number"]),
        ("1/1.5ns", 2, "1.5ns", &["out of range", "whole number of nanoseconds"]),
        ("1/999999999999999999d", 2, "999999999999999999d", &["out of range"]),
        ("fixed-window:1/s,burst=3", 17, "burst", &["no option", "count=allowed|all"]),
        ("1/s,burst=3, burst=4", 13, "burst=4", &["twice", "each option once"]),
        ("leaky-bucket:1/s,queue,mode=meter", 23, "mode=meter", &["twice"]),
        ("1/s,burst", 4, "burst", &["no value", "expected burst=N"]),
        ("leaky-bucket:1/s,queue=yes", 17, "queue=yes", &["takes no value", "expected queue"]),
        ("1/s,burst=", 10, "", &["a whole number"]),
        ("leaky-bucket:1/s,mode=drip", 22, "drip", &["no mode", "queue or meter"]),
        ("fixed-window:1/s,first-hit,first-hit", 27, "first-hit", &["twice"]),
        ("1/s,intervals=2", 4, "intervals=2", &["takes no value", "expected intervals"]),
        ("sliding-log:1/s,count=some", 22, "some", &["allowed or all"]),
        ("1/s,", 4, "", &["no option", "burst=N, initial=N or intervals"]),
    ];
    for (text, offset, found, says) in cases {
        let error = refused(text);
        assert_eq!((error.offset(), error.found()), (offset, found), "{text}: {error}");
        assert!(text[offset..].starts_with(found), "{text}: {error}");
        for part in says {
            assert!(error.to_string().contains(part), "{text}: {error} lacks {part}");
        }
        assert!(!error.expected().is_empty() && error.hint().parse::<Quota>().is_ok(), "{error:?}");
    }
}

#[test]
fn the_example_of_every_error_can_be_built() {
    let algorithms = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"];
    for text in algorithms.map(|name| format!("{name}:10")).iter().map(String::as_str).chain(["drip:1/s"]) {
        let example = quota(refused(text).hint());
        let built = Limiter::builder(example).per::<u64>().max_keys(1).memory();
        assert!(built.is_ok(), "{example}: {built:?}");
    }
}

fn any_rate() -> impl Strategy<Value = Rate> {
    let unit = prop::sample::select(vec![0, 1, 1_000, 1_000_000, 1_000_000_000, 60_000_000_000_u64]);
    let round = (unit, 0..5_000_u64).prop_map(|(unit, many)| Duration::from_nanos(unit * many));
    let exact = (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(s, n)| Duration::new(s, n));
    (any::<u64>(), prop_oneof![round, exact]).prop_map(|(count, period)| Rate::new(count, period))
}

fn any_quota() -> impl Strategy<Value = Quota> {
    let policy = prop_oneof![Just(CountPolicy::Allowed), Just(CountPolicy::All)];
    let numbers = (any::<u64>(), any::<Option<u64>>(), any::<Option<u32>>());
    (any_rate(), 0..8, policy, numbers).prop_map(|(rate, kind, count, (size, initial, parts))| match kind {
        0 => {
            let bucket = TokenBucket::new(rate).burst(size);
            initial.map_or(bucket, |tokens| bucket.initial(tokens)).into()
        }
        1 => LeakyBucket::meter(rate).capacity(size).into(),
        6 => TokenBucket::new(rate).burst(size).by_intervals().into(),
        7 => FixedWindow::new(rate).count(count).from_first_hit().into(),
        2 => LeakyBucket::queue(rate).capacity(size).into(),
        3 => FixedWindow::new(rate).count(count).into(),
        4 => {
            let window = SlidingWindow::new(rate).count(count);
            parts.map_or(window, |parts| window.subwindows(parts)).into()
        }
        _ => SlidingLog::new(rate).count(count).into(),
    })
}

/// Text that is almost a quota: wrong from the beginning, or further on.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,3}:?[-0-9_.µ€]{0,4}/[a-zµ€0-9.]{0,4}(,[a-z=]{0,9}){0,2}",
        "(leaky-bucket:|sliding-log:)?[0-9]{1,3}/(s|5min|[a-zµ€0-9.]{0,4})(,(burst|mode|[a-zµ]{0,5})=?[a-z0-9]{0,4}){0,2}",
    ]
}

proptest! {
    #[test]
    fn a_quota_that_is_displayed_parses_as_the_same_quota(quota in any_quota()) {
        prop_assert_eq!(quota.to_string().parse(), Ok(quota));
        prop_assert_eq!(quota.rate().to_string().parse(), Ok(quota.rate()));
    }

    #[test]
    fn any_text_is_a_quota_or_an_error_inside_it(text in any_text()) {
        match text.parse::<Quota>() {
            Ok(quota) => prop_assert_eq!(quota.to_string().parse(), Ok(quota)),
            Err(error) => prop_assert!(text[error.offset()..].starts_with(error.found())),
        }
    }
}
