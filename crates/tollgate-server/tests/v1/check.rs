//! `/v1/check`, `/v1/peek`, `/v1/reserve`.

use serde_json::json;

use super::support::{Running, start, start_with};

const EACH: &str = "rule = [{ name = 'each', key = 'client', limits = '1/h,burst=3' }]";

async fn remaining(server: &Running, client: &str) -> u64 {
    server.ask("/v1/peek", &json!({ "client": client, "cost": 0 })).await["remaining"].as_u64().unwrap()
}

#[tokio::test]
async fn a_check_answers_as_its_client_would_be() {
    let server = start(EACH).await;
    let call = json!({ "method": "GET", "host": "a.test", "target": "/x?y", "client": "203.0.113.9" });
    for left in [2, 1, 0] {
        let answer = server.post("/v1/check", call.to_string()).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("ratelimit"), format!("\"each\";r={left};t=3600"));
        assert_eq!(answer.header("content-type"), "application/json");
        let said = answer.json();
        assert_eq!((&said["outcome"], &said["rule"]), (&json!("admitted"), &json!("each")));
        assert_eq!((&said["remaining"], &said["limit"]), (&json!(left), &json!(3)));
        assert_eq!((&said["generation"], &said["delay_ns"]), (&json!(1), &json!(0)));
        assert_eq!(said["headers"]["ratelimit"], answer.header("ratelimit"));
    }
    let answer = server.post("/v1/check", call.to_string()).await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (429, "3600"));
    let said = answer.json();
    assert_eq!((&said["outcome"], &said["headers"]["retry-after"]), (&json!("refused"), &json!("3600")));
    let wait = said["retry_after_ns"].as_u64().unwrap();
    assert!((3_500_000_000_000..=3_600_000_000_000).contains(&wait), "{wait}");
}

#[tokio::test]
async fn a_peek_charges_nothing() {
    let server = start(EACH).await;
    for _ in 0..5 {
        let said = server.ask("/v1/peek", &json!({ "client": "203.0.113.9" })).await;
        assert_eq!((&said["outcome"], &said["remaining"]), (&json!("admitted"), &json!(2)));
    }
}

#[tokio::test]
async fn costs_keys_and_blocks_are_told_apart() {
    let rules = "rule = [
        { name = 'each', key = 'header.k', missing = 'refuse', limits = '1/h,burst=3', except.path = '/free' },
        { name = 'banned', match.client = '198.51.100.7', key = 'everyone', limits = 'block' }]";
    let server = start(rules).await;
    for (call, outcome) in [
        (json!({ "headers": { "K": "a" }, "cost": 4 }), "never"),
        (json!({ "headers": { "k": "a" }, "cost": 3 }), "admitted"),
        (json!({ "headers": { "k": "a" } }), "refused"),
        (json!({ "headers": { "k": ["a", "b"] } }), "no_key"),
        (json!({ "target": "/free" }), "admitted"),
        (json!({ "target": "/free", "client": "198.51.100.7" }), "blocked"),
    ] {
        let answer = server.post("/v1/check", call.to_string()).await;
        assert_eq!(answer.json()["outcome"], outcome, "{call}");
        assert_eq!(answer.status == 200, outcome == "admitted", "{call}");
    }
}

#[tokio::test]
async fn labels_and_cookies_reach_their_rules() {
    let rules = "rule = [
        { name = 'tokens', key = ['label.user', 'cookie.s'], cost = { from = 'label.n', default = 3 }, \
          limits = '1/h,burst=10' }]";
    let server = start(rules).await;
    let call = |n| json!({ "labels": { "user": "u", "n": n }, "headers": { "cookie": "a=b; s=1" } });
    assert_eq!(server.ask("/v1/check", &call(json!(4))).await["remaining"], 6);
    assert_eq!(server.ask("/v1/check", &call(json!("2"))).await["remaining"], 4);
    assert_eq!(server.ask("/v1/check", &call(json!("x"))).await["remaining"], 1);
}

#[tokio::test]
async fn a_batch_is_decided_one_by_one() {
    let server = start(EACH).await;
    let call = json!({ "client": "203.0.113.9" });
    let other = json!({ "client": "198.51.100.7" });
    let batch = json!({ "requests": [call, call, other, call, call] });
    let answer = server.post("/v1/check", batch.to_string()).await;
    assert_eq!(answer.status, 200);
    let said = answer.json();
    let outcomes: Vec<_> = said["results"].as_array().unwrap().iter().map(|one| &one["outcome"]).collect();
    assert_eq!(outcomes, ["admitted", "admitted", "admitted", "admitted", "refused"]);
    assert_eq!(said["admitted"], false);
    assert_eq!(
        server.ask("/v1/check", &json!({ "requests": [] })).await,
        json!({ "admitted": true, "results": [] })
    );
}

#[tokio::test]
async fn rules_in_flight_are_asked_by_acquire_only() {
    let server = start("rule = [{ name = 'at-once', key = 'everyone', limits = 'in-flight:1' }]").await;
    let held = server.ask("/v1/acquire", &json!({})).await;
    assert_eq!(held["outcome"], "admitted");
    for path in ["/v1/check", "/v1/peek", "/v1/reserve"] {
        assert_eq!(server.ask(path, &json!({})).await["outcome"], "admitted", "{path}");
    }
    assert_eq!(server.post("/v1/acquire", "{}").await.status, 429);
}

#[tokio::test]
async fn a_reservation_tells_when_it_may_act() {
    let rules =
        "rule = [{ name = 'queue', key = 'everyone', limits = 'leaky-bucket:1/min,capacity=5,mode=queue' }]";
    let server = start(rules).await;
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    for turn in 0..3 {
        let said = server.ask("/v1/reserve", &json!({ "ticket": true })).await;
        assert_eq!(said["outcome"], "admitted", "{said}");
        let not_before = said["not_before"].as_f64().unwrap() - unix;
        assert!((not_before - 60.0 * f64::from(turn)).abs() < 30.0, "{turn}: {not_before}");
        assert!(said["ticket"].is_string());
    }
}

#[tokio::test]
async fn wrong_bodies_are_located_and_charge_nothing() {
    let server = start(EACH).await;
    for (body, pointer) in [
        ("", ""),
        ("{", ""),
        ("[]", ""),
        ("null", ""),
        ("{} {}", ""),
        (r#"{"client":"203.0.113.9","kye":1}"#, "/kye"),
        (r#"{"client":"203.0.113.9","cost":"1"}"#, "/cost"),
        (r#"{"client":"203.0.113.9","cost":-1}"#, "/cost"),
        (r#"{"client":"203.0.113.9","cost":1.5}"#, "/cost"),
        (r#"{"client":"203.0.113.9","cost":18446744073709551616}"#, "/cost"),
        (r#"{"client":"203.0.113.9","cost":null}"#, "/cost"),
        (r#"{"client":"203.0.113.9","client":"203.0.113.9"}"#, "/client"),
        (r#"{"client":"nowhere"}"#, "/client"),
        (r#"{"client":"203.0.113.9","headers":{"a":[1]}}"#, "/headers/a/0"),
        (r#"{"client":"203.0.113.9","headers":{"a":{}}}"#, "/headers/a"),
        (r#"{"client":"203.0.113.9","labels":{"a/b":true}}"#, "/labels/a~1b"),
        (r#"{"client":"203.0.113.9","together":true}"#, "/together"),
        (r#"{"client":"203.0.113.9","requests":[]}"#, "/client"),
        (r#"{"requests":[{"client":"203.0.113.9"},{"cost":[]}]}"#, "/requests/1/cost"),
        (r#"{"requests":[{"client":"203.0.113.9"},{"requests":[]}]}"#, "/requests/1/requests"),
        (r#"{"requests":[{"client":"203.0.113.9"},7]}"#, "/requests/1"),
        ("{\"client\":\"203.0.113.9\",\n \"host\":\n \"\u{1}\"}", "/host"),
    ] {
        let answer = server.post("/v1/check", body).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("content-type")),
            (400, "application/problem+json"),
            "{body}"
        );
        assert_eq!(answer.json()["pointer"], pointer, "{body}: {}", answer.json());
    }
    assert_eq!(server.post("/v1/check", &b"{\"host\":\"\xff\"}"[..]).await.status, 400);
    let peek = server.post("/v1/peek", r#"{"requests":[{},{"ticket":true}]}"#).await;
    assert_eq!((peek.status.as_u16(), &peek.json()["pointer"]), (400, &json!("/requests/1/ticket")));
    assert_eq!(remaining(&server, "203.0.113.9").await, 3);
}

#[tokio::test]
async fn paths_methods_and_pages_that_are_not_served() {
    let server = start(EACH).await;
    assert_eq!(server.post("/v1/chekc", "{}").await.status, 404);
    assert_eq!(server.post("/v1/check/", "{}").await.status, 404);
    let answer = server.call("GET", "/v1/check", &[], "").await;
    assert_eq!((answer.status.as_u16(), answer.header("allow")), (405, "POST"));
    let answer = server.call("POST", "/openapi.json", &[], "").await;
    assert_eq!((answer.status.as_u16(), answer.header("allow")), (405, "GET, HEAD"));
    let page = [("origin", "https://evil.test"), ("content-type", "text/plain")];
    let answer = server.call("POST", "/v1/check", &page, r#"{"client":"203.0.113.9"}"#).await;
    assert_eq!((answer.status.as_u16(), remaining(&server, "203.0.113.9").await), (403, 3));
}

#[tokio::test]
async fn long_bodies_and_batches_charge_nothing() {
    let server = start(EACH).await;
    let call = r#"{"client":"203.0.113.9"}"#;
    let long = format!("{}{}", call, " ".repeat(2 << 20));
    assert_eq!(server.post("/v1/check", long).await.status, 413);
    let many = format!("{{\"requests\":[{}]}}", vec![call; 1001].join(","));
    let answer = server.post("/v1/check", many).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["pointer"]), (400, &json!("/requests")));
    assert_eq!(remaining(&server, "203.0.113.9").await, 3);
    let most = format!("{{\"requests\":[{}]}}", vec![call; 1000].join(","));
    assert_eq!(server.post("/v1/check", most).await.status, 200);
}

#[tokio::test]
async fn results_tell_the_generation_that_decided() {
    let server = start(EACH).await;
    let call = json!({ "client": "203.0.113.9" });
    assert_eq!(server.ask("/v1/check", &call).await["generation"], 1);
    std::fs::write(server.rules(), format!("version = 1\n{}", EACH.replace("burst=3", "burst=5"))).unwrap();
    assert_eq!(server.server.reload().unwrap(), 2);
    let said = server.ask("/v1/check", &call).await;
    assert_eq!((&said["generation"], &said["limit"]), (&json!(2), &json!(5)));
}

#[tokio::test]
async fn unmatched_requests_are_admitted_without_headers() {
    let server =
        start_with("rule = [{ name = 'x', match.path = '/x', key = 'client', limits = '1/h' }]", |_| {})
            .await;
    let said = server.ask("/v1/check", &json!({ "target": "/y" })).await;
    assert_eq!(said, json!({ "outcome": "admitted", "delay_ns": 0, "headers": {}, "generation": 1 }));
}
