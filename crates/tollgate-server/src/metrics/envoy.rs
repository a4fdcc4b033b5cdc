//! The hits of limits of files of envoyproxy/ratelimit, as Prometheus reads them.

use std::collections::BTreeMap;

use tollgate_rules_file::{EnvoyHits, EnvoyLimit};

use super::text::{Text, hex};

/// The mode of a limit as labels say it.
pub(crate) fn mode(limit: &EnvoyLimit) -> &'static str {
    if limit.shadow { "shadow" } else { "enforced" }
}

/// The files in force: their number, their hash, and their limits with the hits that each had.
pub(crate) struct Files {
    pub(crate) generation: u64,
    pub(crate) hash: [u8; 32],
    pub(crate) limits: Vec<(EnvoyLimit, EnvoyHits)>,
    /// The address of the store that keeps their counts; `None`: this process does.
    pub(crate) store: Option<String>,
}

/// The families of the files, with samples if there are any files.
pub(super) fn write(text: &mut Text, files: Option<&Files>) {
    text.family("tollgate_envoy_generation", "gauge", "The number of the files of --envoy in force.");
    if let Some(files) = files {
        text.sample(&[], files.generation);
    }
    text.family("tollgate_envoy_info", "gauge", "The hash of the files of --envoy in force.");
    if let Some(files) = files {
        text.sample(&[("sha256", &hex(&files.hash))], 1);
    }
    // Different limits may read alike: one series for all of them.
    let mut sums: BTreeMap<(&str, &str), EnvoyHits> = BTreeMap::new();
    for (limit, hits) in files.iter().flat_map(|files| &files.limits) {
        let sum = sums.entry((&limit.composite, mode(limit))).or_default();
        sum.total += hits.total;
        sum.over += hits.over;
        sum.near += hits.near;
    }
    let mut counter = |name, help, of: fn(&EnvoyHits) -> u64| {
        text.family(name, "counter", help);
        for ((limit, mode), hits) in &sums {
            text.sample(&[("limit", limit), ("mode", mode)], of(hits));
        }
    };
    counter("tollgate_envoy_hits_total", "Hits of calls that asked a limit of --envoy.", |hits| hits.total);
    counter("tollgate_envoy_over_limit_total", "Those above the limit.", |hits| hits.over);
    counter("tollgate_envoy_near_limit_total", "Those up to it, and above 80 % of it.", |hits| hits.near);
}
