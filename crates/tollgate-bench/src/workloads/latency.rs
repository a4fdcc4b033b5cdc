//! How long do the slow checks take: alone, while the table grows, and during a flood of new keys?
//!
//! One thread measures each of its checks; where others are at work, it is one thread that asks for new keys as fast as it
//! can. A *closed* loop asks again when it has its answer. An *open* one asks at set times, and counts from then, so that a
//! stall is charged to all who would have waited for it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use quanta::Clock;

use crate::contest::{Boxed, Contestant, Limits};
use crate::fault::Fault;
use crate::keys;
use crate::limit::MANY;
use crate::machine::waited;
use crate::measure::{Outcome, Score, Unit};
use crate::peers::{Task, exact};
use crate::workloads::{Effort, Workload};

const MILLION: usize = 1_000_000;
/// New keys while a table grows, at most.
const GROWTH: usize = 2 * MILLION;
/// Nanoseconds from one check of an open loop to the next: half a million a second.
const EVERY: u64 = 2_000;

/// What else goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Company {
    /// Nothing.
    Alone,
    /// New keys, for which there is room.
    Growth,
    /// New keys, for which there is none.
    Flood,
}

/// When the next check is asked.
#[derive(Clone, Copy)]
enum Loop {
    /// After the answer.
    Closed,
    /// At its time.
    Open,
}

pub(crate) fn workloads() -> Vec<Workload> {
    let companies =
        [(Company::Alone, "alone"), (Company::Growth, "during growth"), (Company::Flood, "during a flood")];
    let loops = [(Loop::Closed, "closed loop"), (Loop::Open, "open loop")];
    let all = companies.into_iter().flat_map(|company| loops.map(|asked| (company, asked)));
    all.map(|((company, name), (asked, called))| latency(format!("latency {name}, {called}"), company, asked))
        .collect()
}

fn latency(name: String, company: Company, asked: Loop) -> Workload {
    let called = name.clone();
    let run = move |effort: Effort, tick: &mut dyn FnMut()| {
        let known = effort.keys(if company == Company::Growth { MILLION / 10 } else { MILLION });
        let room = if company == Company::Growth { known + effort.keys(GROWTH) } else { known };
        let contestants = exact(Task::new(MANY, room));
        let full = |contestant: &Contestant<u64>| {
            let limiter = (contestant.make)();
            (0..known as u64).for_each(|key| {
                limiter.admits(&key);
            });
            limiter
        };
        let mut limiters: Vec<Boxed<u64>> = contestants.iter().map(full).collect();
        let mut scores: Vec<Score> =
            contestants.iter().map(|contestant| Score::new(&contestant.name, contestant.is_floor)).collect();
        let asks = keys::uniform(known, effort.asks(200_000));
        for pass in 0..effort.passes {
            for turn in 0..limiters.len() {
                let index = (turn + pass) % limiters.len();
                if company == Company::Growth && pass > 0 {
                    limiters[index] = full(&contestants[index]);
                }
                let first = (pass * GROWTH) as u64;
                let newcomers = match company {
                    Company::Alone => 0..0,
                    Company::Growth => first..first + effort.keys(GROWTH) as u64,
                    Company::Flood => first << 20..u64::MAX,
                };
                let Measured { histogram, admitted, waited, took } =
                    beside(&*limiters[index], &asks, asked, newcomers);
                // Alone and while there is room nobody has a reason to refuse.
                if company != Company::Flood && admitted != asks.len() {
                    let (workload, contestant) = (called.clone(), contestants[index].name.clone());
                    let asked = asks.len();
                    return Err(Fault::Answered { workload, contestant, admitted, expected: asked, asked });
                }
                scores[index].add(histogram.value_at_quantile(0.999) as f64, admitted, asks.len());
                scores[index].waits(waited, took);
                match &mut scores[index].latencies {
                    Some(all) => all.add(&histogram).expect("the same bounds"),
                    none => *none = Some(histogram),
                }
            }
            tick();
        }
        Ok(Outcome { workload: called.clone(), unit: Unit::NanosAtP999, scores })
    };
    Workload { name, unit: Unit::NanosAtP999, run: Box::new(run) }
}

/// What a pass came to.
struct Measured {
    histogram: Histogram<u64>,
    admitted: usize,
    /// For a processor, of how long.
    waited: Duration,
    took: Duration,
}

/// Latencies of the checks, while another thread asks for newcomers, if there are any.
fn beside(
    limiter: &dyn Limits<u64>,
    asks: &[u64],
    asked: Loop,
    mut newcomers: std::ops::Range<u64>,
) -> Measured {
    let (started, stop) = (&AtomicBool::new(newcomers.is_empty()), &AtomicBool::new(false));
    thread::scope(|scope| {
        if !newcomers.is_empty() {
            scope.spawn(move || {
                while let Some(nth) = newcomers.next().filter(|_| !stop.load(Relaxed)) {
                    limiter.admits(&keys::newcomer(nth));
                    started.store(true, Relaxed);
                }
            });
        }
        while !started.load(Relaxed) {
            thread::yield_now();
        }
        let figures = latencies(limiter, asks, asked);
        stop.store(true, Relaxed);
        figures
    })
}

fn latencies(limiter: &dyn Limits<u64>, asks: &[u64], asked: Loop) -> Measured {
    // Two digits, and no upper bound but the memory that it takes on the way.
    let mut histogram = Histogram::new(2).expect("two digits are within its range");
    let clock = Clock::new();
    let (began, before) = (Instant::now(), waited());
    let begun = clock.raw();
    let mut admitted = 0;
    for (nth, key) in asks.iter().enumerate() {
        let since = match asked {
            Loop::Closed => clock.raw(),
            Loop::Open => begun,
        };
        let due = match asked {
            Loop::Closed => 0,
            Loop::Open => nth as u64 * EVERY,
        };
        while matches!(asked, Loop::Open) && clock.delta_as_nanos(begun, clock.raw()) < due {
            std::hint::spin_loop();
        }
        admitted += usize::from(limiter.admits(key));
        let took = clock.delta_as_nanos(since, clock.raw()).saturating_sub(due);
        histogram.record(took).expect("it grows");
    }
    Measured { histogram, admitted, waited: waited() - before, took: began.elapsed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_loop_charges_a_stall_to_those_who_wait_for_it() {
        let stalls = |key: &u64| {
            let begun = Instant::now();
            while *key == 0 && begun.elapsed() < Duration::from_millis(2) {}
            true
        };
        let asks: Vec<u64> = (0..1_000).collect();
        let late = |asked| {
            let Measured { histogram, admitted, .. } = latencies(&stalls, &asks, asked);
            assert_eq!((histogram.len(), admitted), (1_000, 1_000));
            histogram.value_at_quantile(0.5)
        };
        // Due at up to 2 ms, and so all behind the stall of the first; the middle one by a millisecond.
        assert!(late(Loop::Open) >= 900_000);
        assert!(late(Loop::Closed) < 900_000);
    }
}
