//! Rules whose counts are kept in a real Redis.

use std::time::Duration;

use tollgate_tower::RulesLayer;
use tower::Layer;

use super::{File, X, status, statuses};
use crate::support::{Echo, request};

use tollgate_testing::stores::{Server, Store};

/// A rule that does not refill while a test runs, with its counts in a store that has time enough.
fn rules(url: &str, count: u64, more: &str) -> String {
    let limits = format!("limits = '{count}/52w,burst={count}'");
    let rule = format!("{{ name = 'shared', key = 'client', {limits}, store = 'redis'{more} }}");
    format!("stores.redis = {{ url = '{url}', deadline = '20s' }}\nrule = [{rule}]")
}

fn layer(rules: &str) -> RulesLayer {
    File::new(rules).layer().on_reload(|_| {}).build().unwrap()
}

/// How many of the requests are served.
async fn served(layer: &RulesLayer, requests: usize) -> usize {
    let statuses = statuses(layer, requests, "/", &[X]).await;
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    statuses.into_iter().filter(|status| *status == 200).count()
}

/// Waits until exactly so many requests more are served: a task of its own refunds.
async fn serves_again(layer: &RulesLayer, requests: usize) {
    let mut more = 0;
    for _ in 0..3_000 {
        more += served(layer, 1).await;
        if more == requests {
            return assert_eq!(served(layer, 3).await, 0);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{more} of {requests}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_layers_share_one_limit_exactly() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let text = rules(&redis.url(), 10, "");
    let (one, other) = (layer(&text), layer(&text));
    let (first, second) = tokio::join!(served(&one, 15), served(&other, 15));
    assert_eq!(first + second, 10);
    let refused = super::send(&other, "/", &[X]).await;
    assert!(refused.headers().contains_key("retry-after"), "{refused:?}");
    assert_eq!(refused.headers()["ratelimit"].to_str().unwrap().split(';').nth(1), Some("r=0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_layer_decides_for_its_dead_store() {
    let Some(mut redis) = Server::start(Store::Redis) else { return };
    let url = redis.url();
    let (refuses, allows) = (layer(&rules(&url, 4, "")), layer(&rules(&url, 4, ", on_failure = 'allow'")));
    let shares = layer(&rules(&url, 4, ", on_failure = { local = 2 }"));
    assert_eq!(served(&refuses, 1).await + served(&allows, 1).await + served(&shares, 1).await, 3);
    redis.kill();
    assert_eq!(status(&refuses, "/", &[X]).await, 503);
    assert_eq!((served(&allows, 6).await, served(&shares, 6).await), (6, 2));
    let [counts] = &shares.stores()[..] else { panic!("one rule has a store") };
    assert_eq!((&*counts.rule, &*counts.store, counts.counts.breaker.is_open), ("shared", &*url, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uncharged_response_is_given_back_to_the_store() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let text = rules(&redis.url(), 2, ", charge_if.status = [401]");
    let (one, other) = (layer(&text), layer(&text));
    for _ in 0..6 {
        // Each request needs room: it comes back when the one before has been answered.
        becomes(&one, "200").await;
    }
    becomes(&other, "401").await;
    becomes(&other, "401").await;
    assert_eq!(status(&one, "/", &[X, ("x-want", "401")]).await, 429);
}

/// Waits until the inner service answers a request with this status.
async fn becomes(layer: &RulesLayer, wanted: &str) {
    for _ in 0..3_000 {
        let status = status(layer, "/", &[X, ("x-want", wanted)]).await;
        if status.to_string() == wanted {
            return;
        }
        assert_eq!(status, 429);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing comes back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_unserved_is_given_back() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let layer = layer(&rules(&redis.url(), 3, ""));
    // The inner service is never ready.
    let busy = tower::limit::ConcurrencyLimit::new(Echo, 0);
    for _ in 0..3 {
        let response = tower::ServiceExt::oneshot(layer.layer(busy.clone()), request("/", &[X]));
        assert!(tokio::time::timeout(Duration::from_secs(1), response).await.is_err());
    }
    serves_again(&layer, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_adds_and_removes_a_store() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let local = "rule = [{ name = 'shared', key = 'client', limits = '4/52w,burst=4' }]";
    let file = File::new(local);
    let layer = file.layer().on_reload(|_| {}).build().unwrap();
    assert_eq!(served(&layer, 1).await, 1);

    file.write(&rules(&redis.url(), 4, ""));
    let error = layer.reload().unwrap_err().to_string();
    assert!(error.contains("another store keeps its counts") && error.contains("1 key owes"), "{error}");
    assert_eq!(served(&layer, 1).await, 1);
    file.write(&rules(&redis.url(), 4, ", forget = true"));
    layer.reload().unwrap();
    assert_eq!(served(&layer, 3).await, 3);

    // Another burst, the same store: charges stay.
    file.write(&rules(&redis.url(), 4, "").replace("burst=4", "burst=6"));
    layer.reload().unwrap();
    assert_eq!(served(&layer, 9).await, 3);

    file.write(local);
    assert!(layer.reload().is_err());
    file.write(&local.replace(" }]", ", forget = true }]"));
    layer.reload().unwrap();
    assert_eq!(served(&layer, 9).await, 4);
}
