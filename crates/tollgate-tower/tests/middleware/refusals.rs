//! The bodies of refusals, and the headers of all responses.

use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use serde_json::{Value, json};
use tollgate::{FixedWindow, LeakyBucket, ManualClock, Quota, Rate, TokenBucket};
use tollgate_tower::{HeaderStyle, HttpResponder, KeyBy, MissingKey, Respond, Rule, TollgateLayer};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{by_header, by_peer, header, hourly_bucket, layer_with, request, send, status};

/// Sends two requests and returns the response to the second.
async fn second_response<A: Respond<String> + Clone>(layer: &TollgateLayer<A>) -> Response<String> {
    assert_eq!(status(layer, "/", &[]).await, 200);
    send(layer, request("/", &[])).await
}

/// One token, which comes back in 2.5 seconds.
fn slow() -> Rule {
    Rule::new("api", [TokenBucket::new(Rate::new(2, Duration::from_secs(5))).burst(1)])
}

#[tokio::test]
async fn refusals_are_json_by_default() {
    let layer = layer_with(slow()).clock(ManualClock::new()).build().unwrap();
    let response = second_response(&layer).await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&response, "content-type"), Some("application/json"));
    assert_eq!(header(&response, "cache-control"), Some("no-store"));
    assert_eq!(header(&response, "retry-after"), Some("3"), "2.5 seconds, rounded up");
    let body: Value = serde_json::from_str(response.body()).unwrap();
    let expected =
        json!({"error": "Too Many Requests", "rule": "api", "limit": 1, "remaining": 0, "retry_after": 3});
    assert_eq!(body, expected);
}

#[tokio::test]
async fn problem_details() {
    let layer =
        layer_with(slow()).clock(ManualClock::new()).responder(HttpResponder::problem()).build().unwrap();
    let response = second_response(&layer).await;
    assert_eq!(header(&response, "content-type"), Some("application/problem+json"));
    let body: Value = serde_json::from_str(response.body()).unwrap();
    let expected = json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Too Many Requests",
        "status": 429,
        "detail": "the limit api is spent, retry after 3 s",
        "violated-policies": ["api"],
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn problem_details_name_exactly_the_limits_that_refuse() {
    let quotas = [Rate::per_second(1), Rate::per_hour(2), Rate::per_hour(1)].map(TokenBucket::new);
    let rule = Rule::new("api", quotas).key(KeyBy::everyone());
    let layer =
        TollgateLayer::builder().rule(rule).clock(ManualClock::new()).responder(HttpResponder::problem());
    let body: Value = serde_json::from_str(second_response(&layer.build().unwrap()).await.body()).unwrap();
    assert_eq!(body["violated-policies"], json!(["api/s", "api/h-3"]));
    assert_eq!(body["detail"], "the limit api/h-3 is spent, retry after 3600 s");
}

#[tokio::test]
async fn other_problem_details_have_the_title_of_the_status() {
    let layer = layer_with(Rule::new("api", hourly_bucket(3)).cost(|_| 4))
        .responder(HttpResponder::problem())
        .build()
        .unwrap();
    let response = send(&layer, request("/", &[])).await;
    let body: Value = serde_json::from_str(response.body()).unwrap();
    let expected = json!({
        "type": "about:blank",
        "title": "Bad Request",
        "status": 400,
        "detail": "the cost is 4, but api admits at most 3",
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn plain_text() {
    let layer =
        layer_with(slow()).clock(ManualClock::new()).responder(HttpResponder::text()).build().unwrap();
    let response = second_response(&layer).await;
    assert_eq!(header(&response, "content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(response.body(), "Too Many Requests: the limit api is spent, retry after 3 s\n");
}

#[tokio::test]
async fn the_layer_adds_headers_that_a_closures_response_lacks() {
    let layer = layer_with(slow())
        .clock(ManualClock::new())
        .answer(|refusal| {
            assert_eq!((refusal.rule(), refusal.retry_after()), ("api", Some(Duration::from_millis(2_500))));
            Response::builder().status(503).header("retry-after", "99").body("mine".to_owned()).unwrap()
        })
        .build()
        .unwrap();
    let response = second_response(&layer).await;
    assert_eq!((response.status().as_u16(), &**response.body()), (503, "mine"));
    assert_eq!(response.headers().get_all("retry-after").iter().collect::<Vec<_>>(), ["99"]);
    assert_eq!(header(&response, "cache-control"), Some("no-store"));
    assert_eq!(header(&response, "ratelimit"), Some("\"api\";r=0;t=3"));
}

#[tokio::test]
async fn a_refusal_for_good_has_no_retry_after() {
    for (answer, kind) in [(HttpResponder::json(), "error"), (HttpResponder::problem(), "detail")] {
        let layer =
            layer_with(Rule::new("api", hourly_bucket(3)).cost(|_| 4)).responder(answer).build().unwrap();
        let response = send(&layer, request("/", &[])).await;
        assert_eq!((response.status().as_u16(), header(&response, "retry-after")), (400, None));
        let body: Value = serde_json::from_str(response.body()).unwrap();
        let text = body[kind].as_str().unwrap();
        assert!(["Cost Above Limit", "the cost is 4, but api admits at most 3"].contains(&text), "{text}");
    }
    let layer =
        layer_with(Rule::new("api", hourly_bucket(3)).key(by_header("k")).missing_key(MissingKey::Refuse))
            .build()
            .unwrap();
    let response = send(&layer, request("/", &[])).await;
    assert_eq!(response.body(), r#"{"error":"No Key To Limit By","rule":"api"}"#);
    assert_eq!(header(&response, "retry-after"), None);
}

#[tokio::test]
async fn retry_after_is_at_least_a_second_and_exact() {
    let clock = ManualClock::new();
    let rule = Rule::new("api", [TokenBucket::new(Rate::per_second(5)).burst(1)]);
    let layer = layer_with(rule).clock(clock.clone()).build().unwrap();
    let response = second_response(&layer).await;
    assert_eq!(header(&response, "retry-after"), Some("1"), "200 ms are rounded up");
    clock.advance(Duration::from_secs(1));
    assert_eq!(status(&layer, "/", &[]).await, 200);
}

#[tokio::test]
async fn every_response_has_the_headers_of_all_styles() {
    let all = [
        HeaderStyle::Ietf,
        HeaderStyle::XRateLimit,
        HeaderStyle::XRateLimitRetryAfter,
        HeaderStyle::RateLimitTrio,
    ];
    let layer = layer_with(Rule::new("api", [TokenBucket::new(Rate::per_second(1)).burst(10)]).cost(|_| 9))
        .headers(all)
        .clock(ManualClock::new())
        .build()
        .unwrap();
    let admitted = [
        ("ratelimit", "\"api\";r=1;t=1"),
        ("ratelimit-policy", "\"api\";q=10;w=10"),
        ("x-ratelimit-limit", "10"),
        ("x-ratelimit-remaining", "1"),
        ("x-ratelimit-reset", "1"),
        ("ratelimit-limit", "10"),
        ("ratelimit-remaining", "1"),
        ("ratelimit-reset", "1"),
    ];
    let response = send(&layer, request("/", &[])).await;
    for (name, value) in admitted {
        assert_eq!(header(&response, name), Some(value), "{name}");
    }
    for name in ["retry-after", "x-ratelimit-retry-after", "cache-control"] {
        assert_eq!(header(&response, name), None, "{name}");
    }
    let response = send(&layer, request("/", &[])).await;
    for (name, value) in [
        ("ratelimit", "\"api\";r=1;t=8"),
        ("ratelimit-policy", "\"api\";q=10;w=10"),
        ("x-ratelimit-reset", "8"),
        ("x-ratelimit-retry-after", "8"),
        ("retry-after", "8"),
        ("ratelimit-remaining", "1"),
    ] {
        assert_eq!(header(&response, name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn without_styles_only_retry_after_is_sent() {
    let layer = layer_with(slow()).headers([]).clock(ManualClock::new()).build().unwrap();
    let response = send(&layer, request("/", &[])).await;
    assert!(response.headers().is_empty(), "{:?}", response.headers());
    let response = send(&layer, request("/", &[])).await;
    let mut names: Vec<_> = response.headers().keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["cache-control", "content-type", "retry-after"]);
}

#[tokio::test]
async fn retry_after_equals_the_reset_of_ratelimit() {
    // The limit that refuses has a token in a second; the other limit is full again after hours.
    let rules = layer_with(Rule::new("fast", [TokenBucket::new(Rate::per_second(1)).burst(1)]))
        .rule(Rule::new("slow", hourly_bucket(100)));
    let layer = rules.clock(ManualClock::new()).build().unwrap();
    let response = second_response(&layer).await;
    assert_eq!(header(&response, "retry-after"), Some("1"));
    assert_eq!(header(&response, "ratelimit"), Some("\"fast\";r=0;t=1"));
}

#[tokio::test]
async fn headers_show_the_refusing_limit_with_the_longest_wait() {
    // The limit per second has less remaining; the limit per hour has the longer wait.
    let quotas =
        [TokenBucket::new(Rate::per_second(1)).burst(3).into(), FixedWindow::new(Rate::per_hour(4)).into()];
    let rule = Rule::new("api", quotas as [Quota; 2]).cost(|head| if head.path() == "/" { 3 } else { 2 });
    let styles = [HeaderStyle::XRateLimit, HeaderStyle::RateLimitTrio];
    let layer = layer_with(rule).headers(styles).clock(ManualClock::new()).build().unwrap();
    assert_eq!(status(&layer, "/", &[]).await, 200);
    let response = send(&layer, request("/again", &[])).await;
    assert_eq!(
        response.body(),
        r#"{"error":"Too Many Requests","rule":"api/h","limit":4,"remaining":1,"retry_after":3600}"#
    );
    for style in ["x-ratelimit", "ratelimit"] {
        for (what, value) in [("limit", "4"), ("remaining", "1"), ("reset", "3600")] {
            assert_eq!(header(&response, &format!("{style}-{what}")), Some(value), "{style}-{what}");
        }
    }
}

#[tokio::test]
async fn a_stricter_limit_of_the_inner_service_is_told_alone() {
    let inner = service_fn(|_: Request<String>| async {
        let response =
            Response::builder().header("ratelimit", "\"inner\";r=0;t=86400").header("x-ratelimit-limit", "1");
        Ok::<_, Infallible>(response.body(String::new()).unwrap())
    });
    let layer = layer_with(slow())
        .headers([HeaderStyle::Ietf, HeaderStyle::XRateLimit])
        .clock(ManualClock::new())
        .build()
        .unwrap();
    let response = layer.layer(inner).oneshot(request("/", &[])).await.unwrap();
    assert_eq!(response.headers().get_all("ratelimit").iter().collect::<Vec<_>>(), ["\"inner\";r=0;t=86400"]);
    assert_eq!(response.headers().get_all("x-ratelimit-limit").iter().collect::<Vec<_>>(), ["1"]);
    assert_eq!(header(&response, "ratelimit-policy"), None);
    assert_eq!(header(&response, "x-ratelimit-remaining"), None);
}

#[tokio::test]
async fn a_full_queue_has_retry_after() {
    let queue = LeakyBucket::queue(Rate::new(1, Duration::from_secs(10))).capacity(1);
    let layer =
        layer_with(Rule::new("paced", [queue]).key(by_peer())).clock(ManualClock::new()).build().unwrap();
    let client = [("peer", "192.0.2.1")];
    assert_eq!(status(&layer, "/", &client).await, 200);
    let response = send(&layer, request("/", &client)).await;
    assert_eq!(header(&response, "retry-after"), Some("10"));
}
