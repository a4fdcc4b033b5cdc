//! What handlers and hooks see of the limits of a request.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use tollgate::{FixedWindow, LeakyBucket, Quota, Rate, TokenBucket};
use tollgate_tower::{LimitState, OnBackendError, RequestLimits, Rule};
use tower::{Layer, ServiceExt, service_fn};

use crate::shadow::Everything;
use crate::support::{TokioClock, by_header, hourly_bucket, layer_with, request, statuses};

/// Responds with what the handler sees of its limits.
async fn shown(request: Request<String>) -> Result<Response<String>, Infallible> {
    let Some(limits) = request.extensions().get::<RequestLimits>() else {
        return Ok(Response::new(String::from("none")));
    };
    let rule = |(name, state): (&str, LimitState)| format!("{name} {} {}", state.limit, state.remaining);
    Ok(Response::new(limits.iter().map(rule).collect::<Vec<_>>().join(", ")))
}

#[tokio::test(start_paused = true)]
async fn a_handler_sees_what_is_left_of_its_limits() {
    let quotas: [Quota; 2] =
        [TokenBucket::new(Rate::per_hour(9)).into(), FixedWindow::new(Rate::per_day(5)).into()];
    let queue = LeakyBucket::queue(Rate::per_second(1)).capacity(4);
    let build = |rules: Vec<Rule>| {
        let layer =
            rules.into_iter().fold(tollgate_tower::TollgateLayer::builder(), |layer, rule| layer.rule(rule));
        layer.clock(TokioClock::new()).timer(tokio::time::sleep).attach_limits().build().unwrap()
    };
    let api = || Rule::new("api", quotas);
    for (rules, expected) in [
        (vec![api()], ["api 5 4", "api 5 3"]),
        (vec![api().charge_if(|_, _| true)], ["api 5 4", "api 5 3"]),
        (vec![Rule::new("trial", hourly_bucket(1)).shadow(), api()], ["api 5 4", "api 5 3"]),
        (vec![api(), Rule::new("paced", [queue])], ["api 5 4, paced 4 3", "api 5 3, paced 4 2"]),
        (
            vec![api(), Rule::backend("store", Everything, OnBackendError::Refuse)],
            ["api 5 4, store 9 9", "api 5 3, store 9 9"],
        ),
    ] {
        let layer = build(rules);
        for expected in expected {
            let response = layer.layer(service_fn(shown)).oneshot(request("/", &[])).await.unwrap();
            assert_eq!(response.body(), expected);
        }
    }
    let layer = layer_with(api()).build().unwrap();
    let response = layer.layer(service_fn(shown)).oneshot(request("/", &[])).await.unwrap();
    assert_eq!(response.body(), "none", "nothing is attached unless the layer is told to");
}

#[tokio::test]
async fn a_handler_gives_back_what_its_request_cost() {
    let rule = Rule::new("api", hourly_bucket(1)).key(by_header("k"));
    let layer = layer_with(rule).attach_limits().build().unwrap();
    let from_cache = service_fn(|request: Request<String>| async move {
        let limits = request.extensions().get::<RequestLimits>().unwrap();
        let api = limits.handle("api").unwrap();
        assert_eq!(limits.get("api").map(|state| (state.limit, state.remaining)), Some((1, 0)));
        assert_eq!(limits.get("unknown"), None);
        let key = api.key_of(tollgate_tower::RequestHead::of(&request)).unwrap();
        assert_eq!(key.credit(1), 1);
        Ok::<_, Infallible>(Response::new(String::new()))
    });
    for _ in 0..3 {
        let response = layer.layer(from_cache).oneshot(request("/", &[("k", "a")])).await.unwrap();
        assert_eq!(response.status(), 200);
    }
    assert_eq!(statuses(&layer, 2, &[("k", "a")]).await, [200, 429]);
}

#[tokio::test]
async fn a_hook_sees_limit_remaining_and_wait() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&seen);
    let trial = Rule::new("trial", hourly_bucket(1)).shadow();
    let layer = layer_with(Rule::new("api", hourly_bucket(2))).rule(trial);
    let layer = layer.clock(tollgate::ManualClock::new()).on_decision(move |decision| {
        let LimitState { limit, remaining, reset } = decision.limit().unwrap();
        hook.lock().unwrap().push((decision.rule().to_owned(), limit, remaining, reset >= HOUR));
    });
    const HOUR: Duration = Duration::from_secs(3_600);
    assert_eq!(statuses(&layer.build().unwrap(), 3, &[]).await, [200, 200, 429]);
    let (api, trial) = (|remaining| ("api".to_owned(), 2, remaining, true), ("trial".to_owned(), 1, 0, true));
    assert_eq!(*seen.lock().unwrap(), [api(1), trial.clone(), api(0), trial.clone(), api(0), trial]);
}
