//! Rules with a backend. An error of the backend is never taken for a refusal, nor a refusal for an
//! error.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::{Outcome, Quota, Rate, TokenBucket};
use tollgate_tower::{Backend, BuildError, OnBackendError, Rule, RuleOutcome, StoreReply, TollgateLayer};

use crate::support::{by_header, header, hourly_bucket, layer_with, request, send, status, statuses};

/// The key and the cost of a request that the backend admitted.
type Seen = (Vec<u8>, u64);
/// Each reported outcome with its rule.
type Outcomes = Arc<Mutex<Vec<(RuleOutcome, String)>>>;

/// Admits two requests of each key, or fails if it is down.
#[derive(Clone, Default)]
struct TestBackend {
    seen: Arc<Mutex<Vec<Seen>>>,
    down: Arc<Mutex<bool>>,
}

#[derive(Debug)]
struct Down;

impl fmt::Display for Down {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connection refused")
    }
}

impl std::error::Error for Down {}

impl Backend for TestBackend {
    type Error = Down;
    type Receipt = ();

    async fn decide(&self, key: &[u8], cost: u64) -> Result<StoreReply, Down> {
        tokio::task::yield_now().await;
        if *self.down.lock().unwrap() {
            return Err(Down);
        }
        let mut seen = self.seen.lock().unwrap();
        let before = seen.iter().filter(|(other, _)| other == key).count() as u64;
        let outcome = if cost > 2 {
            Outcome::Never
        } else if before < 2 {
            Outcome::Allowed
        } else {
            Outcome::Denied
        };
        if outcome == Outcome::Allowed {
            seen.push((key.to_vec(), cost));
        }
        let remaining = 1_u64.saturating_sub(before);
        Ok(StoreReply::new(outcome, 2, remaining, Duration::from_millis(1_500)))
    }
}

/// A layer, its backend, and the outcomes that its hooks saw.
fn layer(on_error: OnBackendError) -> (TollgateLayer, TestBackend, Outcomes) {
    let backend = TestBackend::default();
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let (decisions, errors) = (Arc::clone(&outcomes), Arc::clone(&outcomes));
    let cost = |head: tollgate_tower::RequestHead<'_>| if head.path() == "/vast" { 3 } else { 1 };
    let layer = layer_with(Rule::backend("there", backend.clone(), on_error).key(by_header("k")).cost(cost))
        .rule(Rule::new("here", hourly_bucket(4)))
        .on_decision(move |decision| {
            decisions.lock().unwrap().push((decision.outcome(), decision.rule().to_owned()))
        })
        .on_backend_error(move |rule, error| {
            errors.lock().unwrap().push((RuleOutcome::BackendFailed, format!("{rule}: {error}")))
        })
        .build()
        .unwrap();
    (layer, backend, outcomes)
}

#[tokio::test]
async fn a_backend_decides_and_its_limit_is_in_the_headers() {
    let (layer, backend, _) = layer(OnBackendError::Allow);
    let response = send(&layer, request("/", &[("k", "alice")])).await;
    assert_eq!(header(&response, "ratelimit"), Some("\"here\";r=3;t=3600, \"there\";r=1;t=2"));
    assert_eq!(header(&response, "ratelimit-policy"), Some("\"here\";q=4;w=14400"));
    assert_eq!(status(&layer, "/", &[("k", "alice")]).await, 200);
    let response = send(&layer, request("/", &[("k", "alice")])).await;
    assert_eq!((response.status().as_u16(), header(&response, "retry-after")), (429, Some("2")));
    assert_eq!(
        response.body(),
        r#"{"error":"Too Many Requests","rule":"there","limit":2,"remaining":0,"retry_after":2}"#
    );
    assert_eq!(status(&layer, "/vast", &[("k", "bob")]).await, 400);
    assert_eq!(*backend.seen.lock().unwrap(), [(b"alice".to_vec(), 1), (b"alice".to_vec(), 1)]);
    // The backend's refusals refunded the rule `here`: two of four are left. A request that `here`
    // refuses does not reach the backend.
    assert_eq!(statuses(&layer, 3, &[("k", "carol")]).await, [200, 200, 429]);
    assert_eq!(backend.seen.lock().unwrap().len(), 4);
    assert_eq!(status(&layer, "/", &[("k", "dave")]).await, 429);
    assert_eq!(backend.seen.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn a_backend_error_is_handled_and_reported_as_an_error() {
    for (on_error, expected) in [
        (OnBackendError::Allow, vec![200, 200, 200]),
        (OnBackendError::Refuse, vec![503, 503, 503]),
        (OnBackendError::LimitLocally(vec![Quota::from(hourly_bucket(2)[0])]), vec![200, 200, 429]),
    ] {
        let (layer, backend, outcomes) = layer(on_error.clone());
        *backend.down.lock().unwrap() = true;
        assert_eq!(statuses(&layer, 3, &[("k", "alice")]).await, expected, "{on_error:?}");
        let outcomes = outcomes.lock().unwrap();
        let times = |outcome: RuleOutcome, by: &str| {
            outcomes.iter().filter(|(reported, rule)| *reported == outcome && rule == by).count()
        };
        assert_eq!(times(RuleOutcome::BackendFailed, "there"), 3);
        assert_eq!(times(RuleOutcome::BackendFailed, "there: connection refused"), 3);
        assert_eq!(
            times(RuleOutcome::Limited, "there"),
            expected.iter().filter(|status| **status == 429).count()
        );
    }
}

#[tokio::test]
async fn a_refusal_for_a_backend_error_has_no_retry_after() {
    let (layer, backend, _) = layer(OnBackendError::Refuse);
    *backend.down.lock().unwrap() = true;
    let response = send(&layer, request("/", &[("k", "alice")])).await;
    assert_eq!(response.body(), r#"{"error":"Rate Limiter Unavailable","rule":"there"}"#);
    assert_eq!(header(&response, "retry-after"), None);
    *backend.down.lock().unwrap() = false;
    // The rule `here` was refunded and has four left before this request.
    let response = send(&layer, request("/", &[("k", "alice")])).await;
    assert!(header(&response, "ratelimit").unwrap().starts_with("\"here\";r=3;"));
}

#[tokio::test]
async fn a_client_that_disconnects_during_the_backend_call_is_refunded() {
    struct Hangs;
    impl Backend for Hangs {
        type Error = Down;
        type Receipt = ();
        async fn decide(&self, _: &[u8], _: u64) -> Result<StoreReply, Down> {
            std::future::pending().await
        }
    }
    let layer = layer_with(
        Rule::backend("there", Hangs, OnBackendError::Allow)
            .key(by_header("k"))
            .missing_key(tollgate_tower::MissingKey::Skip),
    )
    .rule(Rule::new("here", hourly_bucket(1)))
    .build()
    .unwrap();
    let gone = tokio::time::timeout(Duration::from_millis(1), status(&layer, "/", &[("k", "a")])).await;
    assert!(gone.is_err());
    assert_eq!(statuses(&layer, 2, &[]).await, [200, 429]);
}

#[test]
fn a_setting_that_backends_do_not_support_is_an_error() {
    let rule = || Rule::backend("there", TestBackend::default(), OnBackendError::Allow);
    for (bad, setting) in [
        (rule().tier(|_| true, hourly_bucket(1)), "tier"),
        (rule().for_key("k", hourly_bucket(1)), "for_key"),
        (rule().cost_from(|_, _| None), "cost_from"),
    ] {
        let error = layer_with(bad).build().unwrap_err();
        assert_eq!(error, BuildError::BackendSetting { rule: "there".into(), setting });
    }
}

#[test]
fn the_local_limits_of_a_backend_need_distinct_names() {
    let several = [Rate::per_second(5), Rate::per_hour(9)].map(|rate| TokenBucket::new(rate).into());
    let there =
        || Rule::backend("there", TestBackend::default(), OnBackendError::LimitLocally(several.into()));
    let error = layer_with(there()).rule(Rule::new("there/h", hourly_bucket(1))).build().unwrap_err();
    assert_eq!(error, BuildError::DuplicateName { name: "there/h".into() });
    assert!(layer_with(there()).rule(Rule::new("here/h", hourly_bucket(1))).build().is_ok());
}

#[tokio::test]
async fn charge_if_refunds_a_request_that_a_backend_admitted() {
    let backend = Rule::backend("far", TestBackend::default(), OnBackendError::Refuse).cost(|_| 0);
    let near = Rule::new("near", hourly_bucket(1)).charge_if(|status, _| status.is_server_error());
    let layer = layer_with(near).rule(backend).build().unwrap();
    assert_eq!(statuses(&layer, 2, &[("x-want", "200")]).await, [200, 200]);
    let refused = send(&layer, request("/", &[("x-want", "200")])).await;
    let ratelimit = header(&refused, "ratelimit").unwrap();
    assert!(ratelimit.starts_with("\"far\""), "the near limit is not spent: {ratelimit}");
}
