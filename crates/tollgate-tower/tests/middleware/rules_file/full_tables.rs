//! What operators see of the table of a rule that has no room for new keys.

use tollgate_tower::RulesLayer;

use super::{File, layer, status};

const SMALL: &str = "
    rule = [
        { name = 'each', key = 'header.k', limits = 'fixed-window:1/h', max_keys = 8 },
        { name = 'all', key = 'everyone', limits = '1000000/h' },
    ]";

/// Sends one request of each of 300 keys. Returns how many were refused.
async fn flood(layer: &RulesLayer) -> u64 {
    let mut refused = 0;
    for key in 0..300_u32 {
        refused += u64::from(status(layer, "/", &[("k", &key.to_string())]).await == 429);
    }
    refused
}

#[tokio::test]
async fn stats_of_a_rules_file_show_a_full_table() {
    let file = File::new(SMALL);
    let (layer, _) = file.build();
    assert_eq!(layer.stats("each").unwrap().inserted, 0);
    let refused = flood(&layer).await;
    assert!(refused > 200, "{refused}");
    let stats = layer.stats("each").unwrap();
    assert!(stats.inserted > 0 && stats.shared + stats.refused_full >= refused, "{stats:?}");
    let usage = layer.usage("each").unwrap();
    assert!(usage.live_keys > 0 && usage.live_keys as u64 <= 300 - refused, "{usage:?}");
    assert_eq!((usage.max_keys, usage.memory_in_use), (8, 1 << 10));
    let all = (layer.stats("all").unwrap(), layer.usage("all").unwrap());
    assert_eq!((all.0.shared + all.0.refused_full, all.1.live_keys, all.1.max_keys), (0, 1, 1));
    assert!(layer.stats("unknown").is_none() && layer.usage("unknown").is_none());
    // Of the rules in force.
    file.write("rule = [{ name = 'other', key = 'header.k', limits = 'block' }]");
    layer.reload().unwrap();
    assert!(layer.usage("each").is_none() && layer.waiting("each").is_none());
    assert_eq!(layer.usage("other").map(|usage| usage.max_keys), Some(0));
}

#[cfg(feature = "tracing")]
#[test]
fn a_full_table_of_a_rules_file_is_logged_once() {
    let file = File::new(SMALL);
    let (layer, _) = file.build();
    let lines = crate::hooks::events::during(async {
        flood(&layer).await;
        // A reload of the same rule warns no more.
        file.write(&format!("{SMALL} # again"));
        layer.reload().unwrap();
        flood(&layer).await;
    });
    let warnings: Vec<_> = lines.iter().filter(|line| line.starts_with("WARN")).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("rule=\"each\"") && warnings[0].contains("max_keys"), "{warnings:?}");
}

#[cfg(feature = "metrics")]
#[test]
fn a_full_table_of_a_rules_file_is_counted() {
    let (recorder, layer) = (crate::series::Series::default(), layer(SMALL));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(flood(&layer)));
    let counts = recorder.named("tollgate_full_table_total");
    assert!(counts.keys().all(|key| key.starts_with("each ")), "{counts:?}");
    let (counted, stats) = (counts["each shared"] as u64, layer.stats("each").unwrap());
    assert!((stats.shared - 63..=stats.shared).contains(&counted), "{counted} of {stats:?}");
}
