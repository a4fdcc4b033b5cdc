//! One of many threads on one limiter: its checks, and what it counts.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tollgate::{Lease, Limiter, Quota};

use crate::spec::Spec;

/// One call in so many is timed: reading a clock costs more than a call.
pub(super) const SAMPLED: usize = 64;

/// A longer latency is recorded as this: a minute.
const MAX_LATENCY: u64 = 60_000_000_000;

/// The significant digits of a latency.
const DIGITS: u8 = 3;

/// How many groups the tracked keys of a flood form.
pub(super) const GROUPS: u32 = 4;

/// Checks of strangers for each check of a tracked key.
pub(super) const STRANGERS: u64 = 2;

/// What all threads do.
pub(super) struct Plan {
    pub(super) limit: Spec,
    pub(super) threads: usize,
    /// Keys whose admissions are counted.
    pub(super) keys: u32,
    /// How many keys the limiter has room for.
    pub(super) max_keys: usize,
    pub(super) time: Duration,
    /// Checks that each thread makes, however long they take.
    pub(super) min_checks: u64,
    pub(super) mode: Mode,
    /// The keys in the order in which they are checked; their number is a power of two.
    pub(super) key_sequence: Vec<u32>,
}

/// How a thread checks keys.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mode {
    OneByOne,
    /// So many keys a call.
    Batches(usize),
    /// By a lease of each key, of so many permits.
    Leases(u64),
    /// Each key once, in a limiter that grows with them; once more when all keys are there.
    Growing,
    /// One by one, with [`STRANGERS`] checks of strangers between any two: keys that come only
    /// once.
    Flood(Flood),
}

/// A flood in which a tracked key shows whether its debt was forgiven.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flood {
    /// The cost of a stranger's check. A tracked key that paused has less debt, so a stranger
    /// evicts it.
    pub(super) cost: u64,
    /// How long one of the [`GROUPS`] of tracked keys is checked before the next. Meanwhile its
    /// keys have too much debt to be evicted.
    pub(super) slice: Duration,
}

/// What a thread counted, or all threads together.
pub(super) struct Totals {
    /// Checks in timed calls and between them.
    pub(super) checks: u64,
    /// How often each key was admitted.
    pub(super) admitted: Vec<u64>,
    /// Admissions of the second check of each key in a limiter that grows; `checks` does not count
    /// those.
    pub(super) admitted_again: u64,
    /// Checks of strangers, among `checks`.
    pub(super) strangers: u64,
    pub(super) strangers_admitted: u64,
    /// In nanoseconds, of one call in [`SAMPLED`] (of a batch in as many checks, of every call
    /// while the limiter grows), with one reading of the timer.
    pub(super) latency: Histogram<u64>,
    /// How long the busiest thread was checking.
    pub(super) busy: Duration,
    /// The longest pause of a thread that only reads the timer, for as long as the limiter grew
    /// before. The machine interrupts checks as it interrupts this thread.
    pub(super) pause: Duration,
}

impl Totals {
    pub(super) fn new(keys: u32) -> Self {
        let latency = Histogram::new_with_max(MAX_LATENCY, DIGITS).expect("one to five digits are valid");
        Self {
            checks: 0,
            admitted: vec![0; keys as usize],
            admitted_again: 0,
            strangers: 0,
            strangers_admitted: 0,
            latency,
            busy: Duration::ZERO,
            pause: Duration::ZERO,
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.checks += other.checks;
        self.admitted.iter_mut().zip(&other.admitted).for_each(|(all, one)| *all += one);
        self.admitted_again += other.admitted_again;
        self.strangers += other.strangers;
        self.strangers_admitted += other.strangers_admitted;
        self.latency.add(&other.latency).expect("both histograms have the same range");
        self.busy = self.busy.max(other.busy);
        self.pause = self.pause.max(other.pause);
    }

    /// Repeats `call`, which makes so many checks, until the plan's time has passed.
    fn keep_calling(&mut self, plan: &Plan, checks_a_call: usize, mut call: impl FnMut(&mut [u64])) {
        let calls = SAMPLED.div_ceil(checks_a_call);
        let start = Instant::now();
        loop {
            for _ in 1..calls {
                call(&mut self.admitted);
            }
            let before = Instant::now();
            call(&mut self.admitted);
            let after = Instant::now();
            self.latency.saturating_record((after - before).as_nanos() as u64);
            self.checks += (calls * checks_a_call) as u64;
            if after - start >= plan.time && self.checks >= plan.min_checks {
                self.busy = after - start;
                return;
            }
        }
    }
}

/// What thread `number` does once all threads are ready.
pub(super) fn work(plan: &Plan, limiter: &Limiter<u64, Quota>, number: usize, ready: &Barrier) -> Totals {
    let mut totals = Totals::new(plan.keys);
    let mask = plan.key_sequence.len().wrapping_sub(1);
    let mut position = number * plan.key_sequence.len() / plan.threads;
    let mut next_key = || {
        position += 1;
        u64::from(plan.key_sequence[position & mask])
    };
    match plan.mode {
        Mode::OneByOne => {
            ready.wait();
            totals.keep_calling(plan, 1, |admitted| {
                let key = next_key();
                admitted[key as usize] += u64::from(limiter.check(key).is_allowed());
            });
        }
        Mode::Batches(size) => {
            let mut keys = vec![0; size];
            ready.wait();
            totals.keep_calling(plan, size, |admitted| {
                keys.fill_with(&mut next_key);
                for (key, decision) in keys.iter().zip(limiter.check_many(&keys)) {
                    admitted[*key as usize] += u64::from(decision.is_allowed());
                }
            });
        }
        Mode::Growing => {
            let own_keys = || (number as u64..plan.keys.into()).step_by(plan.threads);
            ready.wait();
            let start = Instant::now();
            for key in own_keys() {
                let before = Instant::now();
                let admitted = limiter.check(key).is_allowed();
                totals.latency.saturating_record(before.elapsed().as_nanos() as u64);
                totals.admitted[key as usize] += u64::from(admitted);
                totals.checks += 1;
            }
            totals.busy = start.elapsed();
            totals.pause = longest_pause(totals.busy);
            for key in own_keys().filter(|key| limiter.check(key).is_allowed()) {
                totals.admitted[key as usize] += 1;
                totals.admitted_again += 1;
            }
        }
        Mode::Flood(Flood { cost, slice }) => {
            // Strangers' keys are above the tracked ones, and each thread has its own.
            let mut stranger = u64::from(u32::MAX) + number as u64;
            let (mut turn, mut group, mut strangers, mut strangers_admitted) = (0, 0, 0, 0);
            ready.wait();
            let start = Instant::now();
            totals.keep_calling(plan, 1, |admitted| {
                turn += 1;
                // The clock is not read in a timed call.
                if turn % SAMPLED as u64 == 1 {
                    group = start.elapsed().as_nanos() / slice.as_nanos() % u128::from(GROUPS);
                }
                if turn % (STRANGERS + 1) == 0 {
                    let key = next_key();
                    let key = (key - key % u64::from(GROUPS) + group as u64) % u64::from(plan.keys);
                    admitted[key as usize] += u64::from(limiter.check(key).is_allowed());
                } else {
                    stranger += plan.threads as u64;
                    strangers += 1;
                    strangers_admitted += u64::from(limiter.check_n(stranger, cost).is_allowed());
                }
            });
            (totals.strangers, totals.strangers_admitted) = (strangers, strangers_admitted);
        }
        Mode::Leases(permits) => {
            let lease = |key| limiter.account(key).lease().permits(permits);
            let mut leases: Vec<Lease<'_, _, 1, _>> = (0..u64::from(plan.keys)).map(lease).collect();
            ready.wait();
            totals.keep_calling(plan, 1, |admitted| {
                let key = next_key() as usize;
                admitted[key] += u64::from(leases[key].check().is_allowed());
            });
        }
    }
    totals
}

/// The longest time between two readings of the timer by a thread that does nothing else for
/// `time`.
fn longest_pause(time: Duration) -> Duration {
    let start = Instant::now();
    let (mut last, mut longest) = (start, Duration::ZERO);
    while last - start < time {
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
    }
    longest
}

/// The median cost of reading the timer, in nanoseconds.
pub(super) fn timer_cost() -> u64 {
    let mut readings: Vec<u128> = (0..10_001)
        .map(|_| {
            let before = Instant::now();
            (Instant::now() - before).as_nanos()
        })
        .collect();
    readings.sort_unstable();
    readings[readings.len() / 2] as u64
}
