//! Scenarios from the integration tests of another rate limiting middleware, on an axum server with
//! a real client.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{HttpClient, by_axum_peer, hourly_bucket, layer_with, serve};
use axum::Router;
use axum::body::Body;
use axum::routing::any;
use http::{Response, StatusCode};
use tollgate::{LeakyBucket, ManualClock, Rate, TokenBucket};
use tollgate_tower::{ClientAddress, KeyBy, Refusal, Respond, Rule, TollgateLayer};

/// Serves an app whose every path is behind the layer.
async fn serve_limited<A>(layer: TollgateLayer<A>) -> HttpClient
where
    A: Respond<Body> + Clone + Send + Sync + 'static,
{
    let hello = any(|| async { "hello" });
    HttpClient::to(serve(Router::new().route("/", hello.clone()).route("/{*rest}", hello).layer(layer)).await)
}

/// The address in `X-Forwarded-For`. The test itself is the trusted proxy on 127.0.0.1.
fn by_forwarded() -> KeyBy {
    let peer = ClientAddress::connection(|info: &axum::extract::ConnectInfo<std::net::SocketAddr>| {
        Some(info.0.ip())
    });
    KeyBy::client(peer.x_forwarded_for(["127.0.0.1"]).unwrap())
}

/// Sends requests concurrently. Returns their statuses and times to the response, in the order of
/// the responses.
async fn send_concurrently(
    http: &HttpClient,
    count: usize,
    headers: &'static [(&str, &str)],
) -> Vec<(u16, Duration)> {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let http = http.clone();
            tokio::spawn(async move { (http.status("/", headers).await, begun.elapsed()) })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers.sort_by_key(|(_, when)| *when);
    answers
}

fn count(answers: &[(u16, Duration)], status: u16) -> usize {
    answers.iter().filter(|(one, _)| *one == status).count()
}

#[tokio::test]
async fn a_burst_of_three_refuses_the_fourth() {
    let http =
        serve_limited(layer_with(Rule::new("api", hourly_bucket(3)).key(by_axum_peer())).build().unwrap())
            .await;
    for _ in 0..3 {
        let response = http.send("/", &[]).await;
        assert_eq!((response.status(), &**response.body()), (StatusCode::OK, "hello"));
    }
    let response = http.send("/", &[]).await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    let body: serde_json::Value = serde_json::from_str(response.body()).unwrap();
    assert_eq!(body["error"], "Too Many Requests");
}

#[tokio::test]
async fn two_forwarded_addresses_have_separate_buckets() {
    let http =
        serve_limited(layer_with(Rule::new("api", hourly_bucket(1)).key(by_forwarded())).build().unwrap())
            .await;
    for client in ["192.0.2.1", "192.0.2.2"] {
        assert_eq!(http.status("/", &[("x-forwarded-for", client)]).await, 200);
    }
    for client in ["192.0.2.1", "192.0.2.2"] {
        assert_eq!(http.status("/", &[("x-forwarded-for", client)]).await, 429);
    }
}

#[tokio::test]
async fn a_token_comes_back_after_its_interval() {
    let clock = ManualClock::new();
    let rule = Rule::new("api", [TokenBucket::new(Rate::per_second(2)).burst(1)]).key(by_axum_peer());
    let http = serve_limited(layer_with(rule).clock(clock.clone()).build().unwrap()).await;
    assert_eq!(http.status("/", &[]).await, 200);
    clock.advance(Duration::from_nanos(499_999_999));
    assert_eq!(http.status("/", &[]).await, 429);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(http.status("/", &[]).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_concurrent_requests_fill_a_burst_of_fifty() {
    let rule = Rule::new("api", hourly_bucket(50)).key(by_axum_peer());
    let http = serve_limited(layer_with(rule).clock(ManualClock::new()).build().unwrap()).await;
    assert_eq!(count(&send_concurrently(&http, 50, &[]).await, 200), 50);
    assert_eq!(http.status("/", &[]).await, 429);
}

#[tokio::test]
async fn a_closure_may_use_a_header_or_a_default_key() {
    let key = KeyBy::request(|head, key| key.push(head.header("api-key").unwrap_or(b"anonymous")));
    let http = serve_limited(layer_with(Rule::new("api", hourly_bucket(1)).key(key)).build().unwrap()).await;
    assert_eq!(http.status("/", &[("api-key", "one")]).await, 200);
    assert_eq!(http.status("/", &[("api-key", "two")]).await, 200);
    assert_eq!(http.status("/", &[]).await, 200);
    for again in [&[("api-key", "one")][..], &[("api-key", "two")], &[]] {
        assert_eq!(http.status("/", again).await, 429);
    }
}

#[tokio::test]
async fn a_burst_of_a_hundred_refuses_the_next() {
    let rule = Rule::new("api", hourly_bucket(100)).key(by_axum_peer());
    let http = serve_limited(layer_with(rule).clock(ManualClock::new()).build().unwrap()).await;
    for _ in 0..100 {
        assert_eq!(http.status("/", &[]).await, 200);
    }
    assert_eq!(http.status("/", &[]).await, 429);
}

#[tokio::test]
async fn a_burst_of_ten_admits_two_of_cost_five() {
    let http = serve_limited(
        layer_with(Rule::new("api", hourly_bucket(10)).key(by_axum_peer()).cost(|_| 5)).build().unwrap(),
    )
    .await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(http.status("/", &[]).await);
    }
    assert_eq!(statuses, [200, 200, 429]);
}

#[tokio::test]
async fn health_checks_are_skipped() {
    let rule = Rule::new("api", hourly_bucket(1)).key(by_axum_peer()).skip(|head| head.path() == "/health");
    let http = serve_limited(layer_with(rule).build().unwrap()).await;
    for _ in 0..5 {
        assert_eq!(http.status("/health", &[]).await, 200);
    }
    assert_eq!(http.status("/", &[]).await, 200, "health checks were not charged");
    assert_eq!(http.status("/", &[]).await, 429);
    assert_eq!(http.status("/healthy", &[]).await, 429);
}

#[tokio::test]
async fn a_queue_of_three_serves_three() {
    let queue = LeakyBucket::queue(Rate::per_second(10)).capacity(3);
    let http =
        serve_limited(layer_with(Rule::new("paced", [queue]).key(by_axum_peer())).build().unwrap()).await;
    let answers = send_concurrently(&http, 3, &[]).await;
    assert_eq!(count(&answers, 200), 3);
    assert!(answers[2].1 >= Duration::from_millis(200), "{answers:?}");
}

#[tokio::test]
async fn a_queue_of_two_refuses_the_third_send_concurrently() {
    let queue = LeakyBucket::queue(Rate::per_second(1)).capacity(2);
    let http =
        serve_limited(layer_with(Rule::new("paced", [queue]).key(by_axum_peer())).build().unwrap()).await;
    let answers = send_concurrently(&http, 3, &[]).await;
    assert_eq!((count(&answers, 200), count(&answers, 429)), (2, 1));
    let refused = answers.iter().find(|(status, _)| *status == 429).unwrap().1;
    assert!(refused < Duration::from_millis(700), "before the second departs: {answers:?}");
    assert!(answers[2].1 >= Duration::from_millis(999), "{answers:?}");
}

#[tokio::test]
async fn each_address_has_its_own_queue() {
    let queue = LeakyBucket::queue(Rate::per_second(1)).capacity(1);
    let http =
        serve_limited(layer_with(Rule::new("paced", [queue]).key(by_forwarded())).build().unwrap()).await;
    for (client, status) in [("192.0.2.1", 200), ("192.0.2.2", 200), ("192.0.2.1", 429)] {
        assert_eq!(http.status("/", &[("x-forwarded-for", client)]).await, status);
    }
}

#[tokio::test]
async fn on_limited_and_a_custom_responder_see_the_request() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&seen);
    let answer = |refusal: &Refusal<'_>| {
        let mut response = Response::new(Body::from(format!("not {} again", refusal.head().path())));
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        response
    };
    let layer = layer_with(Rule::new("api", hourly_bucket(1)).key(by_axum_peer()))
        .on_limited(move |refusal| hook.lock().unwrap().push(refusal.head().path().to_owned()))
        .responder(answer)
        .build()
        .unwrap();
    let http = serve_limited(layer).await;
    assert_eq!(http.status("/first", &[]).await, 200);
    let response = http.send("/second", &[]).await;
    assert_eq!((response.status().as_u16(), &**response.body()), (418, "not /second again"));
    assert_eq!(*seen.lock().unwrap(), ["/second"]);
}

#[tokio::test]
async fn all_methods_share_a_bucket() {
    let http =
        serve_limited(layer_with(Rule::new("api", hourly_bucket(4)).key(by_axum_peer())).build().unwrap())
            .await;
    for method in ["GET", "POST", "PUT", "DELETE"] {
        assert_eq!(http.status("/", &[("method", method)]).await, 200);
    }
    assert_eq!(http.status("/", &[("method", "PATCH")]).await, 429);
}
