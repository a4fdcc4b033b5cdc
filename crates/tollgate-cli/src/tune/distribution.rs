//! How refusals depend on the limit: each algorithm over a range of limits.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;
use tollgate::BuildError;

use super::algorithm::{Algorithm, Trial};
use super::search::smallest_sufficient;
use crate::round_numbers::round_numbers;
use crate::timelines::Timelines;

/// What a limit would have refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) limit: u64,
    pub(super) requests_refused: u64,
    pub(super) keys_refused: u64,
}

/// What one algorithm would have refused, limit by limit.
#[derive(Debug)]
pub(super) struct Distribution {
    pub(super) algorithm: Algorithm,
    /// One for each limit; `None` where the engine does not accept it.
    pub(super) points: Vec<Option<Point>>,
    /// The smallest limit that never refuses as many keys as `--keep` asks for, if there is one.
    pub(super) smallest: Option<Point>,
}

/// All algorithms, over the same limits.
#[derive(Debug)]
pub(super) struct Distributions {
    pub(super) limits: Vec<u64>,
    pub(super) by_algorithm: Vec<Distribution>,
}

/// The range of limits begins where this share of keys is never refused: a quarter.
const LOWEST_SHARE: (usize, usize) = (1, 4);

/// Tries all algorithms; `smallest` is the limit that never refuses `keep` keys.
///
/// # Errors
///
/// When the engine does not accept the period.
pub(super) fn measure(
    timelines: &Timelines,
    period: Duration,
    keep: usize,
    bar: &ProgressBar,
) -> Result<Distributions, BuildError> {
    let trials = Algorithm::ALL.map(|algorithm| Trial { algorithm, period, start_ns: timelines.start_ns });
    for trial in trials {
        trial.largest()?;
    }
    let needs = in_parallel(&trials, |trial| needs(*trial, timelines, bar));
    let needs = needs.into_iter().collect::<Result<Vec<_>, _>>()?;

    let lowest = |needs: &Needs| {
        let keys = needs.sorted.len() * LOWEST_SHARE.0 / LOWEST_SHARE.1;
        needs.sorted.get(keys).copied().unwrap_or(1)
    };
    let from = needs.iter().map(lowest).min().unwrap_or(1);
    let highest = |needs: &Needs| needs.sorted.iter().rfind(|&&need| need != u64::MAX).copied();
    let limits = round_numbers(from, needs.iter().filter_map(highest).max().unwrap_or(1));

    let jobs: Vec<(Trial, Needs)> = trials.into_iter().zip(needs).collect();
    let by_algorithm = in_parallel(&jobs, |(trial, needs)| {
        let smallest = keep.checked_sub(1).map_or(Some(1), |last| needs.sorted.get(last).copied());
        let smallest = smallest.filter(|&limit| limit != u64::MAX);
        let point = |limit: u64| {
            bar.inc((timelines.keys() / limits.len()) as u64);
            point(*trial, timelines, needs, limit)
        };
        let points = limits.iter().map(|&limit| point(limit)).collect();
        let smallest = smallest.and_then(point);
        Distribution { algorithm: trial.algorithm, points, smallest }
    });
    Ok(Distributions { limits, by_algorithm })
}

/// How far `measure` advances its bar: by all keys, twice for each algorithm.
pub(super) fn bar_length(timelines: &Timelines) -> u64 {
    2 * (Algorithm::ALL.len() * timelines.keys()) as u64
}

/// The smallest limit that never refuses each key; `u64::MAX` where no limit does that.
struct Needs {
    by_key: Vec<u64>,
    sorted: Vec<u64>,
}

fn needs(trial: Trial, timelines: &Timelines, bar: &ProgressBar) -> Result<Needs, BuildError> {
    let largest = trial.largest()?;
    let need = |requests| {
        bar.inc(1);
        smallest_sufficient(trial, largest, requests).unwrap_or(u64::MAX)
    };
    let by_key: Vec<u64> = timelines.each_key().map(need).collect();
    let mut sorted = by_key.clone();
    sorted.sort_unstable();
    Ok(Needs { by_key, sorted })
}

fn point(trial: Trial, timelines: &Timelines, needs: &Needs, limit: u64) -> Option<Point> {
    let mut point = Point { limit, requests_refused: 0, keys_refused: 0 };
    for (requests, need) in timelines.each_key().zip(&needs.by_key) {
        if *need > limit {
            let refused = trial.refused(limit, requests).ok()?;
            point.requests_refused += refused;
            point.keys_refused += u64::from(refused > 0);
        }
    }
    Some(point)
}

/// Does all jobs on as many threads as there are cores; returns the outcomes in the order of the
/// jobs.
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
    use crate::timelines::Request;

    #[test]
    fn one_less_than_the_smallest_limit_refuses_too_many() {
        // Key k sends k + 1 requests at once.
        let requests: Vec<(u32, Request)> = (0..20_u32)
            .flat_map(|key| (0..=key).map(move |_| (key, Request { at: Timestamp::ZERO, cost: 1 })))
            .collect();
        let timelines = Timelines::by_key(0, 0, 20, &requests);
        let period = Duration::from_secs(60);
        let distributions =
            measure(&timelines, period, 18, &ProgressBar::hidden()).expect("a minute is fine");
        for distribution in distributions.by_algorithm {
            let smallest = distribution.smallest.expect("there is one");
            assert_eq!((smallest.limit, smallest.keys_refused, smallest.requests_refused), (18, 2, 3));
            let last = distribution.points.last().copied().flatten().expect("it is accepted");
            assert_eq!((last.limit, last.keys_refused), (20, 0), "the range ends where no key is refused");
        }
    }
}
