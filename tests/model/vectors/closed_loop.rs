//! Workers that repeatedly take from limiters in turn, with the number of their rounds.
//!
//! A worker has a time of its next action and a position in its chain of limiters. The worker with
//! the earliest time acts: it takes from its limiter, and acts again at its departure.

use std::collections::HashMap;

use super::scenario::{Scenario, number, text};
use super::subject::{self, Build, Limit, Subject};
use super::vocabulary;

struct Worker {
    acts_at: u64,
    chain: Vec<String>,
    place: usize,
}

/// Runs the workers beyond the last asserted time. Returns the differences in words.
pub(crate) fn run(scenario: &Scenario, build: Build) -> Vec<String> {
    let mut limiters = limiters(scenario, build);
    let mut workers: Vec<_> = scenario.list("workers").iter().map(worker).collect();
    let asserted = scenario.list("assert_count_at");
    let end = asserted.iter().map(|point| number(&point["t_ns"])).max().expect("something is asserted");

    let mut came_round = Vec::new();
    loop {
        let worker = workers.iter_mut().min_by_key(|worker| worker.acts_at).expect("somebody works");
        if worker.acts_at > end {
            break;
        }
        let (limit, limiter) =
            limiters.get_mut(&worker.chain[worker.place]).expect("the chain names limiters");
        let taken = subject::take(&mut **limiter, *limit, "k", worker.acts_at);
        assert!(taken.allowed, "{}: the queue is too short: {taken:?}", scenario.id());
        worker.acts_at += taken.delay;
        worker.place += 1;
        if worker.place == worker.chain.len() {
            worker.place = 0;
            came_round.push(worker.acts_at);
        }
    }

    miscounted(scenario, &came_round)
}

/// Returns in words the asserted times with another number of departures.
pub(crate) fn miscounted(scenario: &Scenario, departures: &[u64]) -> Vec<String> {
    let judge = |point: &serde_json::Value| {
        let (at, want) = (number(&point["t_ns"]), number(&point["count"]));
        let count = departures.iter().filter(|&&time| time < at).count() as u64;
        (count != want).then(|| format!("before {at} ns the count should be {want}, is {count}"))
    };
    scenario.list("assert_count_at").iter().filter_map(judge).collect()
}

fn limiters(scenario: &Scenario, build: Build) -> HashMap<String, (Limit, Box<dyn Subject>)> {
    let configs = scenario.config()["limiters"].as_object().expect("limiters by name");
    let limiter = |config| {
        let limit = vocabulary::pacing(config);
        (limit, build(limit))
    };
    configs.iter().map(|(name, config)| (name.clone(), limiter(config))).collect()
}

fn worker(value: &serde_json::Value) -> Worker {
    let chain = value["chain"].as_array().expect("a chain of limiters");
    let chain = chain.iter().map(|name| text(name).to_owned()).collect();
    Worker { acts_at: number(&value["start_ns"]), chain, place: 0 }
}
