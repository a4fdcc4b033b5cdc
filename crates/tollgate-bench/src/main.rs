//! `cargo run --release -p tollgate-bench`: Tollgate, governor and the floor side by side.
//!
//! They take turns, round by round, on the same keys in the same order, so that whatever else the machine does hits
//! all alike. What counts is the ratio within a round; the table shows its median and its quartiles over the rounds.

use std::hint::black_box;
use std::time::Instant;

use tollgate_bench::{Peer, Workload, workloads};

/// Rounds a workload.
const ROUNDS: usize = 31;

fn main() {
    println!(
        "{:<24} {:>9} {:>9} {:>9}   tollgate / governor    tollgate / floor    ({ROUNDS} rounds, with quartiles)",
        "ns a check", "governor", "tollgate", "floor"
    );
    for workload in workloads() {
        print(&workload);
    }
}

fn print(workload: &Workload) {
    // The first round finds the keys; it does not count.
    let round = || [&workload.governor, &workload.tollgate, &workload.floor].map(|peer| time(peer, workload));
    let rounds: Vec<[f64; 3]> = (0..=ROUNDS).map(|_| round()).skip(1).collect();
    let quartiles = |of: fn(&[f64; 3]) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        [values[ROUNDS / 4], values[ROUNDS / 2], values[ROUNDS * 3 / 4]]
    };
    let [governor, tollgate, floor] =
        [quartiles(|round| round[0])[1], quartiles(|round| round[1])[1], quartiles(|round| round[2])[1]];
    let ratio = |[low, median, high]: [f64; 3]| format!("{median:.2} ({low:.2} .. {high:.2})");
    println!(
        "{:<24} {governor:>9.1} {tollgate:>9.1} {floor:>9.1}   {}   {}",
        workload.name,
        ratio(quartiles(|round| round[1] / round[0])),
        ratio(quartiles(|round| round[1] / round[2])),
    );
}

/// Nanoseconds a check over one pass of the workload's keys.
fn time(check: &Peer, workload: &Workload) -> f64 {
    let begun = Instant::now();
    black_box(check(&workload.keys));
    begun.elapsed().as_secs_f64() * 1e9 / workload.keys.len() as f64
}
