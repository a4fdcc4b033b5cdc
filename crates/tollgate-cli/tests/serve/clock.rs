//! The system's clock is set while the server runs.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tollgate_testing::faketime::Clock;
use tollgate_testing::process::Process;
use tollgate_testing::{http, tools};

use crate::{Folder, address_of, get, serve};

const DAY: u64 = 86_400;
const HOUR: u64 = 3_600;
const MINUTE: Duration = Duration::from_secs(60);

const ENVOY: &str = "domain: d
descriptors: [{ key: k, rate_limit: { unit: day, requests_per_unit: 1000 } }]";

/// The seconds by which the clock was set, as the metric shows them.
fn ahead(admin: &str) -> f64 {
    let page = get(admin, "/metrics");
    let shown = page.lines().find_map(|line| line.strip_prefix("tollgate_clock_ahead_seconds "));
    shown.expect("it is there").parse().expect("a number")
}

/// The seconds until the day ends for a client that was admitted today, by a rule and by a file of
/// Envoy's.
fn left_of_day(address: &str) -> [u64; 2] {
    let rule = http::ask(address, "POST", "/v1/check", &[("x-tollgate", "1")], r#"{"client":"203.0.113.9"}"#);
    let call = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#;
    let envoy = http::ask(address, "POST", "/json", &[], call);
    let (rule, envoy) = (rule.json(), envoy.json());
    let nanos = rule["reset_ns"].as_u64().unwrap_or_else(|| panic!("{rule}"));
    let reset = envoy["statuses"][0]["durationUntilReset"].as_str().unwrap_or_else(|| panic!("{envoy}"));
    [nanos / 1_000_000_000, reset.trim_end_matches('s').parse().unwrap_or_else(|_| panic!("{envoy}"))]
}

/// From ten o'clock to nine, without a restart: the day is as much longer.
#[test]
fn a_days_windows_follow_a_clock_that_is_set() {
    let folder = Folder::new();
    folder.write(
        "rules.toml",
        "version = 1\nrule = [{ name = 'daily', key = 'client', limits = 'fixed-window:1000/d' }]\n",
    );
    folder.write("envoy.yaml", ENVOY);
    if tools::find("faketime").is_none() {
        return;
    }
    let clock = Clock::right(folder.0.path()).expect("the program's library");
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let until_ten = 2 * DAY - unix % DAY + 10 * HOUR;
    clock.set(&format!("+{until_ten}"));
    let mut command = serve(&folder, &["--envoy", &folder.path("envoy.yaml")]);
    clock.drive(&mut command);
    // It is the system's clock that is set: no time passes.
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
    let mut server = Process::start(command);
    let (address, admin) = (address_of(&mut server, "http"), address_of(&mut server, "admin"));
    let near = |shown: [u64; 2], hours: u64| {
        shown.iter().all(|left| (hours * HOUR - 120..=hours * HOUR).contains(left))
    };
    let before = left_of_day(&address);
    assert!(near(before, 14), "{before:?}");
    clock.set(&format!("+{}", until_ten - HOUR));
    let began = Instant::now();
    while ahead(&admin).abs() > 1.0 || began.elapsed() < Duration::from_secs(1) {
        assert!(began.elapsed() < MINUTE, "it does not follow: {}", ahead(&admin));
        thread::sleep(Duration::from_millis(100));
    }
    assert!(server.says("the system's clock was set").contains("seconds=-3"), "{}", server.said);
    // The metric changes right before the windows do.
    let after = || {
        (0..50).find_map(|_| {
            thread::sleep(Duration::from_millis(20));
            Some(left_of_day(&address)).filter(|left| near(*left, 15))
        })
    };
    assert!(after().is_some(), "{:?}", left_of_day(&address));
}
