//! All counters as Prometheus reads them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tollgate_net::counts::TIMES;
use tollgate_proxy::UpstreamCounts;
use tollgate_proxy::park::{EVENTS, ParkStore};

use super::listener::{Decided, Listener};
use super::rule::{HEADROOM, REFUSALS, RuleCounts, RuleSums, WAITS};
use super::text::{Text, hex};
use super::{Generation, Metrics, process};
use crate::clock::{ahead, unix_time};
use crate::core::{Core, Envoy};
use crate::state::StateReport;

/// A rule's figures for one page.
struct Read<'g> {
    counts: &'g RuleCounts,
    sums: RuleSums,
    keys: (f64, f64),
    share_of_ten: Option<f64>,
    tables: Option<(tollgate::Usage, tollgate::Stats)>,
}

impl<'g> Read<'g> {
    fn of(generation: &'g Generation, rule: usize, now: u64) -> Self {
        let counts = &*generation.counts[rule];
        Self {
            counts,
            sums: counts.sums(),
            keys: counts.keys(now),
            share_of_ten: counts.top(now).share_of_ten(),
            tables: generation.set.usage(rule).zip(generation.set.stats(rule)),
        }
    }

    fn usage(&self, of: impl Fn(&tollgate::Usage) -> usize) -> f64 {
        self.tables.as_ref().map_or(0.0, |(usage, _)| of(usage) as f64)
    }
}

impl Metrics {
    /// The page of `/metrics`.
    pub(crate) fn page(&self, core: &Core) -> String {
        let (generation, calls) = (self.generation(), core.calls.load().usage());
        let mut text = Text::default();
        self.write_listeners(&mut text);
        write_upstreams(&mut text, self.upstreams.get().map_or(&[], |upstreams| upstreams));
        self.write_rules(&mut text, &generation);
        super::envoy::write(&mut text, core.envoy.as_ref().map(Envoy::shown).as_ref());
        super::stores::write(&mut text, &core.store_counts());
        write_parked(&mut text, &core.parks.all());
        self.write_tickets(&mut text);
        self.write_reloads(&mut text, core.last_error().is_none());
        text.family("tollgate_call_keys", "gauge", "Keys in debt to quotas that came with the call.")
            .sample(&[], calls.live_keys);
        text.family("tollgate_call_keys_max", "gauge", "The most such keys.").sample(&[], calls.max_keys);
        write_state(&mut text, &core.state);
        let help = "Seconds by which the system's clock is ahead of that by which windows are aligned.";
        text.family("tollgate_clock_ahead_seconds", "gauge", help).sample(&[], ahead(&core.clock));
        text.family("tollgate_build_info", "gauge", "The version of the server.")
            .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        process::write(&mut text);
        text.into_page()
    }

    fn write_listeners(&self, text: &mut Text) {
        text.family("tollgate_decisions_total", "counter", "Requests decided, by all rules together.");
        for (listener, decisions) in Listener::ALL.into_iter().zip(&self.decisions) {
            for (outcome, count) in Decided::NAMES.into_iter().zip(decisions.sums()) {
                text.sample(&[("listener", listener.name()), ("outcome", outcome)], count);
            }
        }
        text.family("tollgate_request_duration_seconds", "histogram", "From a request's head to its answer.");
        for counts in &self.listeners {
            text.histogram(&[("listener", counts.name())], &counts.times(), &TIMES, 1e9);
        }
        text.family("tollgate_connections", "gauge", "Open connections.");
        for counts in &self.listeners {
            text.sample(&[("listener", counts.name())], counts.connections().0);
        }
        text.family("tollgate_connections_max", "gauge", "The most open connections.");
        for counts in &self.listeners {
            text.sample(&[("listener", counts.name())], counts.most());
        }
        text.family("tollgate_connections_total", "counter", "Accepted connections.");
        for counts in &self.listeners {
            text.sample(&[("listener", counts.name())], counts.connections().1);
        }
        text.family("tollgate_unfinished_bytes", "gauge", "What is held of requests that are not whole yet.");
        for counts in &self.listeners {
            text.sample(&[("listener", counts.name())], counts.unfinished().bytes().0);
        }
        text.family("tollgate_unfinished_bytes_max", "gauge", "The most such bytes.");
        for counts in &self.listeners {
            text.sample(&[("listener", counts.name())], counts.unfinished().bytes().1);
        }
        text.family("tollgate_protocol_errors_total", "counter", "Input that was refused.");
        for counts in &self.listeners {
            for (kind, count) in counts.protocol_errors() {
                text.sample(&[("listener", counts.name()), ("kind", kind)], count);
            }
        }
    }

    fn write_rules(&self, text: &mut Text, generation: &Generation) {
        let now = self.now();
        let all: Vec<_> = (0..generation.counts.len()).map(|rule| Read::of(generation, rule, now)).collect();
        let unix = unix_time().as_secs_f64();
        let at = |then: Option<u64>| then.map_or(0.0, |then| unix - now.saturating_sub(then) as f64 / 1e9);

        text.family("tollgate_requests_total", "counter", "What each rule says of the requests it concerns.");
        for rule in &all {
            let outcomes = std::iter::once(("allowed", rule.sums.allowed))
                .chain(REFUSALS.into_iter().zip(rule.sums.refused));
            for (outcome, count) in outcomes {
                let labels = [("rule", &*rule.counts.name), ("mode", rule.counts.mode), ("outcome", outcome)];
                text.sample(&labels, count);
            }
        }
        text.family(
            "tollgate_cost_total",
            "counter",
            "What the requests cost that were charged, or limited.",
        );
        for rule in &all {
            for (outcome, cost) in ["allowed", "limited"].into_iter().zip(rule.sums.cost) {
                text.sample(&[("rule", &*rule.counts.name), ("outcome", outcome)], cost);
            }
        }
        text.family(
            "tollgate_in_flight_unasked_total",
            "counter",
            "Requests that were decided without the rule's limits of requests in flight.",
        );
        for rule in &all {
            text.sample(&[("rule", &*rule.counts.name)], rule.sums.unasked);
        }
        let mut gauge = |name, help, value: &dyn Fn(&Read<'_>) -> f64| {
            text.family(name, "gauge", help);
            for rule in &all {
                text.sample(&[("rule", &*rule.counts.name)], value(rule));
            }
        };
        gauge("tollgate_keys_seen", "About how many distinct keys in 5 minutes.", &|rule| rule.keys.0);
        gauge("tollgate_keys_limited", "About how many of them were refused.", &|rule| rule.keys.1);
        gauge(
            "tollgate_limited_top10_ratio",
            "The share of the ten most refused keys in the refusals of 5 to 10 minutes; NaN without any.",
            &|rule| rule.share_of_ten.unwrap_or(f64::NAN),
        );
        gauge(
            "tollgate_rule_last_concerned_timestamp_seconds",
            "When the rule last concerned a request, in Unix time; 0: not since the start.",
            &|rule| at(rule.sums.concerned_at),
        );
        gauge(
            "tollgate_rule_last_limited_timestamp_seconds",
            "When the rule last refused a request, in Unix time; 0: not since the start.",
            &|rule| at(rule.sums.limited_at),
        );
        gauge("tollgate_keys", "Keys in debt.", &|rule| rule.usage(|usage| usage.live_keys));
        gauge("tollgate_keys_max", "Keys that the tables were built for.", &|rule| {
            rule.usage(|usage| usage.max_keys)
        });
        gauge("tollgate_tables_bytes", "Memory of the tables.", &|rule| {
            rule.usage(|usage| usage.memory_in_use)
        });
        text.family("tollgate_headroom_ratio", "histogram", "What is left of the limit after an admission.");
        for rule in &all {
            text.histogram(&[("rule", &*rule.counts.name)], &rule.sums.headroom, &HEADROOM, 1e6);
        }
        text.family("tollgate_retry_after_seconds", "histogram", "How long refused requests are to wait.");
        for rule in &all {
            text.histogram(&[("rule", &*rule.counts.name)], &rule.sums.waits, &WAITS, 1e3);
        }
        text.family(
            "tollgate_table_full_total",
            "counter",
            "What new keys in full buckets of tables caused.",
        );
        for Read { counts, tables, .. } in &all {
            let Some((_, stats)) = tables else { continue };
            for (what, count) in [
                ("evicted_with_debt", stats.evicted_with_debt),
                ("shared", stats.shared),
                ("refused_full", stats.refused_full),
                ("admitted_uncounted", stats.admitted_uncounted),
            ] {
                text.sample(&[("rule", &*counts.name), ("what", what)], count);
            }
        }
        text.family(
            "tollgate_refunds_short_total",
            "counter",
            "Units asked back that the key still owed and that did not come back, at most.",
        );
        for Read { counts, tables, .. } in &all {
            let Some((_, stats)) = tables else { continue };
            text.sample(&[("rule", &*counts.name)], stats.refunds_short);
        }
    }

    fn write_reloads(&self, text: &mut Text, is_success: bool) {
        let status = self.live.status();
        text.family("tollgate_rules_generation", "gauge", "The number of the rules in force.")
            .sample(&[], status.generation);
        text.family("tollgate_rules_info", "gauge", "The hash of the rules in force.")
            .sample(&[("sha256", &hex(&status.hash))], 1);
        text.family("tollgate_rules_last_reload_successful", "gauge", "Whether the last reload succeeded.")
            .sample(&[], u8::from(is_success));
        text.family(
            "tollgate_rules_last_reload_success_timestamp_seconds",
            "gauge",
            "When a reload last succeeded, in Unix time.",
        )
        .sample(&[], self.reloaded_at());
        text.family("tollgate_rules_reloads_total", "counter", "Reloads.");
        for (result, count) in ["success", "failure"].into_iter().zip(&self.reloads) {
            text.sample(&[("result", result)], count.load(Relaxed));
        }
    }
}

fn write_upstreams(text: &mut Text, upstreams: &[Arc<UpstreamCounts>]) {
    text.family("tollgate_upstream_connections", "gauge", "Open connections to upstreams of HTTP/2.");
    for upstream in upstreams {
        text.sample(&[("upstream", upstream.name())], upstream.connections());
    }
    let what = "What became of requests on their way to an upstream.";
    text.family("tollgate_upstream_events_total", "counter", what);
    for upstream in upstreams {
        for (event, count) in upstream.events() {
            text.sample(&[("upstream", upstream.name()), ("event", event)], count);
        }
    }
}

fn write_parked(text: &mut Text, parks: &[Arc<dyn ParkStore>]) {
    let counted: Vec<_> = parks.iter().map(|park| (park.name(), park.counts())).collect();
    let each = || counted.iter().flat_map(|(store, rules)| rules.iter().map(|rule| (*store, rule)));
    text.family("tollgate_parked_requests", "gauge", "Requests of each rule that are kept for later.");
    for (store, (rule, counts)) in each() {
        for (state, count) in [("parked", counts.parked), ("dead", counts.dead)] {
            text.sample(&[("rule", rule), ("state", state), ("store", store)], count);
        }
    }
    text.family(
        "tollgate_parked_total",
        "counter",
        "What became of them; full: of those that were not kept.",
    );
    for (store, (rule, counts)) in each() {
        for (event, count) in EVENTS.into_iter().zip(counts.events) {
            text.sample(&[("rule", rule), ("event", event), ("store", store)], count);
        }
    }
}

fn write_state(text: &mut Text, state: &StateReport) {
    text.family("tollgate_state_forgotten_rules", "gauge", "Rules that began without the state they had.")
        .sample(&[], state.forgotten_rules.load(Relaxed));
    text.family("tollgate_state_save_failures_total", "counter", "Saves of the state that failed.")
        .sample(&[], state.failed_saves.load(Relaxed));
    text.family(
        "tollgate_state_last_save_timestamp_seconds",
        "gauge",
        "When state was last saved, in Unix time; 0: not since the start.",
    )
    .sample(&[], state.saved_at.load(Relaxed));
}
