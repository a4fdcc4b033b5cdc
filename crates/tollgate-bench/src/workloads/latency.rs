//! The latency of slow checks: alone, while the table grows, and during a flood of new keys.
//!
//! One thread measures each of its checks, while another may check new keys as fast as it can. A
//! *closed* loop starts a check when the one before it is done. An *open* loop starts checks at set
//! times and measures from these, so that a stall counts for every check that it delays.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use quanta::Clock;

use crate::contest::{BoxedLimiter, Contestant, TestedLimiter};
use crate::error::BenchError;
use crate::keys;
use crate::limit::MANY;
use crate::machine::time_without_processor;
use crate::measure::{Outcome, Score, Unit};
use crate::peers::{Task, exact};
use crate::workloads::{Effort, Workload};

const MILLION: usize = 1_000_000;
/// The most new keys while a table grows.
const GROWTH: usize = 2 * MILLION;
/// The nanoseconds between checks of an open loop: half a million checks a second.
const INTERVAL: u64 = 2_000;

/// What the other thread does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OtherLoad {
    /// There is no other thread.
    Alone,
    /// It checks new keys, for which the table has room.
    Growth,
    /// It checks new keys, for which the table has no room.
    Flood,
}

/// When the next check starts.
#[derive(Clone, Copy)]
enum Loop {
    /// After the one before it.
    Closed,
    /// At a set time.
    Open,
}

pub(crate) fn workloads() -> Vec<Workload> {
    let loads = [
        (OtherLoad::Alone, "alone"),
        (OtherLoad::Growth, "during growth"),
        (OtherLoad::Flood, "during a flood"),
    ];
    let loops = [(Loop::Closed, "closed loop"), (Loop::Open, "open loop")];
    let all = loads.into_iter().flat_map(|load| loops.map(|pace| (load, pace)));
    all.map(|((load, name), (pace, pace_name))| latency(format!("latency {name}, {pace_name}"), load, pace))
        .collect()
}

fn latency(name: String, load: OtherLoad, pace: Loop) -> Workload {
    let workload = name.clone();
    let run = move |effort: Effort, tick: &mut dyn FnMut()| {
        let known = effort.keys(if load == OtherLoad::Growth { MILLION / 10 } else { MILLION });
        let room = if load == OtherLoad::Growth { known + effort.keys(GROWTH) } else { known };
        let contestants = exact(Task::new(MANY, room));
        let with_known_keys = |contestant: &Contestant<u64>| {
            let limiter = (contestant.make)();
            (0..known as u64).for_each(|key| {
                limiter.admit(&key);
            });
            limiter
        };
        let mut limiters: Vec<BoxedLimiter<u64>> = contestants.iter().map(with_known_keys).collect();
        let mut scores: Vec<Score> =
            contestants.iter().map(|contestant| Score::new(&contestant.name, contestant.is_floor)).collect();
        let checked = keys::uniform(known, effort.checks(200_000));
        for pass in 0..effort.passes {
            for turn in 0..limiters.len() {
                let index = (turn + pass) % limiters.len();
                if load == OtherLoad::Growth && pass > 0 {
                    limiters[index] = with_known_keys(&contestants[index]);
                }
                let first = (pass * GROWTH) as u64;
                let new_keys = match load {
                    OtherLoad::Alone => 0..0,
                    OtherLoad::Growth => first..first + effort.keys(GROWTH) as u64,
                    OtherLoad::Flood => first << 20..u64::MAX,
                };
                let Measured { histogram, admitted, waited, took } =
                    measure(&*limiters[index], &checked, pace, new_keys);
                // A limiter has no reason to refuse unless its table is full.
                if load != OtherLoad::Flood && admitted != checked.len() {
                    let (workload, contestant) = (workload.clone(), contestants[index].name.clone());
                    let checks = checked.len();
                    return Err(BenchError::WrongAnswers {
                        workload,
                        contestant,
                        admitted,
                        expected: checks,
                        checks,
                    });
                }
                scores[index].add(histogram.value_at_quantile(0.999) as f64, admitted, checked.len());
                scores[index].add_wait(waited, took);
                match &mut scores[index].latencies {
                    Some(all) => all.add(&histogram).expect("the same bounds"),
                    none => *none = Some(histogram),
                }
            }
            tick();
        }
        Ok(Outcome { workload: workload.clone(), unit: Unit::NanosAtP999, scores })
    };
    Workload { name, unit: Unit::NanosAtP999, run: Box::new(run) }
}

/// The measurement of a pass.
struct Measured {
    histogram: Histogram<u64>,
    admitted: usize,
    /// How long the thread waited for a processor.
    waited: Duration,
    took: Duration,
}

/// Measures the latencies of the checks, while another thread checks new keys, if there are any.
fn measure(
    limiter: &dyn TestedLimiter<u64>,
    checked: &[u64],
    pace: Loop,
    mut new_keys: std::ops::Range<u64>,
) -> Measured {
    let (started, stop) = (&AtomicBool::new(new_keys.is_empty()), &AtomicBool::new(false));
    thread::scope(|scope| {
        if !new_keys.is_empty() {
            scope.spawn(move || {
                while let Some(nth) = new_keys.next().filter(|_| !stop.load(Relaxed)) {
                    limiter.admit(&keys::new_key(nth));
                    started.store(true, Relaxed);
                }
            });
        }
        while !started.load(Relaxed) {
            thread::yield_now();
        }
        let figures = latencies(limiter, checked, pace);
        stop.store(true, Relaxed);
        figures
    })
}

fn latencies(limiter: &dyn TestedLimiter<u64>, checked: &[u64], pace: Loop) -> Measured {
    // Two significant digits. The histogram grows with the largest latency.
    let mut histogram = Histogram::new(2).expect("two digits are within its range");
    let clock = Clock::new();
    let (began, before) = (Instant::now(), time_without_processor());
    let begun = clock.raw();
    let mut admitted = 0;
    for (nth, key) in checked.iter().enumerate() {
        let since = match pace {
            Loop::Closed => clock.raw(),
            Loop::Open => begun,
        };
        let due = match pace {
            Loop::Closed => 0,
            Loop::Open => nth as u64 * INTERVAL,
        };
        while matches!(pace, Loop::Open) && clock.delta_as_nanos(begun, clock.raw()) < due {
            std::hint::spin_loop();
        }
        admitted += usize::from(limiter.admit(key));
        let took = clock.delta_as_nanos(since, clock.raw()).saturating_sub(due);
        histogram.record(took).expect("it grows");
    }
    Measured { histogram, admitted, waited: time_without_processor() - before, took: began.elapsed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_loop_counts_a_stall_for_every_delayed_check() {
        let stalls = |key: &u64| {
            let begun = Instant::now();
            while *key == 0 && begun.elapsed() < Duration::from_millis(2) {}
            true
        };
        let keys: Vec<u64> = (0..1_000).collect();
        let late = |pace| {
            let Measured { histogram, admitted, .. } = latencies(&stalls, &keys, pace);
            assert_eq!((histogram.len(), admitted), (1_000, 1_000));
            histogram.value_at_quantile(0.5)
        };
        // All checks are due within 2 ms, so the stall of the first delays all, the middle one by 1
        // ms.
        assert!(late(Loop::Open) >= 900_000);
        assert!(late(Loop::Closed) < 900_000);
    }
}
