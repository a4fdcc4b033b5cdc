//! Batches that are admitted as a whole or not at all.

use serde_json::{Value, json};

use super::support::start;

const RULES: &str = "rule = [{ name = 'each', key = 'client', limits = '1/h,burst=10' }]";

fn batch(clients: &[&str]) -> Value {
    let requests: Vec<_> = clients.iter().map(|client| json!({ "client": client })).collect();
    json!({ "requests": requests, "together": true })
}

fn outcomes(said: &Value) -> Vec<&str> {
    said["results"].as_array().unwrap().iter().map(|one| one["outcome"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_refused_request_charges_none_of_its_batch() {
    let server = start(RULES).await;
    let (x, y) = ("203.0.113.9", "198.51.100.7");
    assert_eq!(server.ask("/v1/check", &json!({ "client": y, "cost": 9 })).await["remaining"], 1);
    let said = server.ask("/v1/check", &batch(&[x, y, x, y, x])).await;
    assert_eq!(outcomes(&said), ["not_charged", "not_charged", "not_charged", "refused", "not_charged"]);
    assert_eq!(said["admitted"], false);
    assert!(said["results"][3]["headers"]["retry-after"].is_string());
    let left = async |client| {
        server.ask("/v1/peek", &json!({ "client": client, "cost": 0 })).await["remaining"].clone()
    };
    assert_eq!((left(x).await, left(y).await), (json!(10), json!(1)));
    let said = server.ask("/v1/check", &batch(&[x, y, x])).await;
    assert_eq!((outcomes(&said), &said["admitted"]), (vec!["admitted"; 3], &json!(true)));
    assert_eq!((left(x).await, left(y).await), (json!(8), json!(0)));
}

#[tokio::test]
async fn tickets_of_a_batch_are_its_own() {
    let server = start(RULES).await;
    let requests = json!([{ "client": "203.0.113.9", "ticket": true }, { "client": "203.0.113.9" }]);
    let said = server.ask("/v1/check", &json!({ "requests": requests, "together": true })).await;
    let ticket = said["results"][0]["ticket"].as_str().unwrap();
    assert!(said["results"][1].get("ticket").is_none());
    let settle = server.post("/v1/settle", json!({ "ticket": ticket, "cancel": true }).to_string()).await;
    assert_eq!(settle.status, 200);
    let left = server.ask("/v1/peek", &json!({ "client": "203.0.113.9", "cost": 0 })).await;
    assert_eq!(left["remaining"], 9);
}

#[tokio::test]
async fn a_peek_has_no_together() {
    let server = start(RULES).await;
    let answer = server.post("/v1/peek", batch(&["203.0.113.9"]).to_string()).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["pointer"]), (400, &json!("/together")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_batches_admit_no_more_than_the_limit() {
    let rules = "rule = [{ name = 'each', key = 'client', limits = 'fixed-window:1000/1000d' }]";
    let server = std::sync::Arc::new(start(rules).await);
    // Opposite orders, each of three units of two keys.
    let (x, y) = ("203.0.113.9", "198.51.100.7");
    let orders = [[x, y, x, y, x, y], [y, x, y, x, y, x]];
    let mut tasks = Vec::new();
    for number in 0..8 {
        let server = std::sync::Arc::clone(&server);
        tasks.push(tokio::spawn(async move {
            let mut admitted = 0;
            for _ in 0..60 {
                let said = server.ask("/v1/check", &batch(&orders[number % 2])).await;
                admitted += u64::from(said["admitted"] == json!(true));
            }
            admitted
        }));
    }
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.unwrap();
    }
    for client in [x, y] {
        let left = server.ask("/v1/peek", &json!({ "client": client, "cost": 0 })).await["remaining"].clone();
        assert_eq!(left, 1000 - 3 * admitted, "each admitted batch is charged as a whole, others not at all");
    }
    assert!(admitted <= 333 && admitted > 300, "{admitted}");
}
