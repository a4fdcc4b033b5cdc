//! Starts many threads on one limiter, and measures it from outside.

use std::io;
use std::sync::{Barrier, RwLock};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use tollgate::{Clock, Limiter, Quota, Stats, TscClock};

use super::bound::TimeSpan;
use super::footprint::{Footprint, resident};
use super::worker::{Mode, Plan, Totals, work};
use crate::failure::Failure;
use crate::progress::work_bar;
use crate::spec::refusal;

/// The measurements of a run.
pub(super) struct Measurements {
    /// The totals of all threads.
    pub(super) totals: Totals,
    /// From before the first check until after the last, by the operating system's clock.
    pub(super) elapsed: Duration,
    /// The same by the limiter's own clock.
    pub(super) limiter_elapsed: Duration,
    /// The same in Unix time, as long as the longer of the two.
    pub(super) span: TimeSpan,
    pub(super) stats: Stats,
    pub(super) footprint: Footprint,
}

/// Runs the plan.
///
/// # Errors
///
/// When the engine does not accept the limit, when there is not enough memory, or when the system
/// does not start so many threads.
pub(super) fn hammer(plan: &Plan) -> Result<Measurements, Failure> {
    let refused = |error| Failure::Usage(refusal(plan.limit, &error));
    let clock = TscClock::new();
    let builder = Limiter::builder(plan.limit.quota())
        .per::<u64>()
        .max_keys(plan.max_keys)
        .memory_budget(usize::MAX)
        .clock(clock.clone());
    let (announced, before) = (builder.memory().map_err(refused)? as u64, resident());
    let limiter = builder.build().map_err(refused)?;
    let (limiter_start, start) = (limiter.now(), Instant::now());
    let totals = run_threads(plan, &limiter)?;
    let (elapsed, limiter_end) = (start.elapsed(), limiter.now());

    let limiter_elapsed = Duration::from_nanos(limiter_end.as_nanos() - limiter_start.as_nanos());
    let from = clock.unix_at_zero().as_nanos() as u64 + limiter_start.as_nanos();
    let grown = before.zip(resident()).map(|(before, after)| after.saturating_sub(before));
    Ok(Measurements {
        totals,
        elapsed,
        limiter_elapsed,
        span: TimeSpan { from, to: from + elapsed.max(limiter_elapsed).as_nanos() as u64 },
        stats: limiter.stats(),
        footprint: Footprint {
            table: limiter.usage().memory_in_use as u64,
            announced,
            grown,
            threads: plan.threads,
        },
    })
}

/// Starts all threads, waits for them, and adds up what they counted.
fn run_threads(plan: &Plan, limiter: &Limiter<u64, Quota>) -> Result<Totals, Failure> {
    let ready = Barrier::new(plan.threads + 1);
    // Locked until all threads are started. If one cannot start, the others find `false` here and
    // end.
    let all_started = RwLock::new(false);
    let each = thread::scope(|scope| {
        let (ready, all_started) = (&ready, &all_started);
        let mut signal = all_started.write().expect("no other thread holds it yet");
        let start = |number| {
            let may_work = move || all_started.read().is_ok_and(|all_started| *all_started);
            let body = move || may_work().then(|| work(plan, limiter, number, ready));
            thread::Builder::new().spawn_scoped(scope, body)
        };
        let started: io::Result<Vec<_>> = (0..plan.threads).map(start).collect();
        *signal = started.is_ok();
        drop(signal);
        let workers = started.map_err(|error| {
            Failure::Usage(format!("--threads: the system does not start {}: {error}", plan.threads))
        })?;
        ready.wait();
        match plan.mode {
            Mode::Growing => show_growth(|| limiter.stats().inserted, plan.keys),
            _ => show_time(plan.time),
        }
        let join = |worker: ScopedJoinHandle<'_, _>| worker.join().expect("a worker does not panic");
        Ok::<Vec<Totals>, Failure>(workers.into_iter().filter_map(join).collect())
    })?;
    let mut totals = Totals::new(plan.keys);
    each.iter().for_each(|one| totals.add(one));
    Ok(totals)
}

/// Shows a progress bar until `time` has passed.
fn show_time(time: Duration) {
    const STEP: Duration = Duration::from_millis(100);
    let bar = work_bar(time.as_millis() as u64, "hammering");
    let start = Instant::now();
    while let Some(rest) = time.checked_sub(start.elapsed()).filter(|rest| !rest.is_zero()) {
        bar.set_position(start.elapsed().as_millis() as u64);
        thread::sleep(rest.min(STEP));
    }
    bar.finish_and_clear();
}

/// Shows a progress bar of the inserted keys until their number no longer grows.
fn show_growth(inserted: impl Fn() -> u64, keys: u32) {
    const STEP: Duration = Duration::from_millis(50);
    let bar = work_bar(keys.into(), "growing");
    let mut last = u64::MAX;
    while inserted() != std::mem::replace(&mut last, inserted()) {
        bar.set_position(last);
        thread::sleep(STEP);
    }
    bar.finish_and_clear();
}
