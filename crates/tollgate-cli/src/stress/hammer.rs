//! Many threads on one limiter.

use std::io;
use std::sync::{Barrier, RwLock};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tollgate::{Clock, Lease, Limiter, Quota, Stats, TscClock};

use super::bound::Stretch;
use super::footprint::{Footprint, resident};
use crate::failure::Failure;
use crate::progress::work_bar;
use crate::spec::{Spec, refusal};

/// One call in so many is timed: reading a clock costs more than a call.
pub(super) const SAMPLED: usize = 64;

/// A call that takes longer is recorded as this: a minute.
const LONGEST: u64 = 60_000_000_000;

/// Three digits of every latency.
const DIGITS: u8 = 3;

/// What to do.
pub(super) struct Plan {
    pub(super) limit: Spec,
    pub(super) threads: usize,
    /// Keys that are drawn and counted.
    pub(super) keys: u32,
    /// How many keys the limiter is made for.
    pub(super) room: usize,
    pub(super) time: Duration,
    /// Checks that each thread makes, however long they take.
    pub(super) least: u64,
    pub(super) way: Way,
    /// Key numbers; a power of two of them.
    pub(super) draws: Vec<u32>,
}

/// How a thread asks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// One check after the other.
    OneByOne,
    /// So many keys a call.
    Batches(usize),
    /// By a lease of each key, of so many permits.
    Leases(u64),
    /// Each key once, in a limiter that grows with them; and once more when all are there.
    Growing,
    /// One check after the other, and between any two of them `STRANGERS` of keys that never come again.
    Flood(Flood),
}

/// A flood in which a key whose debt was forgiven would show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flood {
    /// What a stranger asks for: so much that after a rest a drawn key owes less, and its slot goes to a stranger.
    pub(super) cost: u64,
    /// The drawn keys are in `GROUPS`, which take turns of so long: while a key asks, it owes too much to lose its slot.
    pub(super) slice: Duration,
}

/// Groups of keys in a flood.
pub(super) const GROUPS: u32 = 4;

/// Checks of strangers for each check of a drawn key.
pub(super) const STRANGERS: u64 = 2;

/// What happened.
pub(super) struct Hammered {
    pub(super) checks: u64,
    /// Admitted, key by key.
    pub(super) admitted: Vec<u64>,
    /// Of those, admitted in other calls than the `checks`.
    pub(super) again: u64,
    /// Of the `checks`, those of strangers, and how many were admitted.
    pub(super) strangers: (u64, u64),
    /// In nanoseconds, of one call in `SAMPLED` (or of a batch in about as many checks; of every call while the limiter
    /// grows), with one reading of the timer.
    pub(super) latency: Histogram<u64>,
    /// How long the busiest thread was checking.
    pub(super) busy: Duration,
    /// While the limiter grew: the longest pause of threads that only read the timer, afterwards and for as long. What the
    /// machine does to any thread, it did to the checks, too.
    pub(super) pause: Duration,
    /// From before the first check until after the last, by the operating system's clock.
    pub(super) elapsed: Duration,
    /// The same by the limiter's own clock.
    pub(super) limiter_elapsed: Duration,
    /// The same in Unix time, as long as the longer of the two.
    pub(super) stretch: Stretch,
    pub(super) stats: Stats,
    pub(super) footprint: Footprint,
}

/// Hammers a limiter as planned.
///
/// # Errors
///
/// When the engine does not accept the limit, or there is not enough memory for it; when the system does not start so many
/// threads.
pub(super) fn hammer(plan: &Plan) -> Result<Hammered, Failure> {
    let refused = |error| Failure::Usage(refusal(plan.limit, &error));
    let clock = TscClock::new();
    let builder = Limiter::<u64, Quota>::builder(plan.limit.quota())
        .max_keys(plan.room)
        .memory_budget(usize::MAX)
        .clock(clock.clone());
    let (most, before) = (builder.memory().map_err(refused)? as u64, resident());
    let limiter = builder.build().map_err(refused)?;
    let ready = Barrier::new(plan.threads + 1);
    let (zero, start) = (limiter.now(), Instant::now());
    // Held shut until all threads are there: if there is one too few, the others find it open to nobody, and end.
    let gate = RwLock::new(false);
    let workers = thread::scope(|scope| {
        let (limiter, ready, gate) = (&limiter, &ready, &gate);
        let mut is_open = gate.write().expect("nobody holds it yet");
        let hired = |number| {
            let all_are_there = move || gate.read().is_ok_and(|is_open| *is_open);
            let body = move || all_are_there().then(|| work(plan, limiter, number, ready));
            thread::Builder::new().spawn_scoped(scope, body)
        };
        let started: io::Result<Vec<_>> = (0..plan.threads).map(hired).collect();
        *is_open = started.is_ok();
        drop(is_open);
        let workers = started.map_err(|error| {
            Failure::Usage(format!("--threads: the system does not start {}: {error}", plan.threads))
        })?;
        ready.wait();
        match plan.way {
            Way::Growing => follow(|| limiter.stats().inserted, plan.keys),
            _ => watch(plan.time),
        }
        let joined = |worker: ScopedJoinHandle<'_, _>| worker.join().expect("a worker does not panic");
        Ok::<Vec<Worker>, Failure>(workers.into_iter().filter_map(joined).collect())
    })?;
    let (elapsed, end) = (start.elapsed(), limiter.now());
    let limiter_elapsed = Duration::from_nanos(end.as_nanos() - zero.as_nanos());
    let grown = before.zip(resident()).map(|(before, after)| after.saturating_sub(before));
    let footprint =
        Footprint { table: limiter.usage().memory_in_use as u64, most, grown, threads: plan.threads };

    let mut all = Worker::new(plan.keys);
    workers.into_iter().for_each(|worker| all.add(&worker));
    let from = clock.unix_at_zero().as_nanos() as u64 + zero.as_nanos();
    Ok(Hammered {
        checks: all.checks,
        admitted: all.admitted,
        again: all.again,
        strangers: all.strangers,
        latency: all.latency,
        busy: all.busy,
        pause: all.pause,
        elapsed,
        limiter_elapsed,
        stretch: Stretch { from, to: from + elapsed.max(limiter_elapsed).as_nanos() as u64 },
        stats: limiter.stats(),
        footprint,
    })
}

/// What one thread saw.
struct Worker {
    checks: u64,
    admitted: Vec<u64>,
    again: u64,
    strangers: (u64, u64),
    latency: Histogram<u64>,
    busy: Duration,
    pause: Duration,
}

impl Worker {
    fn new(keys: u32) -> Self {
        let latency = Histogram::new_with_max(LONGEST, DIGITS).expect("three digits are within one to five");
        Self {
            checks: 0,
            admitted: vec![0; keys as usize],
            again: 0,
            strangers: (0, 0),
            latency,
            busy: Duration::ZERO,
            pause: Duration::ZERO,
        }
    }

    fn add(&mut self, other: &Self) {
        self.checks += other.checks;
        self.admitted.iter_mut().zip(&other.admitted).for_each(|(all, one)| *all += one);
        self.again += other.again;
        self.strangers.0 += other.strangers.0;
        self.strangers.1 += other.strangers.1;
        self.latency.add(&other.latency).expect("histograms of one range hold each other's values");
        self.busy = self.busy.max(other.busy);
        self.pause = self.pause.max(other.pause);
    }

    /// Calls until the plan's time has passed; `call` decides so many `checks`, and counts what was admitted.
    fn keep_calling(&mut self, plan: &Plan, checks: usize, mut call: impl FnMut(&mut [u64])) {
        let calls = SAMPLED.div_ceil(checks);
        let start = Instant::now();
        loop {
            for _ in 1..calls {
                call(&mut self.admitted);
            }
            let before = Instant::now();
            call(&mut self.admitted);
            let after = Instant::now();
            self.latency.saturating_record((after - before).as_nanos() as u64);
            self.checks += (calls * checks) as u64;
            if after - start >= plan.time && self.checks >= plan.least {
                self.busy = after - start;
                return;
            }
        }
    }
}

fn work(plan: &Plan, limiter: &Limiter<u64, Quota>, number: usize, ready: &Barrier) -> Worker {
    let mut worker = Worker::new(plan.keys);
    let mask = plan.draws.len().wrapping_sub(1);
    let mut place = number * plan.draws.len() / plan.threads;
    let mut draw = || {
        place += 1;
        u64::from(plan.draws[place & mask])
    };
    match plan.way {
        Way::OneByOne => {
            ready.wait();
            worker.keep_calling(plan, 1, |admitted| {
                let key = draw();
                admitted[key as usize] += u64::from(limiter.check(&key).is_allowed());
            });
        }
        Way::Batches(size) => {
            let mut keys = vec![0; size];
            ready.wait();
            worker.keep_calling(plan, size, |admitted| {
                keys.fill_with(&mut draw);
                for (key, decision) in keys.iter().zip(limiter.check_many(&keys)) {
                    admitted[*key as usize] += u64::from(decision.is_allowed());
                }
            });
        }
        Way::Growing => {
            let own = || (number as u64..plan.keys.into()).step_by(plan.threads);
            ready.wait();
            let start = Instant::now();
            for key in own() {
                let before = Instant::now();
                let admitted = limiter.check(&key).is_allowed();
                worker.latency.saturating_record(before.elapsed().as_nanos() as u64);
                worker.admitted[key as usize] += u64::from(admitted);
                worker.checks += 1;
            }
            worker.busy = start.elapsed();
            worker.pause = longest_pause(worker.busy);
            for key in own().filter(|key| limiter.check(key).is_allowed()) {
                worker.admitted[key as usize] += 1;
                worker.again += 1;
            }
        }
        Way::Flood(Flood { cost, slice }) => {
            // Strangers' keys are above those that are drawn, and each thread has its own.
            let mut stranger = u64::from(u32::MAX) + number as u64;
            let (mut turn, mut group, mut strangers) = (0, 0, (0, 0));
            ready.wait();
            let start = Instant::now();
            worker.keep_calling(plan, 1, |admitted| {
                turn += 1;
                // Not in a call that is timed.
                if turn % SAMPLED as u64 == 1 {
                    group = start.elapsed().as_nanos() / slice.as_nanos() % u128::from(GROUPS);
                }
                if turn % (STRANGERS + 1) == 0 {
                    let key = draw();
                    let key = (key - key % u64::from(GROUPS) + group as u64) % u64::from(plan.keys);
                    admitted[key as usize] += u64::from(limiter.check(&key).is_allowed());
                } else {
                    stranger += plan.threads as u64;
                    strangers.0 += 1;
                    strangers.1 += u64::from(limiter.check_n(&stranger, cost).is_allowed());
                }
            });
            worker.strangers = strangers;
        }
        Way::Leases(permits) => {
            let lease = |key| limiter.prepare(&key).lease().permits(permits);
            let mut leases: Vec<Lease<'_, _, _>> = (0..u64::from(plan.keys)).map(lease).collect();
            ready.wait();
            worker.keep_calling(plan, 1, |admitted| {
                let key = draw() as usize;
                admitted[key] += u64::from(leases[key].check().is_allowed());
            });
        }
    }
    worker
}

/// Shows how time goes by.
fn watch(time: Duration) {
    const STEP: Duration = Duration::from_millis(100);
    let bar = work_bar(time.as_millis() as u64, "hammering");
    let start = Instant::now();
    while let Some(rest) = time.checked_sub(start.elapsed()).filter(|rest| !rest.is_zero()) {
        bar.set_position(start.elapsed().as_millis() as u64);
        thread::sleep(rest.min(STEP));
    }
    bar.finish_and_clear();
}

/// Shows how many of all keys there are, until none comes any more.
fn follow(there: impl Fn() -> u64, keys: u32) {
    const STEP: Duration = Duration::from_millis(50);
    let bar = work_bar(keys.into(), "growing");
    let mut last = u64::MAX;
    while there() != std::mem::replace(&mut last, there()) {
        bar.set_position(last);
        thread::sleep(STEP);
    }
    bar.finish_and_clear();
}

/// The longest time between two readings of the timer, when a thread does nothing else for that `time`.
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

/// What it takes to read the timer, in nanoseconds: the median of many readings.
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
