//! Rules in shadow mode with a store: no request waits for it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::check::{left, request, rules, stored};
use crate::client;
use crate::support::{Running, start};
use tollgate_testing::stores::{Server, Store};
use tollgate_testing::wait::LONG;

const ASK: &str = r#"{ "client": "203.0.113.9" }"#;

fn in_shadow(units: u64) -> String {
    stored("shared", units, ", mode = 'shadow'")
}

async fn server(text: &str) -> Running {
    let text = format!("version = 1\n{text}");
    client::start(&text, |settings, _| settings.http.push("127.0.0.1:0".parse().unwrap())).await
}

/// The sum of the samples that begin so.
fn value(page: &str, begin: &str) -> f64 {
    let samples = page.lines().filter(|line| line.starts_with(begin));
    samples.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

/// Waits until so many of the shadow rule's checks have been decided; returns the page.
async fn until_decided(server: &Running, checks: f64) -> String {
    for _ in 0..3_000 {
        let page = server.administer("GET", "/metrics", "").text().to_owned();
        if value(&page, "tollgate_requests_total{rule=\"shared\",mode=\"shadow\"") == checks {
            return page;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{}", server.administer("GET", "/metrics", "").text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_rule_counts_in_its_store_and_refuses_nothing() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let url = redis.url();
    let shadow = server(&rules(&url, &in_shadow(3))).await;
    let enforced = start(&rules(&url, &stored("shared", 3, ""))).await;
    assert!((0..2).all(|_| shadow.check(ASK).status == 200));
    left(&enforced, 1).await;
    assert!((0..5).all(|_| shadow.check(ASK).status == 200));
    let page = until_decided(&shadow, 7.0).await;
    let own = "tollgate_requests_total{rule=\"shared\",mode=\"shadow\",outcome=";
    let counted = ["\"allowed\"", "\"limited\""].map(|outcome| value(&page, &format!("{own}{outcome}")));
    assert_eq!(counted, [3.0, 4.0], "what it would have said");
    assert_eq!(enforced.post("/v1/check", request().to_string()).await.status, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_store_slows_no_request_in_shadow() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    for _ in 0..10 {
        if slows_no_request(&redis).await {
            return;
        }
    }
    panic!("the machine is too busy");
}

/// A connection without an answer for a second is given up, and its trips end: `false` if the store
/// was stopped for so long. Its deadline is 20 s.
async fn slows_no_request(redis: &Server) -> bool {
    const BATCH: usize = 100;
    let local = "{ name = 'local', key = 'client', limits = '100000/s' }";
    let shadow = server(&rules(&redis.url(), &format!("{local}, {}", in_shadow(50)))).await;
    let without = server(&format!("rule = [{local}]")).await;
    assert_eq!(shadow.check(ASK).status, 200);
    until_decided(&shadow, 1.0).await;
    redis.freeze();
    let frozen = Instant::now();
    let median = |server: &Running| {
        let time = |_| {
            let asked = Instant::now();
            assert_eq!(server.check(ASK).status, 200);
            assert!(frozen.elapsed() < LONG / 2, "requests wait");
            asked.elapsed()
        };
        let mut times: Vec<_> = (0..50).map(time).collect();
        times.sort();
        times[25]
    };
    let (with, without) = (median(&shadow), median(&without));
    println!("{with:?} with the rule, {without:?} without it");
    assert!(with < without + Duration::from_millis(20), "{with:?} with the rule, {without:?} without it");
    // A look at the limits waits as little.
    let asked = Instant::now();
    let batch = json!({ "requests": vec![request(); BATCH] }).to_string();
    for _ in 0..11 {
        assert_eq!(shadow.check(&batch).status, 200);
    }
    assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
    let dropped = "tollgate_store_shadow_dropped_total{rule=\"shared\"";
    let begun = 50.0 + 11.0 * BATCH as f64;
    let page = shadow.administer("GET", "/metrics", "").text().to_owned();
    if frozen.elapsed() > Duration::from_millis(900) {
        redis.thaw();
        return false;
    }
    assert_eq!(value(&page, dropped), begun - 1_024.0);
    assert_eq!(value(&page, "tollgate_store_trips_in_flight{rule=\"shared\""), 1_024.0);
    redis.thaw();
    let page = until_decided(&shadow, 1.0 + 1_024.0).await;
    assert_eq!(value(&page, "tollgate_store_trips_in_flight{rule=\"shared\""), 0.0);
    assert_eq!(value(&page, "tollgate_store_trip_seconds_count{rule=\"shared\""), 1.0 + 1_024.0);
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_charge_is_settled_and_given_back() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let url = redis.url();
    let shadow = start(&rules(&url, &in_shadow(100))).await;
    let enforced = start(&rules(&url, &stored("shared", 100, ""))).await;
    let ticket = async |cost: u64| {
        let ask = json!({ "client": "203.0.113.9", "cost": cost, "ticket": true });
        shadow.ask("/v1/check", &ask).await["ticket"].as_str().unwrap().to_owned()
    };
    let settle =
        async |server: &Running, body: Value| server.ask("/v1/settle", &body).await["charged"].clone();
    let first = ticket(40).await;
    left(&enforced, 60).await;
    settle(&shadow, json!({ "ticket": first, "cancel": true })).await;
    left(&enforced, 100).await;
    // It is settled while the store is silent, so before it is charged.
    redis.freeze();
    let second = ticket(40).await;
    assert_eq!(settle(&shadow, json!({ "ticket": second, "cost": 15 })).await, 15);
    redis.thaw();
    left(&enforced, 85).await;
    // What the store would have refused is not charged by a settlement.
    let third = ticket(90).await;
    settle(&shadow, json!({ "ticket": third, "cost": 95 })).await;
    let _fourth = ticket(5).await;
    left(&enforced, 80).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    left(&enforced, 80).await;
}
