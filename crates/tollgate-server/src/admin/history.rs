//! The last minutes, for the live page.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::Admin;
use crate::metrics::RuleCounts;

/// The time between two samples.
const STEP: Duration = Duration::from_secs(2);

/// Samples that are kept: five minutes.
const SAMPLES: usize = 150;

/// Samples of the rules' counters.
#[derive(Default)]
pub(super) struct History(Mutex<VecDeque<Sample>>);

struct Sample {
    /// Of the rules' clock, in nanoseconds.
    at: u64,
    rules: Vec<(Arc<RuleCounts>, [u64; 2])>,
}

/// Requests a second of a rule, by time: from each sample to the next.
#[derive(Default, serde::Serialize)]
pub(super) struct Rates {
    pub(super) allowed: Vec<f64>,
    pub(super) refused: Vec<f64>,
}

/// Takes samples until the server ends.
pub(super) async fn keep(admin: Arc<Admin>) {
    let (ends, admin): (_, Weak<Admin>) = (admin.drain.ends.clone(), Arc::downgrade(&admin));
    let mut ticks = tokio::time::interval(STEP);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = ends.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let Some(admin) = admin.upgrade() else { return };
        admin.history.add(&admin);
    }
}

impl History {
    fn add(&self, admin: &Admin) {
        let metrics = &admin.core.metrics;
        let generation = metrics.generation();
        let counts = |counts: &Arc<RuleCounts>| {
            let sums = counts.sums();
            (Arc::clone(counts), [sums.allowed, sums.refusals()])
        };
        let sample = Sample { at: metrics.now(), rules: generation.counts.iter().map(counts).collect() };
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        samples.push_back(sample);
        if samples.len() > SAMPLES + 1 {
            samples.pop_front();
        }
    }

    /// How many seconds before `now` each rate ends, and the rates of each of these rules. A rule
    /// that was not there yet has rates of 0.
    pub(super) fn rates(&self, now: u64, rules: &[Arc<RuleCounts>]) -> (Vec<f64>, Vec<Rates>) {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ages = Vec::new();
        let mut rates: Vec<Rates> = rules.iter().map(|_| Rates::default()).collect();
        for (before, after) in samples.iter().zip(samples.iter().skip(1)) {
            ages.push(now.saturating_sub(after.at) as f64 / 1e9);
            let seconds = after.at.saturating_sub(before.at).max(1) as f64 / 1e9;
            for (index, (rule, rates)) in rules.iter().zip(&mut rates).enumerate() {
                let [allowed, refused] = match (before.of(index, rule), after.of(index, rule)) {
                    (Some(before), Some(after)) => [0, 1].map(|of| after[of].saturating_sub(before[of])),
                    _ => [0, 0],
                };
                rates.allowed.push(per_second(allowed, seconds));
                rates.refused.push(per_second(refused, seconds));
            }
        }
        (ages, rates)
    }
}

impl Sample {
    /// The counts of a rule, which is at this index unless the rules have changed.
    fn of(&self, index: usize, rule: &Arc<RuleCounts>) -> Option<[u64; 2]> {
        let is_it = |(own, _): &&(Arc<RuleCounts>, [u64; 2])| Arc::ptr_eq(own, rule);
        let found = self.rules.get(index).filter(is_it).or_else(|| self.rules.iter().find(is_it));
        found.map(|(_, counts)| *counts)
    }
}

/// To two digits after the point: the page shows no more.
fn per_second(count: u64, seconds: f64) -> f64 {
    (count as f64 / seconds * 100.0).round() / 100.0
}
