//! Limits that come with each request.

use std::sync::{Arc, Mutex};

use http::Request;
use tollgate::{CallQuota, Inherit, LeakyBucket, ManualClock, Rate, WhenFull};
use tollgate_tower::{BuildError, ReconfigureError, RequestHead, Rule, TollgateLayer};

use crate::support::{TokioClock, by_header, header, hourly_bucket, layer_with, request, send, status};

/// What the layer that authenticates attaches: a burst, won back in an hour each.
#[derive(Clone)]
struct Plan(u64);

fn plan(head: RequestHead<'_>) -> Option<CallQuota> {
    CallQuota::new(Rate::per_hour(1), head.extension::<Plan>()?.0).ok()
}

fn by_plan() -> Rule {
    Rule::per_request("plan", plan).key(by_header("k"))
}

fn of_plan(burst: u64, headers: &[(&str, &str)]) -> Request<String> {
    let mut request = request("/", headers);
    request.extensions_mut().insert(Plan(burst));
    request
}

async fn statuses_of(layer: &TollgateLayer, burst: u64, count: usize, headers: &[(&str, &str)]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(send(layer, of_plan(burst, headers)).await.status().as_u16());
    }
    statuses
}

#[tokio::test]
async fn each_request_is_limited_by_its_own_quota() {
    let layer = layer_with(by_plan()).clock(ManualClock::new()).build().unwrap();
    assert_eq!(statuses_of(&layer, 2, 3, &[("k", "a")]).await, [200, 200, 429]);
    assert_eq!(statuses_of(&layer, 1, 2, &[("k", "b")]).await, [200, 429]);
    // The plan of `a` grows: its debt of two stays.
    assert_eq!(statuses_of(&layer, 4, 3, &[("k", "a")]).await, [200, 200, 429]);
    let refused = send(&layer, of_plan(4, &[("k", "a")])).await;
    assert_eq!(header(&refused, "retry-after"), Some("3600"));
    // Without a plan the rule does not apply.
    for _ in 0..9 {
        assert_eq!(status(&layer, "/", &[("k", "a")]).await, 200);
    }
    assert_eq!(layer.handle("plan").unwrap().usage().unwrap().live_keys, 2);
}

#[tokio::test(start_paused = true)]
async fn a_quota_of_a_request_gets_its_charge_back() {
    let client = [("k", "a")];
    // A later rule refuses.
    let layer = layer_with(by_plan()).rule(Rule::new("once", hourly_bucket(1)).key(by_header("once")));
    let layer = layer.clock(TokioClock::new()).build().unwrap();
    assert_eq!(statuses_of(&layer, 9, 3, &client).await, [200, 429, 429]);
    assert_eq!(statuses_of(&layer, 2, 1, &[("k", "a"), ("once", "1")]).await, [200]);
    assert_eq!(statuses_of(&layer, 2, 1, &[("k", "a"), ("once", "2")]).await, [429]);

    // The response is not charged.
    let layer = layer_with(by_plan().charge_if(|status, _| status.is_success())).build().unwrap();
    let fails = [("k", "a"), ("x-want", "500")];
    assert_eq!(statuses_of(&layer, 1, 3, &fails).await, [500; 3]);
    assert_eq!(statuses_of(&layer, 1, 2, &client).await, [200, 429]);

    // The client leaves a queue.
    let queue = LeakyBucket::queue(Rate::per_hour(1)).capacity(9);
    let layer = layer_with(by_plan()).rule(Rule::new("paced", [queue]).key(by_header("paced")));
    let layer = layer.clock(TokioClock::new()).timer(tokio::time::sleep).build().unwrap();
    assert_eq!(statuses_of(&layer, 2, 1, &client).await, [200]);
    for _ in 0..3 {
        let waits = send(&layer, of_plan(2, &client));
        assert!(tokio::time::timeout(std::time::Duration::from_millis(1), waits).await.is_err());
    }
    assert_eq!(statuses_of(&layer, 2, 2, &[("k", "a"), ("paced", "other")]).await, [200, 429]);
}

#[tokio::test]
async fn a_shadow_quota_of_a_request_reports() {
    for is_first in [true, false] {
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&outcomes);
        let (trial, enforced) = (by_plan().shadow(), Rule::new("all", hourly_bucket(2)));
        let (first, last) = if is_first { (trial, enforced) } else { (enforced, trial) };
        let layer = layer_with(first).rule(last).on_decision(move |decision| {
            if decision.is_shadow() {
                seen.lock().unwrap().push((decision.outcome().as_str(), decision.limit().unwrap().limit));
            }
        });
        let layer = layer.build().unwrap();
        assert_eq!(statuses_of(&layer, 1, 3, &[("k", "a")]).await, [200, 200, 429]);
        assert_eq!(*outcomes.lock().unwrap(), [("allowed", 1), ("limited", 1), ("limited", 1)]);
    }
}

#[tokio::test]
async fn a_full_table_of_quotas_of_requests_refuses_or_admits() {
    for (when_full, all_pass) in [(WhenFull::Deny, false), (WhenFull::Allow, true)] {
        let layer = layer_with(by_plan().max_keys(8).when_full(when_full)).build().unwrap();
        let mut refused = 0;
        for key in 0..500_u32 {
            let response = send(&layer, of_plan(1, &[("k", &key.to_string())])).await;
            refused += u32::from(response.status() == 429);
        }
        assert_eq!(refused == 0, all_pass, "{refused}");
    }
}

#[test]
fn a_rule_of_request_quotas_has_no_other_limits() {
    for (bad, setting) in [
        (by_plan().tier(|_| true, hourly_bucket(1)), "tier"),
        (by_plan().for_key("k", hourly_bucket(1)), "for_key"),
        (by_plan().cost_from(|_, _| None), "cost_from"),
    ] {
        let error = layer_with(bad).build().unwrap_err();
        assert_eq!(error, BuildError::PerRequestSetting { rule: "plan".into(), setting });
    }
    let layer = layer_with(by_plan()).build().unwrap();
    let error = layer.reconfigure("plan", hourly_bucket(1), Inherit::Reset).unwrap_err();
    assert_eq!(error, ReconfigureError::PerRequest { rule: "plan".into() });
    assert!(layer.handle("plan").unwrap().key("a").is_none());
}
