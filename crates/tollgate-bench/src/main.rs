//! `cargo run --release -p tollgate-bench`: Tollgate and governor side by side.
//!
//! The two take turns, round by round, on the same keys in the same order, so that whatever else the machine does hits
//! both alike. What counts is the ratio within a round; the table shows its median and its quartiles over the rounds.

use std::hint::black_box;
use std::time::Instant;

use tollgate_bench::{Peer, Workload, workloads};

/// Rounds a workload.
const ROUNDS: usize = 31;

fn main() {
    println!(
        "{:<24} {:>10} {:>10}   ratio (quartiles), {ROUNDS} rounds",
        "ns a check", "governor", "tollgate"
    );
    for workload in workloads() {
        print(&workload);
    }
}

fn print(workload: &Workload) {
    // The first round finds the keys; it does not count.
    let mut rounds: Vec<(f64, f64)> = (0..=ROUNDS)
        .map(|_| (time(&workload.governor, workload), time(&workload.tollgate, workload)))
        .collect();
    rounds.remove(0);
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        [values[ROUNDS / 4], values[ROUNDS / 2], values[ROUNDS * 3 / 4]]
    };
    let [_, theirs, _] = median(rounds.iter().map(|round| round.0).collect());
    let [_, ours, _] = median(rounds.iter().map(|round| round.1).collect());
    let [low, ratio, high] = median(rounds.iter().map(|round| round.1 / round.0).collect());
    println!("{:<24} {theirs:>10.1} {ours:>10.1}   {ratio:.2} ({low:.2} .. {high:.2})", workload.name);
}

/// Nanoseconds a check over one pass of the workload's keys.
fn time(check: &Peer, workload: &Workload) -> f64 {
    let begun = Instant::now();
    black_box(check(&workload.keys));
    begun.elapsed().as_secs_f64() * 1e9 / workload.keys.len() as f64
}
