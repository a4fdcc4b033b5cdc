//! Figures of stores, and what must not be in them.

use serde_json::json;

use crate::check::stored;
use crate::client;
use tollgate_testing::stores::{Server, Store};

const ASK: &str = r#"{ "client": "203.0.113.9" }"#;

#[tokio::test(flavor = "multi_thread")]
async fn no_page_and_no_error_tells_a_stores_password() {
    let Some(mut redis) = Server::start_with(Store::Redis, &["--requirepass hidden"]) else { return };
    let url = format!("redis://:hidden@127.0.0.1:{}/3", redis.port());
    let text = |url: &str| {
        let rule = stored("shared", 2, "");
        format!("version = 1\nstores.redis = {{ url = '{url}', deadline = '20s' }}\nrule = [{rule}]")
    };
    let server = client::start(&text(&url), |settings, _| {
        settings.http.push("127.0.0.1:0".parse().unwrap());
    })
    .await;
    let statuses: Vec<_> = (0..3).map(|_| server.check(ASK).status).collect();
    assert_eq!(statuses, [200, 200, 429]);
    redis.kill();
    assert_eq!(server.check(ASK).status, 503);
    assert_eq!(server.administer("GET", "/readyz", "").status, 200);

    let metrics = server.administer("GET", "/metrics", "");
    let page = metrics.text();
    let store = format!("store=\"redis://127.0.0.1:{}/3\"", redis.port());
    let own = format!("rule=\"shared\",tier=\"\",{store}");
    for sample in [
        format!("tollgate_store_decisions_total{{{own},by=\"store\",outcome=\"allowed\"}} 2"),
        format!("tollgate_store_decisions_total{{{own},by=\"store\",outcome=\"limited\"}} 1"),
        format!("tollgate_store_breaker_open{{{store}}} 1"),
        format!("tollgate_store_breaker_transitions_total{{{store},to=\"open\"}} 1"),
        "tollgate_requests_total{rule=\"shared\",mode=\"enforced\",outcome=\"unavailable\"} 1".to_owned(),
        "tollgate_decisions_total{listener=\"http\",outcome=\"unavailable\"} 1".to_owned(),
    ] {
        assert!(page.contains(&format!("{sample}\n")), "{sample} in {page}");
    }
    let shown = server.administer("GET", "/admin/rules", "");
    let order = json!({ "request": { "client": "203.0.113.9" }, "do": "peek" }).to_string();
    let key = server.administer("POST", "/admin/keys/shared", &order);
    let plan = server.administer("POST", "/admin/plan", &text(&url.replace("redis://", "redi://")));
    assert_eq!(
        [key.status, plan.status].map(|status| status.as_u16()),
        [422, 422],
        "{} {}",
        key.text(),
        plan.text()
    );
    assert!(plan.text().contains("another scheme"), "{}", plan.text());
    for page in [page, shown.text(), key.text(), plan.text()] {
        assert!(!page.contains("hidden"), "{page}");
    }
}

/// The alerts of `docs/monitoring` ask for these series, and their tests make them up.
#[tokio::test(flavor = "multi_thread")]
async fn alerts_see_a_dead_store_whoever_decides() {
    let Some(mut redis) = Server::start(Store::Redis) else { return };
    let alerts = include_str!("../../../../docs/monitoring/alerts.yml");
    let text = format!(
        "version = 1\nstores.redis = {{ url = '{}', deadline = '20s' }}\nrule = [{}, {}]",
        redis.url(),
        stored("open", 9, ", on_failure = 'allow'"),
        stored("share", 9, ", on_failure = { local = 1 }"),
    );
    let server = client::start(&text, |settings, _| {
        settings.http.push("127.0.0.1:0".parse().unwrap());
    })
    .await;
    redis.kill();
    for _ in 0..3 {
        assert_eq!(server.check(ASK).status, 200);
    }
    let metrics = server.administer("GET", "/metrics", "");
    let page = metrics.text();
    for (rule, by) in [("open", "on_failure"), ("share", "local")] {
        let decided = page.lines().any(|line| {
            line.starts_with(&format!("tollgate_store_decisions_total{{rule=\"{rule}\""))
                && line.contains(&format!("by=\"{by}\",outcome=\"allowed\"}} 3"))
        });
        assert!(decided, "{rule} by {by} in {page}");
    }
    assert!(alerts.contains("tollgate_store_decisions_total{by=~\"local|on_failure\"}"));
    assert!(
        page.lines().any(|line| line.starts_with("tollgate_store_breaker_open{") && line.ends_with(" 1"))
    );
    for series in ["(tollgate_store_breaker_open)", "(tollgate_state_save_failures_total["] {
        assert!(alerts.contains(series), "{series}");
    }
}
