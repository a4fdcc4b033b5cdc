//! Many threads on one limiter.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tollgate::{Clock, Limiter, Quota, Stats, TscClock};

use super::bound::Stretch;
use crate::progress::work_bar;

/// One call in so many is timed: reading a clock costs more than a call.
pub(super) const SAMPLED: usize = 64;

/// Three digits of every latency.
const DIGITS: u8 = 3;

/// What to do.
pub(super) struct Plan {
    pub(super) quota: Quota,
    pub(super) threads: usize,
    pub(super) keys: u32,
    pub(super) time: Duration,
    /// Key numbers; a power of two of them.
    pub(super) draws: Vec<u32>,
}

/// What happened.
pub(super) struct Hammered {
    pub(super) checks: u64,
    /// Admitted, key by key.
    pub(super) admitted: Vec<u64>,
    /// In nanoseconds, of one call in `SAMPLED`, with one reading of the timer in each.
    pub(super) latency: Histogram<u64>,
    /// How long the busiest thread was checking.
    pub(super) busy: Duration,
    /// From before the first check until after the last, by the operating system's clock.
    pub(super) elapsed: Duration,
    /// The same by the limiter's own clock.
    pub(super) limiter_elapsed: Duration,
    /// The same in Unix time, as long as the longer of the two.
    pub(super) stretch: Stretch,
    pub(super) stats: Stats,
}

/// Hammers a limiter as planned.
///
/// # Errors
///
/// When the engine does not accept the quota, or there is not enough memory.
pub(super) fn hammer(plan: &Plan) -> Result<Hammered, tollgate::Error> {
    let clock = TscClock::new();
    // Twice the room: what is measured is checks, not overflow.
    let limiter = Limiter::<u64, Quota>::builder(plan.quota)
        .max_keys(2 * plan.keys as usize)
        .memory_budget(usize::MAX)
        .clock(clock.clone())
        .build()?;
    let ready = Barrier::new(plan.threads + 1);
    let (zero, start) = (limiter.now(), Instant::now());
    let workers = thread::scope(|scope| {
        let (limiter, ready) = (&limiter, &ready);
        let workers: Vec<_> =
            (0..plan.threads).map(|number| scope.spawn(move || work(plan, limiter, number, ready))).collect();
        ready.wait();
        watch(plan.time);
        workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect::<Vec<_>>()
    });
    let (elapsed, end) = (start.elapsed(), limiter.now());
    let limiter_elapsed = Duration::from_nanos(end.as_nanos() - zero.as_nanos());

    let mut all = Worker::new(plan.keys);
    workers.into_iter().for_each(|worker| all.add(&worker));
    let from = clock.unix_at_zero().as_nanos() as u64 + zero.as_nanos();
    Ok(Hammered {
        checks: all.checks,
        admitted: all.admitted,
        latency: all.latency,
        busy: all.busy,
        elapsed,
        limiter_elapsed,
        stretch: Stretch { from, to: from + elapsed.max(limiter_elapsed).as_nanos() as u64 },
        stats: limiter.stats(),
    })
}

/// What one thread saw.
struct Worker {
    checks: u64,
    admitted: Vec<u64>,
    latency: Histogram<u64>,
    busy: Duration,
}

impl Worker {
    fn new(keys: u32) -> Self {
        let latency = Histogram::new(DIGITS).expect("three digits are within one to five");
        Self { checks: 0, admitted: vec![0; keys as usize], latency, busy: Duration::ZERO }
    }

    fn add(&mut self, other: &Self) {
        self.checks += other.checks;
        self.admitted.iter_mut().zip(&other.admitted).for_each(|(all, one)| *all += one);
        self.latency.add(&other.latency).expect("histograms that resize hold any value");
        self.busy = self.busy.max(other.busy);
    }
}

fn work(plan: &Plan, limiter: &Limiter<u64, Quota>, number: usize, ready: &Barrier) -> Worker {
    let mut worker = Worker::new(plan.keys);
    let mask = plan.draws.len() - 1;
    let mut place = number * plan.draws.len() / plan.threads;
    let mut draw = || {
        place += 1;
        u64::from(plan.draws[place & mask])
    };
    ready.wait();
    let start = Instant::now();
    loop {
        for _ in 1..SAMPLED {
            let key = draw();
            worker.admitted[key as usize] += u64::from(limiter.check(&key).is_allowed());
        }
        let key = draw();
        let before = Instant::now();
        let allowed = limiter.check(&key).is_allowed();
        let after = Instant::now();
        worker.admitted[key as usize] += u64::from(allowed);
        worker.latency.saturating_record((after - before).as_nanos() as u64);
        worker.checks += SAMPLED as u64;
        if after - start >= plan.time {
            worker.busy = after - start;
            return worker;
        }
    }
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
