//! The last minutes, for the live page.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::state::Admin;
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
    /// Requests that were admitted, and refused, by all rules together.
    requests: [u64; 2],
    rules: Vec<(Arc<RuleCounts>, [u64; 2])>,
}

/// Requests a second of a rule, by time: from each sample to the next.
#[derive(Default, serde::Serialize)]
pub(super) struct Rates {
    pub(super) allowed: Vec<f64>,
    pub(super) refused: Vec<f64>,
}

/// What [`History::rates`] returns.
pub(super) struct Recent {
    /// How many seconds ago each rate ended.
    pub(super) ages: Vec<f64>,
    pub(super) requests: Rates,
    pub(super) rules: Vec<Rates>,
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
        let sample = Sample {
            at: metrics.now(),
            requests: metrics.requests(),
            rules: generation.counts.iter().map(counts).collect(),
        };
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        samples.push_back(sample);
        if samples.len() > SAMPLES + 1 {
            samples.pop_front();
        }
    }

    /// The rates of all requests, and of each of these rules. A rule that was not there yet has
    /// rates of 0.
    pub(super) fn rates(&self, now: u64, rules: &[Arc<RuleCounts>]) -> Recent {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rates = rules.iter().map(|_| Rates::default()).collect();
        let mut recent = Recent { ages: Vec::new(), requests: Rates::default(), rules: rates };
        for (before, after) in samples.iter().zip(samples.iter().skip(1)) {
            recent.ages.push(to_tenths(now.saturating_sub(after.at) as f64 / 1e9));
            let seconds = after.at.saturating_sub(before.at).max(1) as f64 / 1e9;
            recent.requests.push(before.requests, after.requests, seconds);
            for (index, (rule, rates)) in rules.iter().zip(&mut recent.rules).enumerate() {
                match (before.of(index, rule), after.of(index, rule)) {
                    (Some(before), Some(after)) => rates.push(before, after, seconds),
                    _ => rates.push([0, 0], [0, 0], seconds),
                }
            }
        }
        recent
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

impl Rates {
    fn push(&mut self, before: [u64; 2], after: [u64; 2], seconds: f64) {
        let [allowed, refused] = [0, 1].map(|of| after[of].saturating_sub(before[of]) as f64 / seconds);
        self.allowed.push(to_tenths(allowed));
        self.refused.push(to_tenths(refused));
    }
}

/// The page shows no more digits.
fn to_tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
