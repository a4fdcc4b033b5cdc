//! Decisions over HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Running, start};
use crate::two_servers;
use tollgate_testing::stores::{Server, Store};

/// Rules with this store as `redis`, which has time enough on a loaded machine.
pub(crate) fn rules(url: &str, rules: &str) -> String {
    format!("stores.redis = {{ url = '{url}', deadline = '20s' }}\nrule = [{rules}]")
}

/// A rule for each client with this limit, which does not refill while a test runs.
pub(crate) fn rule(name: &str, count: u64, more: &str) -> String {
    format!("{{ name = '{name}', key = 'client', limits = '{count}/52w,burst={count}'{more} }}")
}

/// The same, with its counts in the store.
pub(crate) fn stored(name: &str, count: u64, more: &str) -> String {
    rule(name, count, &format!(", store = 'redis'{more}"))
}

pub(crate) fn request() -> Value {
    json!({ "client": "203.0.113.9" })
}

/// How many of so many checks are admitted.
async fn admitted(server: &Running, checks: usize) -> usize {
    let mut admitted = 0;
    for _ in 0..checks {
        let status = server.post("/v1/check", request().to_string()).await.status;
        assert!(status == 200 || status == 429, "{status}");
        admitted += usize::from(status == 200);
    }
    admitted
}

/// The outcome of a peek of this cost, and the remaining units.
pub(crate) async fn peek(server: &Running, cost: u64) -> (String, u64) {
    let said = server.ask("/v1/peek", &json!({ "client": "203.0.113.9", "cost": cost })).await;
    (said["outcome"].as_str().unwrap().to_owned(), said["remaining"].as_u64().unwrap_or_default())
}

/// Waits until so many units remain: a task of its own refunds them.
pub(crate) async fn left(server: &Running, units: u64) {
    for _ in 0..3_000 {
        if peek(server, 0).await.1 == units {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{units} expected, {:?} left", peek(server, 0).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_share_one_limit_exactly() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let text = rules(&redis.url(), &stored("shared", 10, ""));
    let (one, other) = (start(&text).await, start(&text).await);
    let (first, second) = tokio::join!(admitted(&one, 15), admitted(&other, 15));
    assert_eq!(first + second, 10);
    let said = one.ask("/v1/peek", &request()).await;
    let seen = (&said["outcome"], &said["rule"], &said["remaining"]);
    assert_eq!(seen, (&json!("refused"), &json!("shared"), &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_with_leases_share_one_limit() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let leases = ", leases = { nodes = 2, ttl = '20s' }";
    let text = rules(&redis.url(), &stored("shared", 200, leases));
    let (one, other) = (start(&text).await, start(&text).await);
    let (first, second) = tokio::join!(admitted(&one, 150), admitted(&other, 150));
    // A server that was refused may have been so because of permits that the other one held.
    assert!((150..=200).contains(&(first + second)), "{first} and {second}");
    let scripts: String = redis.ask(&["INFO", "commandstats"]);
    let calls = scripts.lines().filter_map(|line| line.strip_prefix("cmdstat_eval")?.split_once("calls="));
    let trips: usize = calls.map(|(_, rest)| rest.split(',').next().unwrap().parse::<usize>().unwrap()).sum();
    assert!(trips < 150, "{trips} trips for 300 checks");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_in_a_store_charges_no_other_rule() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let all = [stored("wide", 50, ""), stored("narrow", 3, ""), rule("local", 60, "")].join(", ");
    let server = start(&rules(&redis.url(), &all)).await;
    assert_eq!(admitted(&server, 8).await, 3);
    // Without the narrow rule the others show what they were charged.
    let others = [stored("wide", 50, ""), rule("local", 60, "")].join(", ");
    let other = start(&rules(&redis.url(), &others)).await;
    left(&other, 47).await;
    std::fs::write(server.rules(), format!("version = 1\nrule = [{}]", rule("local", 60, ""))).unwrap();
    for _ in 0..3_000 {
        let said = server.ask("/v1/peek", &json!({ "client": "203.0.113.9", "cost": 0 })).await;
        if said["generation"] == 2 {
            assert_eq!(said["remaining"], 57);
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the new rules are not in force");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_refusal_asks_no_store() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let all = [stored("wide", 50, ""), rule("local", 2, "")].join(", ");
    let server = start(&rules(&redis.url(), &all)).await;
    assert_eq!(admitted(&server, 2).await, 2);
    let evals = || {
        let stats: String = redis.ask(&["INFO", "commandstats"]);
        stats.lines().filter(|line| line.starts_with("cmdstat_eval")).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = evals();
    assert_eq!(admitted(&server, 5).await, 0);
    assert_eq!((evals(), before.is_empty()), (before, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_rule_says_what_a_dead_store_means() {
    let Some(mut redis) = Server::start(Store::Redis) else { return };
    let url = redis.url();
    let one = |more: &str| rules(&url, &stored("shared", 4, more));
    let refuses = start(&one("")).await;
    let allows = start(&one(", on_failure = 'allow'")).await;
    let shares = start(&one(", on_failure = { local = 2 }")).await;
    assert_eq!(admitted(&refuses, 1).await + admitted(&allows, 1).await + admitted(&shares, 2).await, 4);
    redis.kill();

    let answer = refuses.post("/v1/check", request().to_string()).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["outcome"]), (503, &json!("unavailable")));
    assert_eq!((answer.header("retry-after"), &answer.json()["rule"]), ("1", &json!("shared")));
    assert_eq!(admitted(&allows, 6).await, 6);
    assert_eq!(admitted(&shares, 6).await, 2);
    assert_eq!(refuses.server.addresses().count(), 1);

    redis.restart();
    for _ in 0..3_000 {
        if refuses.post("/v1/check", request().to_string()).await.status == 200 {
            // The store has forgotten, and counts again.
            return left(&refuses, 3).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the store is back, and the rule refuses");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_without_its_store() {
    let Some(mut redis) = Server::start(Store::Redis) else { return };
    redis.kill();
    let server = start(&rules(&redis.url(), &stored("shared", 4, ", on_failure = 'allow'"))).await;
    assert_eq!(admitted(&server, 9).await, 9);
    redis.restart();
    for _ in 0..3_000 {
        if peek(&server, 0).await == ("admitted".into(), 4) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the server does not find its store");
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_give_back_to_the_store() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let text = rules(&redis.url(), &stored("shared", 100, ""));
    let (one, other) = (start(&text).await, start(&text).await);
    let ticket = async |cost: u64| {
        let ask = json!({ "client": "203.0.113.9", "cost": cost, "ticket": true });
        one.ask("/v1/check", &ask).await["ticket"].as_str().unwrap().to_owned()
    };
    let settle = async |body: Value| {
        let answer = one.post("/v1/settle", body.to_string()).await;
        assert_eq!(answer.status, 200);
        answer.json()["charged"].clone()
    };
    let first = ticket(40).await;
    assert_eq!(peek(&other, 0).await.1, 60);
    settle(json!({ "ticket": first, "cancel": true })).await;
    left(&other, 100).await;

    let second = ticket(40).await;
    assert_eq!(settle(json!({ "ticket": second, "cost": 15 })).await, 15);
    left(&other, 85).await;
    let third = ticket(20).await;
    assert_eq!(settle(json!({ "ticket": third, "cost": 50 })).await, 20);
    left(&other, 35).await;
    // More than is left: as much as there is, and no more.
    let fourth = ticket(20).await;
    assert_eq!(settle(json!({ "ticket": fourth, "cost": 90 })).await, 20);
    left(&other, 0).await;
}

/// The page has the output of the example.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_says_what_the_page_says() {
    let Some(_is_there) = Server::start(Store::Redis) else { return };
    let (lines, told) = std::sync::mpsc::channel();
    two_servers::run(move |line| lines.send(line).unwrap()).await.unwrap();
    let told: String = told.iter().map(|line| line + "\n").collect();
    assert!(include_str!("../../../../docs/how-to/several-machines.md").contains(&told), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cost_settled_late_is_not_charged_again() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let rule = stored("shared", 20, "").replace("20/52w,burst=20", "fixed-window:20/3s");
    assert!(rule.contains("fixed-window"), "{rule}");
    let server = start(&rules(&redis.url(), &rule)).await;
    let ask = json!({ "client": "203.0.113.9", "cost": 10, "ticket": true });
    let ticket = server.ask("/v1/check", &ask).await["ticket"].clone();
    // The next window.
    tokio::time::sleep(Duration::from_millis(3_100)).await;
    server.ask("/v1/settle", &json!({ "ticket": ticket, "cost": 4 })).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(peek(&server, 0).await.1, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_is_not_charged_comes_back() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let rule = stored("failed", 10, ", charge_if.status = [401]");
    let server = start(&rules(&redis.url(), &rule)).await;
    for (status, expected) in [(401, 9), (200, 9), (401, 8), (500, 8)] {
        let ask = json!({ "client": "203.0.113.9", "ticket": true });
        let ticket = server.ask("/v1/check", &ask).await["ticket"].clone();
        server.ask("/v1/settle", &json!({ "ticket": ticket, "status": status })).await;
        left(&server, expected).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_together_charges_a_store_all_or_nothing() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let server = start(&rules(&redis.url(), &stored("shared", 5, ""))).await;
    let batch = json!({ "together": true, "requests": vec![request(); 4] });
    assert_eq!(server.ask("/v1/check", &batch).await["admitted"], true);
    left(&server, 1).await;
    assert_eq!(server.ask("/v1/check", &batch).await["admitted"], false);
    left(&server, 1).await;
}
