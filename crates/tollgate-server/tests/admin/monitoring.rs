//! The dashboard, the alerts and the page about metrics, against a live server.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{RULES, start};
use tollgate_testing::servers::loopback;
use tollgate_testing::tools;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(docs().join(name)).unwrap()
}

/// The metrics of a page, without the suffixes of histograms.
fn metrics_of(page: &str) -> BTreeSet<String> {
    let names = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    names.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

/// The metrics that a text names. A histogram's series stand for it.
fn named_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    let names = words.filter(|word| word.starts_with("tollgate_") || word.starts_with("process_"));
    let base = |name: &str| {
        let suffixes = ["_bucket", "_sum", "_count"];
        suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name).to_owned()
    };
    names.map(base).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_named_in_documents_exists() {
    let server = start(RULES, |_, _| {}).await;
    let metrics = metrics_of(server.administer("GET", "/metrics", "").text());
    for name in [
        "monitoring/dashboard.json",
        "monitoring/alerts.yml",
        "monitoring/alerts_test.yml",
        "how-to/monitor.md",
    ] {
        let named = named_in(&read(name));
        let unknown: Vec<_> = named.difference(&metrics).collect();
        assert!(named.len() > 5 && unknown.is_empty(), "{name}: {unknown:?} of {named:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_is_documented() {
    let server = start(RULES, |_, _| {}).await;
    let metrics = metrics_of(server.administer("GET", "/metrics", "").text());
    assert!(metrics.len() > 25, "{metrics:?}");
    let page = read("how-to/monitor.md");
    let rows: BTreeSet<String> =
        page.lines().filter_map(|line| line.strip_prefix("| `")).flat_map(named_in_first).collect();
    assert_eq!(rows, metrics);
    let dashboard = named_in(&read("monitoring/dashboard.json"));
    let own = metrics.iter().filter(|name| name.starts_with("tollgate_"));
    let unshown: Vec<_> = own.filter(|name| !dashboard.contains(*name)).collect();
    assert!(unshown.is_empty(), "{unshown:?} on no panel");
}

/// The metric that a row of the table is about.
fn named_in_first(row: &str) -> Option<String> {
    named_in(row.split('`').next()?).into_iter().next()
}

#[test]
fn every_alert_is_documented_and_tested() {
    let (alerts, page) = (read("monitoring/alerts.yml"), read("how-to/monitor.md"));
    let tests = read("monitoring/alerts_test.yml") + &read("monitoring/alerts_month_test.yml");
    let names: Vec<_> = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert_eq!(names.len(), 13);
    for name in names {
        assert!(page.contains(&format!("| `{name}` |")), "{name} in how-to/monitor.md");
        assert!(tests.matches(&format!("alertname: {name}\n")).count() >= 2, "{name} in alerts_test.yml");
    }
}

#[test]
fn the_dashboard_has_a_query_in_each_panel() {
    let dashboard: Value = serde_json::from_str(&read("monitoring/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{}", panel["title"]);
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty() && targets.iter().all(|target| target["expr"].is_string()));
    }
    assert!(ids.len() >= 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_reads_the_metrics_and_the_alerts() {
    let Some(promtool) = tools::find("promtool") else { return };
    let version = Command::new(promtool).arg("--version").output().unwrap();
    assert!(version.status.success());
    let run = |arguments: &[&str]| {
        let done =
            Command::new("promtool").args(arguments).current_dir(docs().join("monitoring")).output().unwrap();
        let said =
            String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{arguments:?}: {said}");
    };
    run(&["check", "rules", "alerts.yml"]);
    run(&["test", "rules", "alerts_test.yml", "alerts_month_test.yml"]);
    let server = start(RULES, |_, _| {}).await;
    let mut check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let metrics = server.administer("GET", "/metrics", "");
    let page = metrics.text();
    std::io::Write::write_all(&mut check.stdin.take().unwrap(), page.as_bytes()).unwrap();
    let done = check.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.trim().is_empty(), "{said}");
}

/// A log gives back the newest request only.
#[tokio::test(flavor = "multi_thread")]
async fn units_that_refunds_may_lose_are_counted() {
    let rules = "version = 1\nrule = [{ name = 'failed', key = 'everyone', \
        limits = 'sliding-log:9/d', charge_if.status = 401 }]";
    let server = start(rules, |settings, _| settings.http.push(loopback())).await;
    let mut tickets = Vec::new();
    for _ in 0..3 {
        let said = server.ask("/v1/check", &json!({ "ticket": true })).await;
        tickets.push(said["ticket"].clone());
    }
    for ticket in tickets {
        server.ask("/v1/settle", &json!({ "ticket": ticket, "status": 200 })).await;
    }
    let metrics = server.administer("GET", "/metrics", "");
    let page = metrics.text();
    assert!(page.contains("tollgate_refunds_short_total{rule=\"failed\"} 2\n"), "{page}");
}
