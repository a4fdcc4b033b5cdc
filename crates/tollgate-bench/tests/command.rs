//! Runs of the command: all contestants give the expected answers, and the exit code is right.

use std::fs;
use std::path::PathBuf;
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

/// The contestants that must take part.
const CONTESTANTS: [&str; 9] = [
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

/// Returns an empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("it can be made");
    folder
}

#[test]
fn every_contestant_gives_the_expected_answers() {
    // A wrong answer ends the run with an error.
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
    for name in CONTESTANTS {
        assert!(names.iter().any(|other| other == name), "{name} takes no part");
    }
    every_chart_is_drawn(&output.stdout, &document);
}

fn every_chart_is_drawn(json: &[u8], document: &Value) {
    let folder = folder("charts");
    let (results, charts) = (folder.join("results.json"), folder.join("drawn"));
    fs::write(&results, json).expect("it can be written");
    let scale = folder.join("scale.json");
    let output = bench(&["--quick", "--json", "--passes", "1", "--filter", "scale"]);
    fs::write(&scale, output.stdout).expect("it can be written");
    let [results, scale, drawn_to] = [&results, &scale, &charts].map(|path| path.to_str().expect("UTF-8"));
    let output = bench(&["--from", results, "--from", scale, "--charts", drawn_to]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let drawn = fs::read_dir(&charts).expect("it was made").count();
    let printed = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(drawn == 10 && !printed.contains("did not draw"), "{drawn}: {printed}");
    let headline = fs::read_to_string(charts.join("headline.svg")).expect("it was drawn");
    let first = &document["workloads"][0]["contestants"][0];
    let median = first["spread"]["median"].as_f64().expect("a number");
    let figure = if median < 99.95 { format!(">{median:.1}<") } else { format!(">{median:.0}<") };
    let page = fs::read_to_string(charts.join("figures.md")).expect("it was written");
    for workload in document["workloads"].as_array().expect("a list") {
        assert!(
            page.contains(&format!("\n## {}\n", text(&workload["name"]))),
            "{} is not there",
            workload["name"]
        );
    }
    for part in ["A QUICK RUN", "## Targets", "| at most 0.65 |", "## 1 to 64 cores: a model", "p99.99"] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    for part in ["A QUICK RUN", "--quick --json", "Mutex&lt;HashMap&gt;", &figure] {
        assert!(headline.contains(part), "{part} is not in\n{headline}");
    }
}

#[test]
fn recovered_keys_are_admitted_in_any_number_of_passes() {
    for order in [None, Some("--alone")] {
        let arguments = ["--quick", "--filter", "recovered", "--filter", "1k keys, 100/s"];
        let output = bench(&arguments.into_iter().chain(order).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn figures_alone_join_the_tables_of_figures_in_turns() {
    let folder = folder("alone");
    let path = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
    let (in_turns, alone) = (path("in-turns.json"), path("alone.json"));
    for (file, order) in [(&in_turns, None), (&alone, Some("--alone"))] {
        let arguments = ["--quick", "--json", "--passes", "1", "--filter", "hot key, allow"];
        let output = bench(&arguments.into_iter().chain(order).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        fs::write(file, output.stdout).expect("it can be written");
    }
    let output = bench(&["--from", &in_turns, "--from", &alone, "--charts", &path("charts")]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(path("charts/figures.md")).expect("it was written");
    assert_eq!(page.matches("\n## hot key, allow\n").count(), 1, "{page}");
    for row in ["| tollgate |", "| tollgate, alone |", "tollgate / governor (ahash), alone |"] {
        assert!(page.contains(row), "{row} is not in\n{page}");
    }
}

#[test]
fn a_chart_without_figures_names_the_missing_one() {
    let folder = folder("lacking");
    fs::write(folder.join("headline.svg"), "of an earlier run").expect("it can be written");
    let charts = folder.to_str().expect("UTF-8");
    let output = bench(&["--quick", "--passes", "1", "--filter", "hot key, allow", "--charts", charts]);
    assert_eq!(output.status.code(), Some(0));
    assert!(!folder.join("headline.svg").exists(), "the chart of an earlier run stays");
    let printed = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(
        printed.contains("headline.svg: there is no `tollgate` in a workload `1M keys uniform, allow`"),
        "{printed}"
    );
}

#[test]
fn an_invalid_file_of_results_is_an_error() {
    let file = folder("unfit").join("results.json");
    for content in ["{}", "[1]", "not JSON"] {
        fs::write(&file, content).expect("it can be written");
        let output = bench(&["--from", file.to_str().expect("UTF-8"), "--charts", "nowhere"]);
        assert_eq!(output.status.code(), Some(2), "{content}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("results.json"), "{content}");
    }
}

#[test]
fn the_exit_code_tells_whether_a_target_is_missed() {
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
fn the_default_output_is_tables() {
    let output = bench(&["--quick", "--targets", "--passes", "1", "--filter", "string key of 16"]);
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    for part in ["string key of 16 bytes, hot", "ns a check", "throttlecrab", "at most 0.7", "of 2 missed"] {
        assert!(printed.contains(part), "{part} is not in\n{printed}");
    }
    assert!(output.stderr.is_empty(), "no progress bar without a terminal");
}

#[test]
fn a_filter_without_matches_is_an_error() {
    let output = bench(&["--filter", "no such workload"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no such workload"));
}
