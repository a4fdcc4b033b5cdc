//! The command as it is run: all contestants do what is claimed of them, and the exit code says how it came out.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tollgate-bench")).args(arguments).output().expect("it is built")
}

fn parsed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn text(value: &Value) -> String {
    value.as_str().expect("a string").to_owned()
}

/// Those who are to take part, by the beginnings of their names.
const EVERYBODY: [&str; 9] = [
    "tollgate",
    "governor",
    "governor (ahash)",
    "rate-net",
    "ratelimit",
    "leaky-bucket",
    "throttlecrab",
    "pingora-limits",
    "Mutex<HashMap>",
];

#[test]
fn every_contestant_of_every_workload_does_what_is_claimed_of_it() {
    // Whoever admits or refuses what it should not ends the run with a fault.
    let output = bench(&["--quick", "--json", "--passes", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document = parsed(&output);
    let workloads = document["workloads"].as_array().expect("a list");
    let listed = String::from_utf8(bench(&["--list"]).stdout).expect("UTF-8");
    assert_eq!(workloads.len(), listed.lines().count());
    let mut names = Vec::new();
    for workload in workloads {
        let contestants = workload["contestants"].as_array().expect("a list");
        assert!(contestants.len() > 1, "{} compares nothing", workload["name"]);
        for contestant in contestants {
            names.push(text(&contestant["name"]));
            let median = contestant["spread"]["median"].as_f64().expect("a number");
            assert!(
                median >= 0.0 && contestant["passes"].as_array().is_some_and(|passes| !passes.is_empty())
            );
        }
    }
    for name in EVERYBODY {
        assert!(names.iter().any(|other| other == name), "{name} takes no part");
    }
}

#[test]
fn the_exit_code_says_whether_a_target_is_missed() {
    for filter in ["string key", "new keys", "hot key, time given"] {
        let output = bench(&["--quick", "--targets", "--json", "--passes", "3", "--filter", filter]);
        let document = parsed(&output);
        let targets = document["targets"].as_array().expect("a list");
        assert!(!targets.is_empty());
        let missed = targets.iter().any(|target| target["met"] == false);
        assert_eq!(output.status.code(), Some(i32::from(missed)), "{targets:?}");
    }
}

#[test]
fn people_get_tables() {
    let output = bench(&["--quick", "--targets", "--passes", "1", "--filter", "string key of 16"]);
    let told = String::from_utf8(output.stdout).expect("UTF-8");
    for part in ["string key of 16 bytes, hot", "ns a check", "throttlecrab", "at most 0.7", "of 2 missed"] {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
    assert!(output.stderr.is_empty(), "no bar where there is no terminal");
}

#[test]
fn a_filter_that_nothing_matches_is_a_fault() {
    let output = bench(&["--filter", "no such workload"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no such workload"));
}
