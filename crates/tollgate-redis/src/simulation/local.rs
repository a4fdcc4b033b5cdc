//! Nodes that lose the store now and then, and decide by their share of the limit.

use std::time::Duration;

use tollgate::{ManualClock, Quota, Rate, TokenBucket};
use tollgate_testing::random::Random;

use super::store::Store;

use super::{Events, arrivals, excess, runs};
use crate::fallback::Local;

enum Event {
    Request(usize),
    /// A node loses the store or has it back.
    Flips(usize),
}

/// A random run of two seconds: by how many thousandths of the shares it passes the store's limit.
/// Above 1,000, it passed the bound.
fn run(seed: u64, starts_anew: bool) -> i128 {
    const END: u64 = 2_000_000;
    let mut random = Random::with_seed(seed);
    let nodes = random.usize(2..=6);
    let (cut, gap) = (random.u64(1..=nodes as u64) as usize, random.choice([2_000_u64, 20_000]).unwrap());
    let burst = nodes as u64 * random.u64(1..=20);
    let quota = Quota::from(TokenBucket::new(Rate::new(1, Duration::from_micros(gap))).burst(burst));
    let clock = ManualClock::new();
    let local = || Local::with_clock(&[quota], nodes as u32, clock.clone()).expect("it has a share");
    let (mut locals, mut is_cut) = ((0..nodes).map(|_| local()).collect::<Vec<_>>(), vec![false; nodes]);
    let (mut store, mut events, mut admitted) = (Store::new(1, gap, burst), Events::new(), Vec::new());
    for (time, node) in arrivals(&mut random, nodes, END, gap, burst) {
        events.at(time, Event::Request(node));
    }
    for node in 0..cut {
        let mut time = 0;
        for _ in 0..random.choice([1, 2, 20]).unwrap() {
            time += random.u64(1..=END / 4);
            events.at(time, Event::Flips(node));
        }
    }
    let mut last = 0;
    while let Some(event) = events.next() {
        clock.advance(Duration::from_micros(events.now - last));
        last = events.now;
        match event {
            Event::Flips(node) => {
                is_cut[node] ^= true;
                if starts_anew && is_cut[node] {
                    locals[node] = local();
                }
            }
            Event::Request(node) => {
                let is_admitted = match is_cut[node] {
                    true => locals[node].check_n(b"k", 1).is_allowed(),
                    false => store.take(events.now, 1, 1).0 == 1,
                };
                if is_admitted {
                    admitted.push(events.now);
                }
            }
        }
    }
    // (1 + k/N) * (burst + rate * W), in parts of N.
    let (nodes, cut) = (nodes as u64, cut as u64);
    let most = excess(&admitted, nodes + cut, nodes * gap);
    let store = i128::from(nodes * burst * gap);
    (most - store) * 1_000 / i128::from(cut * burst * gap)
}

#[test]
fn local_limiters_add_their_shares() {
    let used: Vec<_> = (0..runs()).map(|seed| (run(seed, false), seed)).collect();
    let most = *used.iter().max().expect("there are runs");
    println!("of the shares, {} runs used at most {} thousandths", used.len(), most.0);
    assert!(most.0 <= 1_000, "seed {} used {} thousandths", most.1, most.0);
    assert!(most.0 > 500, "the runs have become tame");
}

#[test]
fn local_limiters_that_start_anew_pass_the_bound() {
    let over = (0..runs()).filter(|&seed| run(seed, true) > 1_000).count();
    println!("{over} of {} runs pass the bound", runs());
    assert!(over > 0, "local limiters that start anew are not found");
}
