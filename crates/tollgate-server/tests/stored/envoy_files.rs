//! Files of envoyproxy/ratelimit whose counts a store keeps.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_rules::{StoreFailure, StoreServer};
use tollgate_rules_file::EnvoyCharge;
use tollgate_server::Settings;
use tollgate_testing::servers::{Running, loopback};
use tollgate_testing::stores::{Server, Store};

/// One file of the domain `d`. A year: no window ends while a test runs.
fn file(limits: &[(&str, u32, &str)]) -> String {
    let limit = |&(key, count, more): &(&str, u32, &str)| {
        format!("  - {{ key: {key}, rate_limit: {{ unit: year, requests_per_unit: {count} }}{more} }}\n")
    };
    format!("domain: d\ndescriptors:\n{}", limits.iter().map(limit).collect::<String>())
}

/// A server with this file and this store, which has time enough on a loaded machine.
async fn start(url: &str, text: &str, set: impl FnOnce(&mut Settings)) -> Running {
    let settings = |settings: &mut Settings, folder: &Path| {
        let path = folder.join("limits.yaml");
        std::fs::write(&path, text).unwrap();
        settings.envoy.push(path);
        let mut store = StoreServer::parse(url).unwrap();
        store.deadline = Duration::from_secs(20);
        settings.envoy_store = Some(store);
        settings.http.push(loopback());
        settings.admin.push(loopback());
        set(settings);
    };
    Running::start("", settings).await
}

/// A call of one descriptor for each key, with so many hits.
fn call(keys: &[&str], hits: u64) -> String {
    let one =
        |key: &&str| json!({ "entries": [{ "key": key, "value": "x" }], "hitsAddend": hits.to_string() });
    json!({ "domain": "d", "descriptors": keys.iter().map(one).collect::<Vec<_>>() }).to_string()
}

/// The status of the answer, and what remains of each descriptor.
async fn ask(server: &Running, keys: &[&str], hits: u64) -> (u16, Vec<u64>) {
    let answer = server.post("/json", call(keys, hits)).await;
    let statuses = answer.json()["statuses"].as_array().expect("statuses").clone();
    let left = |status: &Value| status["limitRemaining"].as_u64().unwrap_or_default();
    (answer.status.as_u16(), statuses.iter().map(left).collect())
}

/// Waits until a look at a key shows so many.
async fn left(server: &Running, key: &str, units: u64) {
    for _ in 0..3_000 {
        if ask(server, &[key], 0).await.1 == [units] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{units} expected, {:?} left of {key}", ask(server, &[key], 0).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_with_one_file_admit_its_limit_together() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let text = file(&[("k", 10, "")]);
    let servers = [start(&redis.url(), &text, |_| {}).await, start(&redis.url(), &text, |_| {}).await];
    let mut admitted = 0;
    for _ in 0..10 {
        for server in &servers {
            admitted += usize::from(ask(server, &["k"], 1).await.0 == 200);
        }
    }
    assert_eq!(admitted, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_of_two_servers_admit_no_more_than_a_limit() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    for charge in [EnvoyCharge::Each, EnvoyCharge::Together] {
        let _: String = redis.ask(&["FLUSHALL"]);
        let text = file(&[("k", 40, ""), ("wide", 1_000, "")]);
        let set = |settings: &mut Settings| settings.envoy_charge = charge;
        let servers = [start(&redis.url(), &text, set).await, start(&redis.url(), &text, set).await];
        let asks = (0..100).map(|number| {
            let server = &servers[number % 2];
            async move { usize::from(ask(server, &["k", "wide"], 1).await.0 == 200) }
        });
        let admitted: usize = futures_util::future::join_all(asks).await.into_iter().sum();
        match charge {
            EnvoyCharge::Each => {
                assert_eq!(admitted, 40);
                left(&servers[0], "wide", 900).await;
            }
            EnvoyCharge::Together => {
                // Calls that race for the last hits may all be refused.
                assert!((1..=40).contains(&admitted), "{admitted}");
                left(&servers[0], "wide", 1_000 - admitted as u64).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_hits_are_counted_in_a_store() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let text = file(&[("k", 10, "")]);
    let (one, other) = (start(&redis.url(), &text, |_| {}).await, start(&redis.url(), &text, |_| {}).await);
    assert_eq!(ask(&one, &["k"], 8).await, (200, vec![2]));
    assert_eq!(ask(&other, &["k"], 5).await, (429, vec![0]));
    // As in envoyproxy/ratelimit: 13 hits are beyond ten.
    assert_eq!(ask(&one, &["k"], 1).await, (429, vec![0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_call_is_charged_as_the_option_says() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let text = file(&[("one", 1, ""), ("wide", 50, "")]);
    for (charge, wide) in [(EnvoyCharge::Together, 49), (EnvoyCharge::Each, 47)] {
        let _: String = redis.ask(&["FLUSHALL"]);
        let set = |settings: &mut Settings| settings.envoy_charge = charge;
        let (one, other) = (start(&redis.url(), &text, set).await, start(&redis.url(), &text, set).await);
        assert_eq!(ask(&one, &["one", "wide"], 1).await, (200, vec![0, 49]));
        for server in [&other, &one] {
            assert_eq!(ask(server, &["one", "wide"], 1).await.0, 429);
        }
        assert_eq!(ask(&other, &["wide"], 0).await, (200, vec![wide]), "{charge:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_limit_counts_in_the_store_and_admits() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let dark = start(&redis.url(), &file(&[("k", 3, ", shadow_mode: true")]), |_| {}).await;
    let enforced = start(&redis.url(), &file(&[("k", 3, "")]), |_| {}).await;
    assert_eq!(ask(&dark, &["k"], 1).await, (200, vec![2]));
    assert_eq!(ask(&enforced, &["k"], 1).await, (200, vec![1]));
    for _ in 0..4 {
        assert_eq!(ask(&dark, &["k"], 1).await.0, 200);
    }
    assert_eq!(ask(&enforced, &["k"], 1).await.0, 429);
    let page = dark.administer("GET", "/metrics", "");
    let over = "tollgate_envoy_over_limit_total{limit=\"d.k\",mode=\"shadow\"} 3";
    assert!(page.text().lines().any(|line| line == over), "{over}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_unit_is_kept_in_the_store() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let units = ["second", "minute", "hour", "day", "week", "month", "year"];
    let limit = |unit: &&str| {
        format!("  - {{ key: {unit}, rate_limit: {{ unit: {unit}, requests_per_unit: 4294967295 }} }}\n")
    };
    let text: String = units.iter().map(limit).collect();
    let server = start(&redis.url(), &format!("domain: d\ndescriptors:\n{text}"), |_| {}).await;
    assert_eq!(ask(&server, &units, 3).await, (200, vec![4_294_967_292; 7]));
    let widths = [1, 60, 3_600, 86_400, 604_800, 2_592_000, 31_536_000_u64];
    for width in &widths[1..] {
        assert_eq!(redis.keys(&format!("*:_envoy:f{}", width * 1_000_000)).len(), 1, "{width}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_the_store_are_short_and_repeat_no_value() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let server = start(&redis.url(), &file(&[("k", 3, "")]), |_| {}).await;
    let value = "customer".repeat(10_000);
    let call = json!({ "domain": "d", "descriptors": [{ "entries": [{ "key": "k", "value": value }] }] });
    assert_eq!(server.post("/json", call.to_string()).await.status, 200);
    let keys = redis.keys("*");
    let [key] = &*keys else { panic!("one key, not {keys:?}") };
    assert!(key.len() < 100 && !key.contains("customer"), "{key}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_option_says_what_a_dead_store_means_for_files() {
    let Some(mut redis) = Server::start(Store::Redis) else { return };
    let text = file(&[("k", 4, ""), ("dark", 4, ", shadow_mode: true"), ("none", 0, "")]);
    let one = async |on_failure| {
        start(&redis.url(), &text, |settings| settings.envoy_store_failure = on_failure).await
    };
    let refuses = one(StoreFailure::default()).await;
    let allows = one(StoreFailure::Allow).await;
    let shares = one(StoreFailure::Local { nodes: 2 }).await;
    for server in [&refuses, &allows, &shares] {
        assert_eq!(ask(server, &["k"], 1).await.0, 200);
    }
    redis.kill();

    let answer = refuses.post("/json", call(&["k"], 1)).await;
    assert_eq!((answer.status.as_u16(), answer.json()["overallCode"].clone()), (429, json!("OVER_LIMIT")));
    assert_eq!(answer.json()["statuses"][0]["durationUntilReset"], "1s");
    assert_eq!(ask(&refuses, &["dark"], 1).await.0, 200, "a shadow limit refuses nothing");
    let unavailable = "tollgate_decisions_total{listener=\"http\",outcome=\"unavailable\"} 1";
    assert!(refuses.administer("GET", "/metrics", "").text().lines().any(|line| line == unavailable));

    let admitted = async |server: &Running| {
        let mut admitted = 0;
        for _ in 0..6 {
            admitted += usize::from(ask(server, &["k"], 1).await.0 == 200);
        }
        admitted
    };
    assert_eq!((admitted(&allows).await, ask(&allows, &["none"], 1).await.0), (6, 429));
    assert_eq!((admitted(&shares).await, ask(&shares, &["none"], 1).await.0), (2, 429));

    redis.restart();
    // The store has forgotten, and counts again.
    left(&refuses, "k", 4).await;
    assert_eq!(ask(&refuses, &["k"], 1).await, (200, vec![3]));
    left(&shares, "k", 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_files_starts_without_their_store() {
    let Some(mut redis) = Server::start(Store::Redis) else { return };
    redis.kill();
    let server = start(&redis.url(), &file(&[("k", 4, "")]), |_| {}).await;
    assert_eq!(ask(&server, &["k"], 1).await.0, 429);
    redis.restart();
    left(&server, "k", 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_of_the_file_keeps_counts_in_the_store() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let server = start(&redis.url(), &file(&[("k", 5, "")]), |_| {}).await;
    assert_eq!(ask(&server, &["k"], 3).await, (200, vec![2]));
    std::fs::write(server.folder.path().join("limits.yaml"), file(&[("k", 100, "")])).unwrap();
    assert_eq!(server.administer("POST", "/admin/reload", "").status, 200);
    assert_eq!(ask(&server, &["k"], 1).await, (200, vec![96]));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_tell_the_store_of_files_without_its_password() {
    let Some(redis) = Server::start_with(Store::Redis, &["--requirepass hidden"]) else { return };
    let url = format!("redis://:hidden@127.0.0.1:{}/3", redis.port());
    let server = start(&url, &file(&[("k", 5, "")]), |_| {}).await;
    assert_eq!(ask(&server, &["k"], 1).await.0, 200);
    let store = format!("redis://127.0.0.1:{}/3", redis.port());
    let page = server.administer("GET", "/metrics", "").text().to_owned();
    let own = format!("rule=\"(envoy)\",tier=\"year\",store=\"{store}\"");
    for sample in [
        format!("tollgate_store_decisions_total{{{own},by=\"store\",outcome=\"allowed\"}} 1"),
        format!("tollgate_store_breaker_open{{store=\"{store}\"}} 0"),
    ] {
        assert!(page.lines().any(|line| line == sample), "{sample} in {page}");
    }
    for path in ["/admin/rules", "/admin/live"] {
        let shown = server.administer("GET", path, "");
        assert_eq!(shown.json()["envoy"]["store"], *store, "{path}");
        assert!(!shown.text().contains("hidden") && !page.contains("hidden"), "{path}");
    }
}

#[tokio::test]
async fn no_share_of_no_servers_is_begun() {
    let folder = tollgate_testing::folder::Folder::new();
    let mut settings = Settings::new(folder.write("rules.toml", "version = 1"));
    settings.envoy.push(folder.write("limits.yaml", file(&[("k", 5, "")])));
    settings.envoy_store = Some(StoreServer::parse("redis://127.0.0.1:1").unwrap());
    settings.envoy_store_failure = StoreFailure::Local { nodes: 0 };
    let error = tollgate_server::Server::start(settings).await.unwrap_err().to_string();
    assert!(error.contains("--envoy-store") && error.contains("nodes is 0"), "{error}");
}
