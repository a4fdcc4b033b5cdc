//! One algorithm over a range of limits: what each of them would have refused.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;
use tollgate::BuildError;

use super::algorithm::{Algorithm, Trial};
use super::search::smallest_untouched;
use crate::steps::steps;
use crate::timelines::Timelines;

/// What a limit would have refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) limit: u64,
    pub(super) requests_refused: u64,
    pub(super) keys_refused: u64,
}

/// An algorithm over a range of limits.
#[derive(Debug)]
pub(super) struct Curve {
    pub(super) algorithm: Algorithm,
    /// `None` where the engine does not accept the limit.
    pub(super) points: Vec<Option<Point>>,
    /// The smallest limit that keeps as many keys untouched as was asked for, if any does.
    pub(super) smallest: Option<Point>,
}

/// All algorithms over the same limits.
#[derive(Debug)]
pub(super) struct Curves {
    pub(super) limits: Vec<u64>,
    pub(super) curves: Vec<Curve>,
}

/// Where the range of limits begins: this share of keys needs less.
const FROM: (usize, usize) = (1, 4);

/// Tries all algorithms; `keep` keys at least are to stay untouched.
///
/// # Errors
///
/// When the engine does not accept the period.
pub(super) fn draw(
    timelines: &Timelines,
    period: Duration,
    keep: usize,
    bar: &ProgressBar,
) -> Result<Curves, BuildError> {
    let trials = Algorithm::ALL.map(|algorithm| Trial { algorithm, period, zero: timelines.zero });
    for trial in trials {
        trial.largest()?;
    }
    let needs = in_parallel(&trials, |trial| needs(*trial, timelines, bar));
    let needs = needs.into_iter().collect::<Result<Vec<_>, _>>()?;

    let typical = |needs: &Vec<u64>| needs.get(needs.len() * FROM.0 / FROM.1).copied().unwrap_or(1);
    let from = needs.iter().map(|sorted| typical(&sorted.in_order)).min().unwrap_or(1);
    let highest = |needs: &Needs| needs.in_order.iter().rfind(|&&need| need != u64::MAX).copied();
    let limits = steps(from, needs.iter().filter_map(highest).max().unwrap_or(1));

    let jobs: Vec<(Trial, Needs)> = trials.into_iter().zip(needs).collect();
    let curves = in_parallel(&jobs, |(trial, needs)| {
        let smallest = keep.checked_sub(1).map_or(Some(1), |last| needs.in_order.get(last).copied());
        let smallest = smallest.filter(|&limit| limit != u64::MAX);
        let point = |limit: u64| {
            bar.inc((timelines.keys() / limits.len()) as u64);
            point(*trial, timelines, needs, limit)
        };
        let points = limits.iter().map(|&limit| point(limit)).collect();
        let smallest = smallest.and_then(point);
        Curve { algorithm: trial.algorithm, points, smallest }
    });
    Ok(Curves { limits, curves })
}

/// How much work `draw` has, in steps of its bar: all keys twice for each algorithm.
pub(super) fn work(timelines: &Timelines) -> u64 {
    2 * (Algorithm::ALL.len() * timelines.keys()) as u64
}

/// The limit that each key needs to stay untouched; `u64::MAX` where no limit does that.
struct Needs {
    by_key: Vec<u64>,
    in_order: Vec<u64>,
}

fn needs(trial: Trial, timelines: &Timelines, bar: &ProgressBar) -> Result<Needs, BuildError> {
    let largest = trial.largest()?;
    let need = |asks| {
        bar.inc(1);
        smallest_untouched(trial, largest, asks).unwrap_or(u64::MAX)
    };
    let by_key: Vec<u64> = timelines.each().map(need).collect();
    let mut in_order = by_key.clone();
    in_order.sort_unstable();
    Ok(Needs { by_key, in_order })
}

fn point(trial: Trial, timelines: &Timelines, needs: &Needs, limit: u64) -> Option<Point> {
    let mut point = Point { limit, requests_refused: 0, keys_refused: 0 };
    for (asks, need) in timelines.each().zip(&needs.by_key) {
        if *need > limit {
            let refused = trial.refused(limit, asks).ok()?;
            point.requests_refused += refused;
            point.keys_refused += u64::from(refused > 0);
        }
    }
    Some(point)
}

/// Does all jobs on as many threads as there are cores; the outcomes come in the order of the jobs.
fn in_parallel<J: Sync, T: Send>(jobs: &[J], work: impl Fn(&J) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        while let Some((index, job)) = Some(next.fetch_add(1, Relaxed)).and_then(|i| Some((i, jobs.get(i)?)))
        {
            done.push((index, work(job)));
        }
        done
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    let mut done: Vec<(usize, T)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests {
    use tollgate::Timestamp;

    use super::*;
    use crate::timelines::Ask;

    #[test]
    fn the_smallest_limit_keeps_the_share_and_one_less_does_not() {
        // Key k sends k + 1 requests at once.
        let asks: Vec<(u32, Ask)> = (0..20_u32)
            .flat_map(|key| (0..=key).map(move |_| (key, Ask { at: Timestamp::ZERO, cost: 1 })))
            .collect();
        let timelines = Timelines::by_key(0, 0, 20, &asks);
        let period = Duration::from_secs(60);
        let curves = draw(&timelines, period, 18, &ProgressBar::hidden()).expect("a minute is fine");
        for curve in curves.curves {
            let smallest = curve.smallest.expect("there is one");
            assert_eq!((smallest.limit, smallest.keys_refused, smallest.requests_refused), (18, 2, 3));
            let last = curve.points.last().copied().flatten().expect("it is accepted");
            assert_eq!((last.limit, last.keys_refused), (20, 0), "the range ends where nobody is refused");
        }
    }
}
