//! Counters against decisions.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tollgate::ManualClock;
use tollgate_rules::{Ask, LiveRules, PlainRequest, Rules, Ruling};
use tollgate_rules_file::{Memory, read};

use super::{Listener, Metrics};
use crate::core::Core;

const THREE: &str = "version = 1
rule = [
    { name = 'all', key = 'everyone', limits = 'fixed-window:8000/h' },
    { name = 'each', key = 'header.k', limits = 'fixed-window:20/h', missing = 'refuse' },
    { name = 'try', key = 'header.k', limits = 'fixed-window:5/h', mode = 'shadow' },
]";

fn rules(text: &str) -> Rules {
    read("rules.toml", &Memory::new("rules.toml", text)).into_rules().expect("the rules are right")
}

fn core(text: &str) -> (Core, ManualClock) {
    let clock = ManualClock::new();
    let live = LiveRules::new(rules(text), [0; 32], Arc::new(clock.clone()) as _).unwrap();
    (Core::new(live, Arc::new(clock.clone()), 16, false).unwrap(), clock)
}

fn request(key: &str) -> PlainRequest {
    PlainRequest { headers: vec![("k".into(), key.into())], ..PlainRequest::default() }
}

fn decide(core: &Core, request: &PlainRequest, cost: u64) -> Ruling {
    let mut decider = core.decider();
    let verdict = decider.ask(request, Ask { cost, ..Ask::default() });
    core.metrics.decided(Listener::Http, &verdict);
    verdict.outcome()
}

/// The value of a sample on the page.
pub(crate) fn value(page: &str, sample: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{sample} in {page}")).parse().unwrap()
}

fn page(core: &Core) -> String {
    core.metrics.page(core)
}

#[test]
fn counters_equal_decisions_of_threads() {
    let (core, _) = core(THREE);
    // By rule and answer.
    let told = std::thread::scope(|threads| {
        let core = &core;
        let one = |thread: u64| {
            let mut told = [[0_u64; 5]; 3];
            for number in 0..4_000 {
                let mut decider = core.decider();
                let key = (number * 7 + thread) % 500;
                let asked = if key == 0 { PlainRequest::default() } else { request(&key.to_string()) };
                let verdict = decider.ask(&asked, Ask::default());
                for answer in verdict.answers() {
                    told[answer.rule][answer.ruling as usize] += 1;
                }
                core.metrics.decided(Listener::Http, &verdict);
            }
            told
        };
        let threads: Vec<_> = (0..4).map(|thread| threads.spawn(move || one(thread))).collect();
        let mut sum = [[0; 5]; 3];
        for told in threads.into_iter().map(|thread| thread.join().unwrap()) {
            sum.iter_mut().flatten().zip(told.iter().flatten()).for_each(|(sum, own)| *sum += own);
        }
        sum
    });
    let page = page(&core);
    let mut all = 0.0;
    for ((name, mode), told) in
        [("all", "enforced"), ("each", "enforced"), ("try", "shadow")].iter().zip(told)
    {
        let outcomes = ["allowed", "limited", "unavailable", "cost_above_limit", "no_key"];
        for (outcome, count) in outcomes.iter().zip(told) {
            let labels = format!("{{rule=\"{name}\",mode=\"{mode}\",outcome=\"{outcome}\"}}");
            assert_eq!(value(&page, &format!("tollgate_requests_total{labels}")), count as f64, "{labels}");
        }
    }
    for outcome in ["allowed", "unmatched", "limited", "cost_above_limit", "no_key", "blocked"] {
        let sample = format!("tollgate_decisions_total{{listener=\"http\",outcome=\"{outcome}\"}}");
        all += value(&page, &sample);
    }
    assert_eq!(all, 16_000.0);
    assert!((value(&page, "tollgate_keys_seen{rule=\"each\"}") / 500.0 - 1.0).abs() < 0.15, "{page}");
}

#[test]
fn costs_headroom_and_waits_are_counted() {
    let (core, clock) = core(
        "version = 1
        rule = [
            { name = 'a', key = 'header.k', limits = 'fixed-window:10/min' },
            { name = 'b', key = 'everyone', limits = 'fixed-window:12/min' },
        ]",
    );
    clock.advance(Duration::from_secs(3_600));
    assert_eq!(decide(&core, &request("x"), 9), Ruling::Admitted);
    assert_eq!(decide(&core, &request("x"), 2), Ruling::Refused);
    // Rule `a` admits it, rule `b` does not: it is charged to neither.
    assert_eq!(decide(&core, &request("y"), 4), Ruling::Refused);
    assert_eq!(decide(&core, &request("y"), 11), Ruling::Never);
    assert_eq!(decide(&core, &request("y"), 0), Ruling::Admitted);
    let page = page(&core);
    for (sample, expected) in [
        ("tollgate_cost_total{rule=\"a\",outcome=\"allowed\"}", 9.0),
        ("tollgate_cost_total{rule=\"a\",outcome=\"limited\"}", 2.0),
        ("tollgate_cost_total{rule=\"b\",outcome=\"limited\"}", 15.0),
        ("tollgate_requests_total{rule=\"a\",mode=\"enforced\",outcome=\"allowed\"}", 3.0),
        ("tollgate_requests_total{rule=\"a\",mode=\"enforced\",outcome=\"cost_above_limit\"}", 1.0),
        ("tollgate_headroom_ratio_bucket{rule=\"a\",le=\"0.05\"}", 0.0),
        ("tollgate_headroom_ratio_bucket{rule=\"a\",le=\"0.1\"}", 1.0),
        ("tollgate_headroom_ratio_count{rule=\"a\"}", 2.0),
        ("tollgate_headroom_ratio_sum{rule=\"a\"}", 1.1),
        ("tollgate_retry_after_seconds_bucket{rule=\"a\",le=\"60\"}", 1.0),
        ("tollgate_retry_after_seconds_sum{rule=\"a\"}", 60.0),
        ("tollgate_keys_limited{rule=\"a\"}", 2.0),
        ("tollgate_limited_top10_ratio{rule=\"a\"}", 1.0),
        ("tollgate_keys{rule=\"a\"}", 1.0),
        ("tollgate_keys_max{rule=\"b\"}", 1.0),
    ] {
        assert_eq!(value(&page, sample), expected, "{sample} in {page}");
    }
    assert!(value(&page, "tollgate_rule_last_limited_timestamp_seconds{rule=\"a\"}") > 1.7e9);
}

#[test]
fn counters_survive_a_reload_as_their_rules_do() {
    let (core, _) = core(THREE);
    let mut old = core.decider();
    let _ = decide(&core, &request("x"), 1);
    let verdict = old.ask(&request("x"), Ask::default());
    let text = THREE.replace("8000/h", "9000/h").replace("'each'", "'other', was = 'each'");
    core.live.exchange(rules(&text), [1; 32]).unwrap();
    // Decided by the old rules, counted among the new ones as far as they are there.
    let _ = decide(&core, &request("x"), 1);
    core.metrics.decided(Listener::Http, &verdict);
    drop(verdict);
    let page = page(&core);
    assert_eq!(
        value(&page, "tollgate_requests_total{rule=\"all\",mode=\"enforced\",outcome=\"allowed\"}"),
        3.0
    );
    assert_eq!(
        value(&page, "tollgate_requests_total{rule=\"other\",mode=\"enforced\",outcome=\"allowed\"}"),
        1.0
    );
    assert!(!page.contains("\"each\""), "{page}");
    assert_eq!(value(&page, "tollgate_rules_generation"), 2.0);
}

#[test]
fn limits_in_flight_that_are_not_asked_are_counted() {
    let (core, _) = core(
        "version = 1
rule = [
    { name = 'few', key = 'everyone', limits = 'in-flight:9' },
    { name = 'rate', key = 'everyone', limits = '10/s' },
]",
    );
    let mut decider = core.decider();
    for in_flight in [false, true, false] {
        let verdict = decider.ask(&request("x"), Ask { in_flight, ..Ask::default() });
        let count = if in_flight { Metrics::acquired } else { Metrics::decided };
        count(&core.metrics, Listener::Http, &verdict);
    }
    let page = page(&core);
    assert_eq!(value(&page, "tollgate_in_flight_unasked_total{rule=\"few\"}"), 2.0);
    assert_eq!(value(&page, "tollgate_in_flight_unasked_total{rule=\"rate\"}"), 0.0);
}

#[test]
fn metrics_tell_what_became_of_the_state_file() {
    let (core, _) = core(THREE);
    core.state.forgotten_rules.store(3, Relaxed);
    core.state.failed_saves.store(2, Relaxed);
    core.state.saved_at.store(1_700_000_000, Relaxed);
    let page = page(&core);
    assert_eq!(value(&page, "tollgate_state_forgotten_rules"), 3.0);
    assert_eq!(value(&page, "tollgate_state_save_failures_total"), 2.0);
    assert_eq!(value(&page, "tollgate_state_last_save_timestamp_seconds"), 1.7e9);
}

#[test]
fn no_key_is_in_metrics() {
    let (core, _) = core(THREE);
    let keys: Vec<String> =
        (0..40_u64).map(|key| format!("secret-{key}-{:016x}", key * 0x9e37_79b9_7f4a)).collect();
    for key in &keys {
        (0..30).for_each(|_| _ = decide(&core, &request(key), 1));
    }
    let page = page(&core);
    assert!(value(&page, "tollgate_keys_limited{rule=\"each\"}") > 30.0);
    assert!(keys.iter().all(|key| !page.contains(&**key)) && !page.contains("secret"), "{page}");
}

#[test]
fn what_a_full_table_does_is_counted_by_its_word() {
    let (core, _) = core(
        "version = 1
rule = [
    { name = 'costs', key = 'header.a', missing = 'pass', limits = '1000/h', max_keys = 64 },
    { name = 'few', key = 'header.b', missing = 'pass', limits = 'in-flight:9', max_keys = 64 },
]",
    );
    let mut held = Vec::new();
    for key in 0..2_000 {
        for header in ["a", "b"] {
            let headers = vec![(header.into(), key.to_string().into())];
            let mut decider = core.decider();
            // Where debts differ, the key with the least is evicted; equal ones share.
            let ask = Ask { in_flight: true, cost: 1 + key % 100, ..Ask::default() };
            let verdict = decider.ask(&PlainRequest { headers, ..PlainRequest::default() }, ask);
            if verdict.is_admitted() {
                held.push(verdict.ticket());
            }
        }
    }
    let (page, generation) = (page(&core), core.metrics.generation());
    let mut seen = Vec::new();
    for rule in [0, 1] {
        let stats = generation.set.stats(rule).unwrap();
        for (what, count) in [
            ("evicted_with_debt", stats.evicted_with_debt),
            ("shared", stats.shared),
            ("refused_full", stats.refused_full),
            ("admitted_uncounted", stats.admitted_uncounted),
        ] {
            let name = &generation.counts[rule].name;
            let sample = format!("tollgate_table_full_total{{rule=\"{name}\",what=\"{what}\"}}");
            assert_eq!(value(&page, &sample), count as f64, "{sample}");
            if count > 0 {
                seen.push((rule, what));
            }
        }
    }
    assert_eq!(seen, [(0, "evicted_with_debt"), (0, "shared"), (1, "refused_full")]);
}

#[test]
fn connections_are_open_until_their_guard_is_dropped() {
    let (core, _) = core(THREE);
    let open = core.metrics.counts(Listener::Resp).connection();
    core.metrics.counts(Listener::Resp).protocol_error("bulk_length", IpAddr::from([192, 0, 2, 1]));
    core.metrics.counts(Listener::Resp).took(Duration::from_millis(3));
    core.metrics.decided_call(false);
    core.metrics.reloaded(false);
    let during = page(&core);
    drop(open);
    let after = page(&core);
    for (sample, expected) in [
        ("tollgate_connections{listener=\"resp\"}", 1.0),
        ("tollgate_protocol_errors_total{listener=\"resp\",kind=\"bulk_length\"}", 1.0),
        ("tollgate_request_duration_seconds_bucket{listener=\"resp\",le=\"0.0025\"}", 0.0),
        ("tollgate_request_duration_seconds_bucket{listener=\"resp\",le=\"0.005\"}", 1.0),
        ("tollgate_decisions_total{listener=\"resp\",outcome=\"limited\"}", 1.0),
        ("tollgate_rules_reloads_total{result=\"failure\"}", 1.0),
    ] {
        assert_eq!(value(&during, sample), expected, "{sample}");
    }
    assert_eq!(value(&after, "tollgate_connections{listener=\"resp\"}"), 0.0);
    assert_eq!(value(&after, "tollgate_connections_total{listener=\"resp\"}"), 1.0);
}
