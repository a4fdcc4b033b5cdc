//! Quotas in configuration files: how they are written and read, and which errors they have.

use std::time::Duration;

use serde_json::{Value, from_value, json, to_value};
use tollgate::{
    BuildError, CountPolicy, FixedWindow, LeakyBucket, Limiter, Quota, Rate, SlidingLog, SlidingWindow,
    TokenBucket, WhenFull,
};

/// Every kind of quota with its format, which every future version must read.
fn written() -> Vec<(Quota, Value)> {
    let rate = Rate::new(100, Duration::from_millis(1_500));
    let as_json = json!({ "count": 100, "period": { "secs": 1, "nanos": 500_000_000 } });
    vec![
        (
            TokenBucket::new(rate).burst(20).into(),
            json!({ "token-bucket": { "rate": as_json, "burst": 20 } }),
        ),
        (
            TokenBucket::new(rate).initial(0).into(),
            json!({ "token-bucket": { "rate": as_json, "burst": 100, "initial": 0 } }),
        ),
        (
            LeakyBucket::queue(rate).capacity(7).into(),
            json!({ "leaky-bucket": { "rate": as_json, "capacity": 7, "mode": "queue" } }),
        ),
        (
            LeakyBucket::meter(rate).into(),
            json!({ "leaky-bucket": { "rate": as_json, "capacity": 100, "mode": "meter" } }),
        ),
        (
            TokenBucket::new(rate).by_intervals().into(),
            json!({ "token-bucket": { "rate": as_json, "burst": 100, "intervals": true } }),
        ),
        (
            FixedWindow::new(rate).from_first_hit().into(),
            json!({ "first-hit": { "rate": as_json, "count": "allowed" } }),
        ),
        (FixedWindow::new(rate).into(), json!({ "fixed-window": { "rate": as_json, "count": "allowed" } })),
        (
            SlidingWindow::new(rate).count(CountPolicy::All).into(),
            json!({ "sliding-window": { "rate": as_json, "count": "all" } }),
        ),
        (
            SlidingWindow::new(rate).subwindows(5).into(),
            json!({ "sliding-window": { "rate": as_json, "subwindows": 5, "count": "allowed" } }),
        ),
        (SlidingLog::new(rate).into(), json!({ "sliding-log": { "rate": as_json, "count": "allowed" } })),
    ]
}

#[test]
fn a_quota_is_written_as_ever_and_reads_back() {
    for (quota, json) in written() {
        assert_eq!(to_value(quota).unwrap(), json);
        assert_eq!(from_value::<Quota>(json).unwrap(), quota);
    }
    for (when_full, json) in
        [(WhenFull::Share, "share"), (WhenFull::Deny, "deny"), (WhenFull::Allow, "allow")]
    {
        assert_eq!(to_value(when_full).unwrap(), json);
        assert_eq!(from_value::<WhenFull>(json.into()).unwrap(), when_full);
    }
}

#[test]
fn default_settings_may_be_omitted() {
    let rate = json!({ "count": 60, "period": { "secs": 60, "nanos": 0 } });
    let quota: Quota = from_value(json!({ "sliding-log": { "rate": rate } })).unwrap();
    assert_eq!(quota, SlidingLog::new(Rate::per_minute(60)).into());
}

#[test]
fn a_misspelt_setting_is_an_error() {
    let rate = json!({ "count": 60, "period": { "secs": 60, "nanos": 0 } });
    let misspelt = json!({ "token-bucket": { "rate": rate, "burst": 5, "inital": 0 } });
    let error = from_value::<Quota>(misspelt).unwrap_err().to_string();
    assert!(error.contains("inital"), "{error}");
}

#[test]
fn a_bad_value_is_judged_by_build() {
    let rate = json!({ "count": 0, "period": { "secs": 60, "nanos": 0 } });
    let quota: Quota = from_value(json!({ "token-bucket": { "rate": rate, "burst": 5 } })).unwrap();
    let error = Limiter::builder(quota).per::<str>().build().unwrap_err();
    assert!(matches!(error, BuildError::OutOfRange { field: "rate.count", value: 0, .. }));
}
