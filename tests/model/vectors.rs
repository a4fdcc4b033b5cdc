//! The decisions that other limiters' tests assert, replayed on the engine and the model.
//!
//! `vectors/*.json` has scenarios transcribed from peers' suites. `vectors/README.md` explains how
//! their terms map to ours, and lists the scenarios that are left out and the expectations that we
//! contradict, each with the reason. The tests read these lists: a scenario is replayed unless the
//! page leaves it out, and a row that names nothing, or no longer holds, fails.
//!
//! ```text
//!   *.json -> scenario -> replay, closed_loop, procedure -> Subject: the model, the engine
//!              vocabulary -> Limit -'                '-> expect
//! ```

mod closed_loop;

mod engine_subject;
mod expect;
mod model_subject;
mod procedure;
mod readme;
mod replay;
mod scenario;
mod subject;
mod vocabulary;

use subject::Build;

/// The limiters that must give the peers' answers.
const SUBJECTS: &[(&str, Build)] = &[("model", model_subject::build), ("engine", engine_subject::build)];

/// The files, each with its own test below.
const FILES: [&str; 9] = [
    "envoy",
    "fixed_window_envoy_ratelimit",
    "gcra_quota_tables",
    "governor",
    "leaky_nginx",
    "pacing_uber",
    "sliding_window_counter",
    "throttlecrab",
    "x_time_rate",
];

#[test]
fn envoy() {
    replay::file("envoy");
}

#[test]
fn fixed_window_envoy_ratelimit() {
    replay::file("fixed_window_envoy_ratelimit");
}

#[test]
fn gcra_quota_tables() {
    replay::file("gcra_quota_tables");
}

#[test]
fn governor() {
    replay::file("governor");
}

#[test]
fn leaky_nginx() {
    replay::file("leaky_nginx");
}

#[test]
fn pacing_uber() {
    replay::file("pacing_uber");
}

#[test]
fn sliding_window_counter() {
    replay::file("sliding_window_counter");
}

#[test]
fn throttlecrab() {
    replay::file("throttlecrab");
}

#[test]
fn x_time_rate() {
    replay::file("x_time_rate");
}

#[test]
fn every_file_of_vectors_has_a_test() {
    let mut found = scenario::files();
    found.sort();
    assert_eq!(found, FILES);
}

#[test]
fn every_row_of_the_readme_names_something_that_exists() {
    let scenarios: Vec<_> = FILES.iter().flat_map(|file| scenario::load(file)).collect();
    for id in readme::left_out() {
        assert!(scenarios.iter().any(|scenario| scenario.id() == id), "{id} is left out but does not exist");
    }
    for row in readme::contradicted() {
        let scenario = scenarios.iter().find(|scenario| scenario.id() == row.id);
        let scenario = scenario.unwrap_or_else(|| panic!("{row:?} names no scenario"));
        let step = scenario.steps().nth(row.step - 1).unwrap_or_else(|| panic!("{row:?} names no step"));
        assert!(step.expect().contains_key(&row.field), "{row:?} names nothing that the step expects");
        assert!(!readme::left_out().contains(&row.id), "{row:?} names a scenario that is left out");
    }
}
