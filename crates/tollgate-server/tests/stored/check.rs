//! Decisions over HTTP.

use serde_json::{Value, json};

use crate::redis_server::{Server, Store};
use crate::support::{Running, start};

/// Rules with this store as `redis`, which has time enough on a loaded machine.
pub(crate) fn rules(url: &str, rules: &str) -> String {
    format!("stores.redis = {{ url = '{url}', deadline = '20s' }}\nrule = [{rules}]")
}

fn request() -> Value {
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

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_share_one_limit_exactly() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let rule = "{ name = 'shared', key = 'client', limits = '10/w,burst=10', store = 'redis' }";
    let text = rules(&redis.url(), rule);
    let (one, other) = (start(&text).await, start(&text).await);
    let (first, second) = tokio::join!(admitted(&one, 15), admitted(&other, 15));
    assert_eq!(first + second, 10);
    let said = one.ask("/v1/peek", &request()).await;
    assert_eq!(
        (&said["outcome"], &said["rule"], &said["remaining"]),
        (&json!("refused"), &json!("shared"), &json!(0))
    );
}
