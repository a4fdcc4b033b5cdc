//! The smallest limit at which a key would never have been refused.
//!
//! As long as nothing is refused, a larger limit leaves more room before every request: buckets hold more and
//! refill faster, windows have the same counts and a higher limit. So the limits that leave a key untouched are
//! all those from one on, and halving finds it.

use super::algorithm::Trial;
use crate::timelines::Ask;

/// The smallest limit, at most `largest`, that leaves the key untouched; `None` when none does.
pub(super) fn smallest_untouched(trial: Trial, largest: u64, asks: &[Ask]) -> Option<u64> {
    let dearest = asks.iter().map(|ask| ask.cost).max().unwrap_or(0).max(1);
    // At this limit everything could come at once.
    let total = asks.iter().fold(0_u64, |sum, ask| sum.saturating_add(ask.cost)).max(1);
    let enough = total.min(largest);
    // Doubling first: most keys need little, and a log's memory grows with the limit.
    let (mut refuses, mut leaves) = (dearest - 1, dearest);
    while leaves < enough && !trial.is_untouched(leaves, asks) {
        refuses = leaves;
        leaves = leaves.saturating_mul(2).min(enough);
    }
    if leaves > largest || (leaves == largest && total > largest && !trial.is_untouched(leaves, asks)) {
        return None;
    }
    while leaves - refuses > 1 {
        let middle = refuses.midpoint(leaves);
        if trial.is_untouched(middle, asks) { leaves = middle } else { refuses = middle }
    }
    Some(leaves)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::Timestamp;

    use super::super::algorithm::Algorithm;
    use super::*;

    /// Bursts and pauses, some requests dearer than others.
    fn timeline(seed: u64) -> Vec<Ask> {
        let mut state = seed;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut t = 0;
        let ask = |_| {
            t += if draw(3) == 0 { draw(40_000) } else { draw(700) } * 1_000_000;
            Ask { at: Timestamp::from_nanos(t), cost: if draw(4) == 0 { draw(4) } else { 1 } }
        };
        (0..60).map(ask).collect()
    }

    #[test]
    fn it_is_the_smallest_of_all_limits_tried_one_by_one_and_all_above_leave_the_key_untouched() {
        for seed in 0..60 {
            let asks = timeline(seed);
            let total: u64 = asks.iter().map(|ask| ask.cost).sum();
            for algorithm in Algorithm::ALL {
                let trial = Trial { algorithm, period: Duration::from_secs(10), zero: 1_234_567_890 };
                let untouched: Vec<bool> =
                    (1..=total).map(|limit| trial.refused(limit, &asks) == Ok(0)).collect();
                let first = untouched.iter().position(|&untouched| untouched).expect("the total suffices");
                assert!(untouched[first..].iter().all(|&untouched| untouched), "{algorithm:?} is monotone");
                let found = smallest_untouched(trial, u64::MAX, &asks);
                assert_eq!(found, Some(first as u64 + 1), "{algorithm:?}, seed {seed}");
                assert_eq!(smallest_untouched(trial, first as u64 + 1, &asks), found);
                assert_eq!(
                    smallest_untouched(trial, first as u64, &asks),
                    None,
                    "{algorithm:?}, seed {seed}"
                );
            }
        }
    }

    #[test]
    fn the_largest_limit_is_one_that_the_engine_accepts() {
        for algorithm in Algorithm::ALL {
            let trial = Trial { algorithm, period: Duration::from_secs(60), zero: 0 };
            let largest = trial.largest().expect("a minute is no odd period");
            assert!(largest >= 1 << 24, "{algorithm:?}: {largest}");
        }
    }
}
