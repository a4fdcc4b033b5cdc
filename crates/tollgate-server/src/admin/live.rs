//! What the live page shows.

use std::cmp::Reverse;
use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;
use serde_json::json;
use tollgate_net::web::{self, Answer};

use super::history::{Rates, Recent};
use super::key_text as texts;
use super::rules::{envoy, key_text, limits_text, unix};
use super::state::Admin;
use crate::clock::unix_time;
use crate::metrics::{Listener, RuleCounts, hex};

/// The rules that are shown: those with the most requests.
const RULES: usize = 50;

/// The most refused keys that are shown, of all rules.
const KEYS: usize = 10;

#[derive(Serialize)]
struct LiveRule {
    name: Box<str>,
    mode: &'static str,
    key: String,
    limits: String,
    allowed: u64,
    refused: u64,
    no_key: u64,
    keys_seen: f64,
    keys_limited: f64,
    top10_ratio: Option<f64>,
    /// Seconds ago.
    concerned_ago: Option<f64>,
    refused_ago: Option<f64>,
    live_keys: usize,
    max_keys: usize,
    rates: Rates,
}

#[derive(Serialize)]
struct LiveKey {
    rule: Box<str>,
    key: String,
    refused: u64,
    share: f64,
}

/// `GET /admin/live`
pub(super) fn show(admin: &Admin) -> Answer {
    let metrics = &admin.core.metrics;
    let (generation, now) = (metrics.generation(), metrics.now());
    let (status, rules) = (admin.core.live.status(), generation.set.rules());

    let mut busiest: Vec<usize> = (0..generation.counts.len()).collect();
    let sums: Vec<_> = generation.counts.iter().map(|counts| counts.sums()).collect();
    busiest.sort_by_key(|&index| Reverse(sums[index].allowed + sums[index].refusals()));
    let left_out = busiest.len().saturating_sub(RULES);
    busiest.truncate(RULES);
    // Those that are shown stand as in the file.
    busiest.sort_unstable();

    let shown: Vec<Arc<RuleCounts>> =
        busiest.iter().map(|&index| Arc::clone(&generation.counts[index])).collect();
    let Recent { ages, requests, rules: rates } = admin.history.rates(now, &shown);
    let ago = |at: Option<u64>| at.map(|at| now.saturating_sub(at) as f64 / 1e9);
    let mut keys = Vec::new();
    let mut live = Vec::new();
    for (&index, rates) in busiest.iter().zip(rates) {
        let (rule, counts, sums) = (&rules.rules[index], &generation.counts[index], &sums[index]);
        let top = counts.top(now);
        keys.extend(top.keys.iter().take(KEYS).map(|key| LiveKey {
            rule: rule.name.clone(),
            key: texts::shown(rule, key.hash, key.key.as_deref()),
            refused: key.at_most,
            share: key.at_most as f64 / top.refusals.max(1) as f64,
        }));
        let (keys_seen, keys_limited) = counts.keys(now);
        let tables = generation.set.usage(index);
        live.push(LiveRule {
            name: rule.name.clone(),
            mode: counts.mode(),
            key: key_text(&rule.key),
            limits: limits_text(&rule.limits),
            allowed: sums.allowed,
            refused: sums.refusals(),
            no_key: sums.without_key(),
            keys_seen,
            keys_limited,
            top10_ratio: top.share_of_ten(),
            concerned_ago: ago(sums.concerned_at),
            refused_ago: ago(sums.limited_at),
            live_keys: tables.as_ref().map_or(0, |tables| tables.live_keys),
            max_keys: tables.as_ref().map_or(0, |tables| tables.max_keys),
            rates,
        });
    }
    keys.sort_by_key(|key| Reverse(key.refused));
    keys.truncate(KEYS);
    let listener = |listener: Listener| {
        let (decisions, connections) = metrics.listener(listener);
        json!({ "name": listener.name(), "decisions": decisions, "connections": connections })
    };
    let parks = admin.core.parks.all();
    let parked = parks.iter().flat_map(|park| park.counts());
    let parked =
        parked.fold([0, 0], |[parked, dead], (_, counts)| [parked + counts.parked, dead + counts.dead]);
    web::json(
        StatusCode::OK,
        &json!({
            "now": unix_time().as_secs_f64(),
            "version": env!("CARGO_PKG_VERSION"),
            "up": admin.started.elapsed().as_secs(),
            "generation": status.generation,
            "sha256": hex(&status.hash),
            "since": unix(status.since),
            "reloaded_at": metrics.reloaded_at(),
            "last_error": admin.core.last_error(),
            "ages": ages,
            "requests": requests,
            "rules": live,
            "rules_left_out": left_out,
            // `null`: there are no such files.
            "envoy": envoy(&admin.core, RULES),
            "keys": keys,
            "shows_keys": metrics.shows_keys(),
            // `null`: none are kept here.
            "parked": (!parks.is_empty()).then_some(parked),
            "listeners": Listener::ALL.map(listener),
        }),
    )
}
