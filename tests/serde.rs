//! Quotas in configuration files: how they are written and read, and which errors they have.

use std::time::Duration;

use serde_json::{Value, from_value, json, to_value};
use tollgate::{
    BuildError, CountPolicy, FirstHit, FixedWindow, LeakyBucket, Limiter, Quota, Rate, SlidingLog,
    SlidingWindow, TokenBucket, WhenFull,
};

/// Every kind of quota with its text, which every future version must read.
fn written() -> Vec<(Quota, &'static str)> {
    let rate = Rate::new(100, Duration::from_millis(1_500));
    vec![
        (TokenBucket::new(rate).burst(20).into(), "token-bucket:100/1.5s,burst=20"),
        (TokenBucket::new(rate).initial(0).into(), "token-bucket:100/1.5s,burst=100,initial=0"),
        (TokenBucket::new(rate).by_intervals().into(), "token-bucket:100/1.5s,burst=100,intervals"),
        (LeakyBucket::queue(rate).capacity(7).into(), "leaky-bucket:100/1.5s,capacity=7,mode=queue"),
        (LeakyBucket::meter(rate).into(), "leaky-bucket:100/1.5s,capacity=100"),
        (FixedWindow::new(rate).into(), "fixed-window:100/1.5s"),
        (FixedWindow::new(rate).from_first_hit().into(), "fixed-window:100/1.5s,first-hit"),
        (SlidingWindow::new(rate).count(CountPolicy::All).into(), "sliding-window:100/1.5s,count=all"),
        (SlidingWindow::new(rate).subwindows(5).into(), "sliding-window:100/1.5s,subwindows=5"),
        (SlidingLog::new(rate).into(), "sliding-log:100/1.5s"),
    ]
}

#[test]
fn a_quota_is_written_as_ever_and_reads_back() {
    for (quota, text) in written() {
        assert_eq!(to_value(quota).unwrap(), text);
        assert_eq!(from_value::<Quota>(text.into()).unwrap(), quota);
    }
    for (when_full, text) in
        [(WhenFull::Share, "share"), (WhenFull::Deny, "deny"), (WhenFull::Allow, "allow")]
    {
        assert_eq!(to_value(when_full).unwrap(), text);
        assert_eq!(from_value::<WhenFull>(text.into()).unwrap(), when_full);
    }
}

#[test]
fn a_rate_and_each_algorithm_are_text_too() {
    let rate = Rate::per_week(60);
    assert_eq!(to_value(rate).unwrap(), "60/w");
    assert_eq!(from_value::<Rate>("60 / w".into()).unwrap(), rate);
    macro_rules! reads_back {
        ($type:ty, $value:expr) => {
            let value = $value;
            assert_eq!(from_value::<$type>(to_value(value).unwrap()).unwrap(), value);
        };
    }
    reads_back!(TokenBucket, TokenBucket::new(rate).burst(7));
    reads_back!(LeakyBucket, LeakyBucket::queue(rate));
    reads_back!(FixedWindow, FixedWindow::new(rate));
    reads_back!(FirstHit, FixedWindow::new(rate).from_first_hit());
    reads_back!(SlidingWindow, SlidingWindow::new(rate));
    reads_back!(SlidingLog, SlidingLog::new(rate));
}

#[test]
fn default_settings_may_be_omitted() {
    let quota: Quota = from_value("sliding-log:60/min".into()).unwrap();
    assert_eq!(quota, SlidingLog::new(Rate::per_minute(60)).into());
    assert_eq!(from_value::<Quota>("60/min".into()).unwrap(), TokenBucket::new(Rate::per_minute(60)).into());
}

/// What the error of this value says.
fn refused(value: Value) -> String {
    from_value::<Quota>(value).unwrap_err().to_string()
}

#[test]
fn a_misspelt_setting_is_an_error() {
    let error = refused("60/min,inital=0".into());
    assert!(error.contains("inital") && error.contains("initial=N"), "{error}");
}

#[test]
fn what_is_no_text_is_shown_an_example() {
    let error = refused(json!({ "token-bucket": { "burst": 5 } }));
    assert!(error.contains("token-bucket:60/min,burst=20"), "{error}");
}

#[test]
fn another_algorithm_is_an_error() {
    let error = from_value::<SlidingLog>("60/min".into()).unwrap_err().to_string();
    assert!(error.contains("token-bucket:60/min") && error.contains("SlidingLog"), "{error}");
}

#[test]
fn a_bad_value_is_judged_by_build() {
    let quota: Quota = from_value("token-bucket:0/min,burst=5".into()).unwrap();
    let error = Limiter::builder(quota).per::<str>().build().unwrap_err();
    assert!(matches!(error, BuildError::OutOfRange { field: "rate.count", value: 0, .. }));
}
