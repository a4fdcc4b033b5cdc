//! `/v1/settle`, `/v1/acquire`, `/v1/release`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::support::{Running, start};

async fn left(server: &Running) -> Value {
    server.ask("/v1/peek", &json!({ "cost": 0 })).await["remaining"].clone()
}

async fn ticket(server: &Running, path: &str) -> String {
    let said = server.ask(path, &json!({ "ticket": true })).await;
    said["ticket"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
}

#[tokio::test]
async fn a_status_settles_what_rules_charge_by_it() {
    let rules =
        "rule = [{ name = 'failed', key = 'everyone', limits = '1/h,burst=5', charge_if.status = [401] }]";
    let server = start(rules).await;
    for (status, after) in [(200, 5), (401, 4), (200, 4), (401, 3)] {
        let ticket = ticket(&server, "/v1/check").await;
        let answer =
            server.post("/v1/settle", json!({ "ticket": ticket, "status": status }).to_string()).await;
        assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({ "settled": true })));
        assert_eq!(left(&server).await, after);
    }
}

/// Tokens of an answer, whose number is known only when it ends.
const TOKENS: &str = "rule = [{ name = 'tokens', key = 'everyone', limits = 'fixed-window:100/1000d', \
    cost = { from = 'label.tokens', default = 50 }, charge_if.status = [200] }]";

#[tokio::test]
async fn a_cost_settles_what_was_charged_wrongly() {
    let server = start(TOKENS).await;
    for (settlement, charged, after) in [
        (json!({ "cost": 20 }), 20, 80),
        (json!({ "cost": 50, "status": 200 }), 50, 30),
        // Its status says that it is not charged, at any cost.
        (json!({ "cost": 70, "status": 500 }), 70, 30),
        (json!({ "cost": 0 }), 0, 30),
    ] {
        let said = server.ask("/v1/check", &json!({ "ticket": true, "labels": { "tokens": 10 } })).await;
        let mut settle = settlement.clone();
        settle["ticket"] = said["ticket"].clone();
        let answer = server.ask("/v1/settle", &settle).await;
        assert_eq!(answer, json!({ "settled": true, "charged": charged }), "{settlement}");
        let peek = json!({ "labels": { "tokens": 0 } });
        assert_eq!(server.ask("/v1/peek", &peek).await["remaining"], after, "{settlement}");
    }
    // Over the limit: nothing refuses it, and later requests wait for it.
    let said = server.ask("/v1/check", &json!({ "ticket": true, "labels": { "tokens": 30 } })).await;
    let settle = json!({ "ticket": said["ticket"], "cost": 130 });
    assert_eq!(server.ask("/v1/settle", &settle).await["charged"], 130);
    let refused = server.post("/v1/check", r#"{"labels":{"tokens":1}}"#).await;
    assert_eq!(refused.status, 429);
}

#[tokio::test]
async fn a_cost_above_all_time_has_a_wait_that_ends() {
    let server = start(&TOKENS.replace("fixed-window:100/1000d", "100/min")).await;
    let said = server.ask("/v1/check", &json!({ "ticket": true, "labels": { "tokens": 1 } })).await;
    let settle = json!({ "ticket": said["ticket"], "cost": i64::MAX });
    assert_eq!(server.ask("/v1/settle", &settle).await["settled"], true);
    let refused = server.post("/v1/check", r#"{"labels":{"tokens":1}}"#).await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, "2147483647"));
    let said = refused.json();
    for wait in ["retry_after_ns", "reset_ns"] {
        assert!(said[wait].as_u64().is_some_and(|wait| wait <= 2_147_483_647_000_000_000), "{said}");
    }
}

#[tokio::test]
async fn a_cost_concerns_requests_that_named_one() {
    let rules = "rule = [{ name = 'all', key = 'everyone', limits = 'fixed-window:100/1000d' }, \
        { name = 'own', key = 'everyone', limits = 'fixed-window:900/1000d', cost = 2 }]";
    let server = start(rules).await;
    // `all` charges one for a request that names no cost, at any later cost.
    let said = server.ask("/v1/check", &json!({ "ticket": true })).await;
    let settled = server.ask("/v1/settle", &json!({ "ticket": said["ticket"], "cost": 30 })).await;
    assert_eq!(settled, json!({ "settled": true }));
    assert_eq!(left(&server).await, 99);
    let said = server.ask("/v1/check", &json!({ "ticket": true, "cost": 10 })).await;
    let settled = server.ask("/v1/settle", &json!({ "ticket": said["ticket"], "cost": 30 })).await;
    assert_eq!(settled, json!({ "settled": true, "charged": 30 }));
    assert_eq!(left(&server).await, 69);
}

#[tokio::test]
async fn places_are_released_with_the_cost() {
    let rules = "rule = [{ name = 'tokens', key = 'everyone', limits = 'fixed-window:100/1000d' }, \
        { name = 'at-once', key = 'everyone', limits = 'in-flight:50,ttl=1d' }]";
    let server = start(rules).await;
    let said = server.ask("/v1/acquire", &json!({ "cost": 50 })).await;
    let release = json!({ "ticket": said["ticket"], "cost": 20 });
    assert_eq!(server.ask("/v1/release", &release).await, json!({ "settled": true, "charged": 20 }));
    let said = server.ask("/v1/acquire", &json!({ "cost": 50 })).await;
    assert_eq!((&said["rule"], &said["remaining"]), (&json!("at-once"), &json!(0)));
    assert_eq!(left(&server).await, 30);
}

#[tokio::test]
async fn a_ticket_settles_once() {
    let server = start("rule = [{ name = 'all', key = 'everyone', limits = '1/h,burst=5' }]").await;
    let ticket = ticket(&server, "/v1/check").await;
    assert_eq!((ticket.len(), left(&server).await), (32, json!(4)));
    let settle = json!({ "ticket": ticket, "cancel": true }).to_string();
    assert_eq!(server.post("/v1/settle", settle.clone()).await.status, 200);
    assert_eq!(server.post("/v1/settle", settle).await.status, 404);
    assert_eq!(left(&server).await, 5);
    for unknown in ["", "x", "00000000000000000000000000000000", "+0000000000000000000000000000000"] {
        let settle = json!({ "ticket": unknown, "status": 200 }).to_string();
        assert_eq!(server.post("/v1/settle", settle).await.status, 404, "{unknown}");
    }
}

#[tokio::test]
async fn wrong_settlements_leave_the_ticket() {
    let server = start("rule = [{ name = 'all', key = 'everyone', limits = '1/h,burst=5' }]").await;
    let ticket = ticket(&server, "/v1/check").await;
    for (wrong, pointer) in [
        (json!({ "ticket": ticket }), ""),
        (json!({ "ticket": ticket, "status": 99 }), "/status"),
        (json!({ "ticket": ticket, "status": null }), "/status"),
        (json!({ "ticket": ticket, "cancel": false }), ""),
        (json!({ "ticket": ticket, "status": 200, "cancel": true }), "/cancel"),
        (json!({ "ticket": ticket, "cost": 1, "cancel": true }), "/cancel"),
        (json!({ "ticket": ticket, "cost": -1 }), "/cost"),
        (json!({ "ticket": ticket, "cost": 1.5 }), "/cost"),
        (json!({ "ticket": ticket, "cost": null, "status": 200 }), "/cost"),
        (json!({ "ticket": ticket, "cancel": true, "x": 0 }), "/x"),
        (json!({ "ticket": ticket, "cancel": 1 }), "/cancel"),
        (json!({ "ticket": 7, "cancel": true }), "/ticket"),
        (json!([ticket, 200]), ""),
    ] {
        let answer = server.post("/v1/settle", wrong.to_string()).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["pointer"]), (400, &json!(pointer)), "{wrong}");
    }
    let settle = json!({ "ticket": ticket, "cancel": true }).to_string();
    assert_eq!(server.post("/v1/settle", settle).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_threads_settle_a_ticket_once() {
    let rules = "rule = [{ name = 'all', key = 'everyone', limits = 'fixed-window:1000/1000d' }]";
    let server = Arc::new(start(rules).await);
    for round in 1..=40 {
        let ticket = ticket(&server, "/v1/check").await;
        // A second charge, which a double settlement would give back.
        assert_eq!(server.post("/v1/check", "{}").await.status, 200);
        let settlers: Vec<_> = (0..8)
            .map(|_| {
                let (server, ticket) = (Arc::clone(&server), ticket.clone());
                tokio::spawn(async move {
                    let settle = json!({ "ticket": ticket, "cancel": true }).to_string();
                    server.post("/v1/settle", settle).await.status == 200
                })
            })
            .collect();
        let mut settled = 0;
        for settler in settlers {
            settled += u32::from(settler.await.unwrap());
        }
        assert_eq!((settled, left(&server).await), (1, json!(1000 - round)));
    }
}

#[tokio::test]
async fn places_come_back_when_they_are_released() {
    let server =
        start("rule = [{ name = 'at-once', key = 'everyone', limits = 'in-flight:2,ttl=10min' }]").await;
    let first = ticket(&server, "/v1/acquire").await;
    let _second = ticket(&server, "/v1/acquire").await;
    let answer = server.post("/v1/acquire", "{}").await;
    assert_eq!((answer.status.as_u16(), &answer.json()["outcome"]), (429, &json!("refused")));
    // It is no ticket of a check.
    let settle = json!({ "ticket": first, "status": 200 }).to_string();
    assert_eq!(server.post("/v1/settle", settle.clone()).await.status, 404);
    assert_eq!(server.post("/v1/release", settle).await.status, 200);
    assert_eq!(server.post("/v1/acquire", "{}").await.status, 200);
    assert_eq!(server.post("/v1/acquire", "{}").await.status, 429);
}

#[tokio::test]
async fn places_come_back_after_their_ttl() {
    let server =
        start("rule = [{ name = 'at-once', key = 'everyone', limits = 'in-flight:1,ttl=300ms' }]").await;
    let lost = ticket(&server, "/v1/acquire").await;
    assert_eq!(server.post("/v1/acquire", "{}").await.status, 429);
    tokio::time::sleep(std::time::Duration::from_millis(350)).await;
    assert_eq!(server.post("/v1/acquire", "{}").await.status, 200);
    // The lost one frees no place that another request has.
    server.post("/v1/release", json!({ "ticket": lost }).to_string()).await;
    assert_eq!(server.post("/v1/acquire", "{}").await.status, 429);
}
