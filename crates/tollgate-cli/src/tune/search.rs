//! The smallest limit that would never have refused a key.
//!
//! A limit that admits all requests of a key implies that every larger limit does: buckets hold
//! more and refill faster, windows count the same under a higher limit. So a binary search finds
//! the smallest.

use super::algorithm::Trial;
use crate::timelines::Request;

/// The smallest limit up to `largest` that admits all these requests, if there is one.
pub(super) fn smallest_sufficient(trial: Trial, largest: u64, requests: &[Request]) -> Option<u64> {
    let highest_cost = requests.iter().map(|request| request.cost).max().unwrap_or(0).max(1);
    // A limit of the total admits all requests even if they come at once.
    let total = requests.iter().fold(0_u64, |sum, request| sum.saturating_add(request.cost)).max(1);
    let enough = total.min(largest);
    // Double first: most keys need a small limit, and a sliding log's memory grows with the limit.
    let (mut too_small, mut candidate) = (highest_cost - 1, highest_cost);
    while candidate < enough && !trial.admits_all(candidate, requests) {
        too_small = candidate;
        candidate = candidate.saturating_mul(2).min(enough);
    }
    let is_untried = candidate == largest && total > largest;
    if candidate > largest || (is_untried && !trial.admits_all(candidate, requests)) {
        return None;
    }
    let (mut too_small, mut sufficient) = (too_small, candidate);
    while sufficient - too_small > 1 {
        let middle = too_small.midpoint(sufficient);
        if trial.admits_all(middle, requests) { sufficient = middle } else { too_small = middle }
    }
    Some(sufficient)
}

/// The smallest count up to `largest` of which `admits_all` holds, if there is one. It must hold of
/// all larger counts, too.
pub(super) fn smallest(largest: u64, admits_all: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut too_small, mut candidate) = (0, 1);
    while !admits_all(candidate) {
        if candidate >= largest {
            return None;
        }
        too_small = candidate;
        candidate = candidate.saturating_mul(2).min(largest);
    }
    while candidate - too_small > 1 {
        let middle = too_small.midpoint(candidate);
        if admits_all(middle) { candidate = middle } else { too_small = middle }
    }
    Some(candidate)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::Timestamp;
    use tollgate_testing::random::Random;

    use super::super::algorithm::Algorithm;
    use super::*;

    /// Bursts and pauses, with some requests of a higher cost.
    fn timeline(seed: u64) -> Vec<Request> {
        let mut random = Random::with_seed(seed);
        let mut t = 0;
        let request = |_| {
            t += if random.u64(..3) == 0 { random.u64(..40_000) } else { random.u64(..700) } * 1_000_000;
            Request {
                at: Timestamp::from_nanos(t),
                cost: if random.u64(..4) == 0 { random.u64(..4) } else { 1 },
            }
        };
        (0..60).map(request).collect()
    }

    #[test]
    fn it_is_the_smallest_limit_and_larger_ones_admit_all() {
        for seed in 0..60 {
            let requests = timeline(seed);
            let total: u64 = requests.iter().map(|request| request.cost).sum();
            for algorithm in Algorithm::ALL {
                let trial = Trial { algorithm, period: Duration::from_secs(10), start_ns: 1_234_567_890 };
                let admits_all: Vec<bool> =
                    (1..=total).map(|limit| trial.refused(limit, &requests) == Ok(0)).collect();
                let first = admits_all.iter().position(|&admits| admits).expect("the total suffices");
                assert!(admits_all[first..].iter().all(|&admits| admits), "{algorithm:?} is monotone");
                let found = smallest_sufficient(trial, u64::MAX, &requests);
                assert_eq!(found, Some(first as u64 + 1), "{algorithm:?}, seed {seed}");
                assert_eq!(smallest_sufficient(trial, first as u64 + 1, &requests), found);
                assert_eq!(
                    smallest_sufficient(trial, first as u64, &requests),
                    None,
                    "{algorithm:?}, seed {seed}"
                );
            }
        }
    }

    #[test]
    fn the_smallest_count_is_found_up_to_the_largest() {
        for largest in 1..40 {
            for first in 1..45 {
                let expected = (first <= largest).then_some(first);
                assert_eq!(smallest(largest, |count| count >= first), expected, "{first} of {largest}");
            }
        }
    }

    #[test]
    fn the_largest_limit_is_one_that_the_engine_accepts() {
        for algorithm in Algorithm::ALL {
            let trial = Trial { algorithm, period: Duration::from_secs(60), start_ns: 0 };
            let largest = trial.largest().expect("the engine accepts a minute");
            assert!(largest >= 1 << 24, "{algorithm:?}: {largest}");
        }
    }
}
