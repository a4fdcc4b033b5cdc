//! Nodes, a store and a network between them, in simulated time: leases, deny caches, centres and
//! local limiters keep their bounds over every interval, and broken variants are found out.
//!
//! The nodes run this crate's own logic. The store is a bucket in whole grains, so an excess is
//! exact. After `distributed_sim.py` of the design, section 5.
//!
//! `TOLLGATE_SIMULATIONS` sets how many runs each variant makes, if not some hundred.

mod centres;
mod leased;
mod local;
mod store;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tollgate_testing::random::Random;

/// How many runs a variant makes.
fn runs() -> u64 {
    let runs = std::env::var("TOLLGATE_SIMULATIONS");
    runs.map_or(300, |runs| runs.parse().expect("TOLLGATE_SIMULATIONS is a number"))
}

/// Events in the order of their times, and of equal times in the order in which they were added.
struct Events<E> {
    heap: BinaryHeap<Reverse<(u64, u64)>>,
    events: Vec<Option<E>>,
    /// The time in microseconds.
    now: u64,
}

impl<E> Events<E> {
    fn new() -> Self {
        Self { heap: BinaryHeap::new(), events: Vec::new(), now: 0 }
    }

    fn at(&mut self, time: u64, event: E) {
        self.heap.push(Reverse((time, self.events.len() as u64)));
        self.events.push(Some(event));
    }

    fn next(&mut self) -> Option<E> {
        let Reverse((time, number)) = self.heap.pop()?;
        self.now = time;
        self.events[number as usize].take()
    }
}

/// When requests come to each of the nodes: floods, trickles, and all at once after a pause, which
/// half of the time is the pause of all nodes. `gap` is the microseconds in which the limit wins
/// back one permit.
fn arrivals(random: &mut Random, nodes: usize, end: u64, gap: u64, burst: u64) -> Vec<(u64, usize)> {
    let (mut all, have_tides) = (Vec::new(), random.bool());
    for node in 0..nodes {
        let (mut time, pause) = (0, if random.u64(..4) == 0 { 8 * gap } else { gap });
        while time < end {
            time += random.u64(1..=2 * pause);
            let is_quiet = if have_tides { time % 300_000 > 60_000 } else { random.u64(..200) == 0 };
            if is_quiet {
                time = (time / 300_000 + 1) * 300_000;
                let rush = 0..burst.min(300);
                all.extend(rush.map(|number| (time + 5 * number, node)));
            }
            all.push((time, node));
        }
    }
    all
}

/// By how many grains the times pass what a rate of `p` grains a microsecond allows, at most over
/// all intervals; a permit is `q` grains.
fn excess(times: &[u64], p: u64, q: u64) -> i128 {
    let mut times: Vec<i128> = times.iter().map(|&time| time.into()).collect();
    times.sort_unstable();
    let (p, q) = (i128::from(p), i128::from(q));
    let (mut most, mut least) = (0, i128::MAX);
    for (before, &time) in times.iter().enumerate() {
        least = least.min(before as i128 * q - p * time);
        most = most.max((before as i128 + 1) * q - p * time - least);
    }
    most
}

#[test]
fn an_excess_is_that_of_the_worst_interval() {
    // 1 permit in 10 us. Between 100 and 110 three come, of which 10 us allow one.
    assert_eq!(excess(&[0, 100, 105, 110, 300], 1, 10), 20);
}
