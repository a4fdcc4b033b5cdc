//! What operators see of a table that has no room for new keys.

use tollgate::WhenFull;
use tollgate_tower::{Rule, TollgateLayer};

use crate::support::{by_header, hourly_bucket, layer_with, status};

fn small_table(when_full: WhenFull) -> TollgateLayer {
    let rule = Rule::new("api", hourly_bucket(1)).key(by_header("k")).max_keys(8).when_full(when_full);
    layer_with(rule).rule(Rule::new("roomy", hourly_bucket(1_000_000))).build().unwrap()
}

/// Sends one request of each of 500 keys. Returns how many were refused.
async fn flood(layer: &TollgateLayer) -> u64 {
    let mut refused = 0;
    for key in 0..500_u32 {
        refused += u64::from(status(layer, "/", &[("k", &key.to_string())]).await == 429);
    }
    refused
}

#[tokio::test]
async fn stats_and_usage_of_a_rule_show_a_full_table() {
    let layer = small_table(WhenFull::Deny);
    let (api, roomy) = (layer.handle("api").unwrap(), layer.handle("roomy").unwrap());
    let refused = flood(&layer).await;
    assert!(refused > 400, "{refused}");
    assert_eq!((api.stats().refused_full, roomy.stats().refused_full), (refused, 0));
    let usage = api.usage().unwrap();
    assert_eq!((usage.live_keys as u64, usage.max_keys), (500 - refused, 8));
    assert_eq!(usage.memory_in_use, 1 << 10);
    assert_eq!(roomy.usage().unwrap().live_keys, 1);
    assert!(layer.handle("unknown").is_none());

    let layer = small_table(WhenFull::Allow);
    assert_eq!(flood(&layer).await, 0);
    let stats = layer.handle("api").unwrap().stats();
    assert_eq!(stats.inserted + stats.admitted_uncounted, 500);
}

#[tokio::test]
async fn usage_of_a_rule_counts_all_its_tiers() {
    let rule = Rule::new("api", hourly_bucket(1)).key(by_header("k"));
    let rule = rule.tier(|head| head.path() == "/paid", hourly_bucket(1)).for_key("own", hourly_bucket(1));
    let layer = layer_with(rule.max_keys(100)).build().unwrap();
    for (path, key) in [("/", "a"), ("/paid", "a"), ("/", "own"), ("/paid", "own")] {
        status(&layer, path, &[("k", key)]).await;
    }
    let api = layer.handle("api").unwrap();
    assert_eq!(api.usage().map(|usage| (usage.live_keys, usage.max_keys)), Some((3, 201)));
    assert_eq!(api.stats().inserted, 3);
}

#[cfg(feature = "tracing")]
#[test]
fn a_full_table_is_logged_once() {
    for when_full in [WhenFull::Share, WhenFull::Deny, WhenFull::Allow] {
        let layer = small_table(when_full);
        let lines = crate::hooks::events::during(async {
            for _ in 0..2 {
                flood(&layer).await;
            }
        });
        let warnings: Vec<_> = lines.iter().filter(|line| line.starts_with("WARN")).collect();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("rule=\"api\"") && warnings[0].contains("max_keys"), "{warnings:?}");
    }
}

#[cfg(feature = "metrics")]
#[test]
fn a_full_table_is_counted() {
    let (recorder, layer) = (crate::series::Series::default(), small_table(WhenFull::Deny));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(flood(&layer)));
    let counts = recorder.named("tollgate_full_table_total");
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["api refused_full"]);
    let refused = layer.handle("api").unwrap().stats().refused_full;
    let counted = counts["api refused_full"] as u64;
    assert!((refused - 63..=refused).contains(&counted), "{counted} of {refused}");
}
