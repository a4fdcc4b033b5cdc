//! `/v1/auth`, asked as a proxy asks.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt;

use tollgate_testing::http::Answer;

use super::support::{Running, start, start_with};

const RULES: &str = "rule = [{ name = 'each', key = 'client', limits = '1/h,burst=2' }]";
const X: &str = "203.0.113.9";

async fn auth(server: &Running, query: &str, headers: &[(&str, &str)]) -> Answer {
    server.call("GET", &format!("/v1/auth{query}"), headers, "").await
}

fn forwarded<'h>(uri: &'h str, client: &'h str) -> [(&'h str, &'h str); 4] {
    [
        ("x-forwarded-method", "POST"),
        ("x-forwarded-uri", uri),
        ("x-forwarded-host", "a.test"),
        ("x-forwarded-for", client),
    ]
}

async fn left(server: &Running, client: &str) -> u64 {
    server.ask("/v1/peek", &json!({ "client": client, "cost": 0 })).await["remaining"].as_u64().unwrap()
}

#[tokio::test]
async fn forward_auth_of_case_28() {
    let server = start(RULES).await;
    for _ in 0..2 {
        let answer = auth(&server, "", &forwarded("/x", X)).await;
        assert_eq!(answer.status, 200);
        assert!(answer.header("ratelimit").starts_with("\"each\";r="), "{:?}", answer.headers);
    }
    let answer = auth(&server, "", &forwarded("/x", X)).await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (429, "3600"));
    assert_eq!(answer.header("content-type"), "application/problem+json");
    let answer = auth(&server, "?deny=403", &forwarded("/x", X)).await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (403, "3600"));
    assert!(answer.body.is_empty());

    let untrusting =
        start_with(RULES, |settings| settings.auth_trusted = vec!["10.0.0.0/8".parse().unwrap()]).await;
    assert_eq!(auth(&untrusting, "", &forwarded("/x", X)).await.status, 400);
    let call = json!({ "client": X }).to_string();
    let long = format!("{call}{}", " ".repeat((2 << 20) - call.len()));
    assert_eq!(untrusting.post("/v1/check", long).await.status, 413);
    let many = json!({ "requests": vec![json!({ "client": X }); 1001] }).to_string();
    assert_eq!(untrusting.post("/v1/check", many).await.status, 400);
    assert_eq!(left(&untrusting, X).await, 2, "nothing is charged");
}

#[tokio::test]
async fn a_preflight_of_a_named_page_is_free() {
    let server = start(&format!("cors = ['https://shop.example']\n{RULES}")).await;
    let preflight = |origin: &'static str| {
        let mut headers = forwarded("/x", X).to_vec();
        headers[0].1 = "OPTIONS";
        headers.extend([("origin", origin), ("access-control-request-method", "PUT")]);
        headers
    };
    for _ in 0..3 {
        let answer = auth(&server, "", &preflight("https://shop.example")).await;
        assert_eq!((answer.status.as_u16(), answer.headers.get("ratelimit")), (200, None));
    }
    assert_eq!(left(&server, X).await, 2);
    for status in [200, 200, 429] {
        assert_eq!(auth(&server, "", &preflight("https://other.example")).await.status, status);
    }
    let mut page = forwarded("/x", X).to_vec();
    page.push(("origin", "https://shop.example"));
    let refused = auth(&server, "", &page).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("access-control-allow-origin"), "https://shop.example");
    assert_eq!(auth(&server, "", &preflight("https://shop.example")).await.status, 200);
}

#[tokio::test]
async fn requests_that_are_not_named_are_refused() {
    let server = start(RULES).await;
    let whole = forwarded("/x", X);
    for missing in 0..2 {
        let headers: Vec<_> =
            whole.iter().enumerate().filter(|(index, _)| *index != missing).map(|(_, one)| *one).collect();
        assert_eq!(auth(&server, "", &headers).await.status, 400, "{headers:?}");
    }
    for twice in 0..3 {
        let headers: Vec<_> = whole.iter().chain([&whole[twice]]).copied().collect();
        assert_eq!(auth(&server, "", &headers).await.status, 400, "{headers:?}");
    }
    assert_eq!(auth(&server, "", &forwarded("/x", "203.0.113.9, unknown")).await.status, 400);
    assert_eq!(left(&server, X).await, 2);
}

#[tokio::test]
async fn queries_other_than_deny_mean_nothing() {
    let server = start(RULES.replace("burst=2", "burst=1").as_str()).await;
    assert_eq!(auth(&server, "?x=1", &forwarded("/x", X)).await.status, 200);
    for other in ["?deny", "?deny=200", "?deny=4o3", "?x=1", "?deny=403&x", "?deny=600"] {
        assert_eq!(auth(&server, other, &forwarded("/x", X)).await.status, 429, "{other}");
    }
}

#[tokio::test]
async fn the_client_is_who_the_proxy_saw() {
    let rules = format!("clients = {{ trusted_proxies = ['10.0.0.0/8'] }}\n{RULES}");
    let server = start(&rules).await;
    // A forged entry before that of the proxy.
    auth(&server, "", &forwarded("/x", "6.6.6.6, 203.0.113.9")).await;
    assert_eq!((left(&server, X).await, left(&server, "6.6.6.6").await), (1, 2));
    // The client of a client on this machine is not asked for.
    auth(&server, "", &forwarded("/x", "6.6.6.6, 127.0.0.1")).await;
    assert_eq!((left(&server, "127.0.0.1").await, left(&server, "6.6.6.6").await), (1, 2));
    // Behind a load balancer that the rules trust.
    auth(&server, "", &forwarded("/x", "6.6.6.6, 203.0.113.9, 10.0.0.7")).await;
    assert_eq!((left(&server, X).await, left(&server, "10.0.0.7").await), (0, 2));
}

#[tokio::test]
async fn labels_come_from_the_headers_that_are_named() {
    let rules = "rule = [{ name = 'users', key = 'label.user', limits = '1/h,burst=1', match.host = 'a.test', \
                 match.method = 'POST', match.path = '/x' }]";
    let set = |settings: &mut tollgate_server::Settings| {
        settings.auth_labels.push(("user".into(), "x-user".parse().unwrap()));
    };
    let server = start_with(rules, set).await;
    let call = |user| [&forwarded("/x?y", X)[..], &[("x-user", user)]].concat();
    assert_eq!(auth(&server, "", &call("a")).await.status, 200);
    assert_eq!(auth(&server, "", &call("a")).await.status, 429);
    assert_eq!(auth(&server, "", &call("b")).await.status, 200);
}

#[tokio::test]
async fn any_method_asks() {
    let server = start(RULES).await;
    for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"] {
        let client = format!("192.0.2.{}", method.len());
        server.call(method, "/v1/auth", &forwarded("/x", &client), "").await;
        assert_ne!(left(&server, &client).await, 2, "{method}");
    }
}

#[tokio::test]
async fn a_queued_request_is_answered_at_its_turn() {
    let rules = "rule = [{ name = 'queue', key = 'everyone', limits = 'leaky-bucket:5/s,capacity=3,mode=queue', max_wait = '1s' }]";
    let server = start(rules).await;
    let began = Instant::now();
    for _ in 0..3 {
        assert_eq!(auth(&server, "", &forwarded("/x", X)).await.status, 200);
    }
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_client_that_leaves_gives_its_turn_back() {
    let rules =
        "rule = [{ name = 'queue', key = 'everyone', limits = 'leaky-bucket:1/min,capacity=5,mode=queue' }]";
    let server = start(rules).await;
    assert_eq!(auth(&server, "", &forwarded("/x", X)).await.status, 200);
    let mut stream = tokio::net::TcpStream::connect(server.http()).await.unwrap();
    let text = "GET /v1/auth HTTP/1.1\r\nhost: a\r\nx-forwarded-method: GET\r\nx-forwarded-uri: /x\r\n\r\n";
    stream.write_all(text.as_bytes()).await.unwrap();
    let waiting = async || server.ask("/v1/peek", &json!({})).await["delay_ns"].as_u64().unwrap();
    let minute = 60_000_000_000;
    // Its turn is a minute later, and that of the next two.
    wait_until(async || waiting().await > minute).await;
    drop(stream);
    wait_until(async || waiting().await <= minute).await;
}

async fn wait_until(holds: impl AsyncFn() -> bool) {
    for _ in 0..100 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it did not come to hold");
}
