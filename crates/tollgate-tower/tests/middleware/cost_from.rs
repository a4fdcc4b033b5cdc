//! Costs that the response tells.

use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response};
use tollgate::{FixedWindow, LeakyBucket, ManualClock, Quota, Rate, SlidingLog, TokenBucket};
use tollgate_tower::{BuildError, OnBackendError, RequestHead, Rule, TollgateLayer};
use tower::{Layer, ServiceExt, service_fn};

use crate::shadow::Everything;
use crate::support::{TokioClock, by_header, hourly_bucket, layer_with, request, status};

/// Costs an estimate of 10, and then what the response says.
fn told(name: &str, quotas: impl IntoIterator<Item = impl Into<Quota>>) -> Rule {
    Rule::new(name, quotas)
        .cost(|_| 10)
        .cost_from(|_, headers| headers.get("x-used")?.to_str().ok()?.parse().ok())
}

/// Sends a request that uses this many units. Returns the status.
async fn uses(layer: &TollgateLayer, used: &str, headers: &[(&str, &str)]) -> u16 {
    let used = used.to_owned();
    let service = service_fn(move |_: Request<String>| {
        let mut response = Response::builder();
        if used != "unknown" {
            response = response.header("x-used", &used);
        }
        std::future::ready(Ok::<_, Infallible>(response.body(String::new()).unwrap()))
    });
    layer.layer(service).oneshot(request("/", headers)).await.unwrap().status().as_u16()
}

fn remaining(layer: &TollgateLayer, headers: &[(&str, &str)]) -> u64 {
    let request = request("/", headers);
    layer.handle("tokens").unwrap().key_of(RequestHead::of(&request)).unwrap().peek(0).remaining
}

#[tokio::test]
async fn the_response_tells_what_a_request_cost() {
    let quotas: [Quota; 2] =
        [TokenBucket::new(Rate::per_hour(100)).into(), FixedWindow::new(Rate::per_day(100)).into()];
    for quotas in [&quotas[..], &quotas[..1], &quotas[1..]] {
        let rule = told("tokens", quotas.iter().copied()).key(by_header("k"));
        let rule = rule.tier(|head| head.header("paid").is_some(), quotas.iter().copied());
        let layer = layer_with(rule).clock(ManualClock::new()).build().unwrap();
        for client in [&[("k", "a")][..], &[("k", "a"), ("paid", "1")]] {
            for (used, left) in [("4", 96), ("0", 96), ("10", 86), ("25", 61), ("unknown", 51), ("41", 10)] {
                assert_eq!(uses(&layer, used, client).await, 200);
                assert_eq!(remaining(&layer, client), left, "{used}");
            }
            // More than there is: the debt is kept, and the key refused.
            assert_eq!(uses(&layer, "15", client).await, 200);
            assert_eq!(remaining(&layer, client), 0);
            assert_eq!(uses(&layer, "0", client).await, 429);
        }
        assert_eq!(remaining(&layer, &[("k", "other")]), 100);
    }
}

#[tokio::test]
async fn a_debit_above_the_limit_has_to_drain() {
    let clock = std::sync::Arc::new(ManualClock::new());
    let bucket = TokenBucket::new(Rate::per_second(1)).burst(20);
    let layer = layer_with(told("tokens", [bucket])).clock(std::sync::Arc::clone(&clock)).build().unwrap();
    assert_eq!(uses(&layer, "50", &[]).await, 200);
    clock.advance(Duration::from_secs(39));
    assert_eq!(uses(&layer, "0", &[]).await, 429);
    clock.advance(Duration::from_secs(1));
    assert_eq!(uses(&layer, "0", &[]).await, 200);
}

#[tokio::test]
async fn a_failed_request_keeps_its_estimate_unless_charge_if() {
    let broken = service_fn(|_: Request<String>| async { Err::<Response<String>, _>("broken") });
    for (is_conditional, left) in [(false, 90), (true, 100)] {
        let mut rule = told("tokens", hourly_bucket(100));
        if is_conditional {
            rule = rule.charge_if(|status, _| status.is_success());
        }
        let layer = layer_with(rule).build().unwrap();
        assert!(layer.layer(broken).oneshot(request("/", &[])).await.is_err());
        assert_eq!(remaining(&layer, &[]), left);
        // The cost of a response that is not charged is not read.
        assert_eq!(status(&layer, "/", &[("x-want", "500")]).await, 500);
        assert_eq!(remaining(&layer, &[]), if is_conditional { 100 } else { 80 });
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waited_is_debited_too() {
    let queue = LeakyBucket::queue(Rate::per_second(10)).capacity(100);
    let layer = layer_with(told("tokens", [queue])).clock(TokioClock::new()).timer(tokio::time::sleep);
    let layer = layer.build().unwrap();
    let begun = tokio::time::Instant::now();
    for used in ["10", "30", "10"] {
        assert_eq!(uses(&layer, used, &[]).await, 200);
    }
    // The second waits for the 10 units before it, and the third for 30.
    assert_eq!(begun.elapsed().as_secs(), 4);
}

#[test]
fn limits_that_keep_no_debt_have_no_cost_from() {
    let log = || [SlidingLog::new(Rate::per_hour(100))];
    for rule in [
        told("tokens", log()),
        told("tokens", hourly_bucket(9)).tier(|_| true, log()),
        told("tokens", hourly_bucket(9)).for_key("k", log()),
    ] {
        let error = layer_with(rule).build().unwrap_err();
        assert_eq!(error, BuildError::CostFromOfLog { rule: "tokens".into() });
    }
    let store = Rule::backend("store", Everything, OnBackendError::Refuse).cost_from(|_, _| None);
    let expected = BuildError::BackendSetting { rule: "store".into(), setting: "cost_from" };
    assert_eq!(layer_with(store).build().unwrap_err(), expected);
}
