//! The most that a limit may admit of one key in some time: what `stress` holds the limiter to.
//!
//! `D` is the time from the first check to the last.
//!
//! | limit | bound |
//! |-------|-------|
//! | token bucket, leaky bucket | `burst + rate * D` rounded down, plus 1 |
//! | token bucket by intervals | `burst`, and `count` for each start of an interval in `D` |
//! | fixed window, sliding window | `limit` for each aligned window that `D` touches |
//! | fixed window from the first hit | `limit * (floor(D / period) + 2)` |
//! | sliding window in sub-windows, sliding log | `limit * (floor(D / period) + 1)` |
//!
//! A bucket may hand out a token one clock tick early: hence the 1. So many half-open windows of a
//! log or of sub-windows cover `D`.

use std::time::Duration;

use tollgate::{Quota, Rate};

use crate::spec::Spec;

/// A span of Unix time, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeSpan {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// The most that the limit may admit of one key in this span.
pub(super) fn bound(spec: Spec, span: TimeSpan) -> u128 {
    let length = span.to - span.from;
    let refilled = |rate: Rate| u128::from(rate.count()) * u128::from(length) / nanos(rate.period());
    let covering = |rate: Rate| u128::from(rate.count()) * (u128::from(length) / nanos(rate.period()) + 1);
    let touched = |rate: Rate| {
        let window = |t: u64| u128::from(t) / nanos(rate.period());
        u128::from(rate.count()) * (window(span.to) - window(span.from) + 1)
    };
    match spec {
        Spec::TokenBucket { rate, burst, intervals: true, .. } => {
            u128::from(burst) + touched(rate) - u128::from(rate.count())
        }
        Spec::TokenBucket { rate, burst, .. } => u128::from(burst) + refilled(rate) + 1,
        Spec::FirstHit(first_hit) => {
            let quota = Quota::from(first_hit);
            u128::from(quota.limit()) + covering(quota.rate())
        }
        Spec::LeakyBucket { rate, capacity, .. } => u128::from(capacity) + refilled(rate) + 1,
        Spec::FixedWindow { rate, .. } | Spec::SlidingWindow { rate, subwindows: None, .. } => touched(rate),
        Spec::SlidingWindow { rate, .. } | Spec::SlidingLog { rate, .. } => covering(rate),
    }
}

/// The most that the limit may admit of one key at once.
pub(super) fn capacity(spec: Spec) -> u64 {
    match spec {
        Spec::TokenBucket { burst, .. } => burst,
        Spec::LeakyBucket { capacity, .. } => capacity,
        Spec::FirstHit(first_hit) => Quota::from(first_hit).limit(),
        Spec::FixedWindow { rate, .. } | Spec::SlidingWindow { rate, .. } | Spec::SlidingLog { rate, .. } => {
            rate.count()
        }
    }
}

/// The longest time until an admitted [`capacity`] is available again.
pub(super) fn recovery(spec: Spec) -> Duration {
    let refilled = |rate: Rate| u128::from(capacity(spec)) * nanos(rate.period()) / u128::from(rate.count());
    // In whole intervals. A tick may make each of them longer.
    let intervals = |rate: Rate| u128::from(capacity(spec).div_ceil(rate.count())) * nanos(rate.period());
    let nanos = match spec {
        Spec::TokenBucket { rate, intervals: true, .. } => intervals(rate),
        Spec::TokenBucket { rate, .. } | Spec::LeakyBucket { rate, .. } => refilled(rate),
        Spec::FirstHit(first_hit) => {
            let longest = intervals(Quota::from(first_hit).rate());
            longest + longest / 500 + 1
        }
        Spec::FixedWindow { rate, .. } | Spec::SlidingLog { rate, .. } => nanos(rate.period()),
        Spec::SlidingWindow { rate, .. } => 2 * nanos(rate.period()),
    };
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn nanos(period: Duration) -> u128 {
    period.as_nanos().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn of(spec: &str, from: u64, to: u64) -> u128 {
        bound(spec.parse().expect(spec), TimeSpan { from, to })
    }

    #[test]
    fn every_algorithm_has_its_bound() {
        assert_eq!(of("token-bucket:10/s,burst=3", 0, 2 * SECOND + SECOND / 20), 3 + 20 + 1);
        assert_eq!(of("leaky-bucket:10/s,capacity=3", 7, 7), 4);
        assert_eq!(of("token-bucket:10/s,burst=30,intervals", SECOND - 1, 2 * SECOND), 30 + 20);
        assert_eq!(of("fixed-window:10/s,first-hit", 7, SECOND + 6), 20);
        assert_eq!(of("fixed-window:10/s", SECOND - 1, SECOND), 20);
        assert_eq!(of("sliding-window:10/s", SECOND, 2 * SECOND - 1), 10);
        assert_eq!(of("sliding-window:10/s,subwindows=4", SECOND / 2, SECOND), 10);
        assert_eq!(of("sliding-log:10/s", SECOND / 2, SECOND / 2 + SECOND), 20);
    }

    #[test]
    fn every_algorithm_recovers() {
        let seconds = |spec: &str| recovery(spec.parse().expect(spec)).as_secs_f64();
        assert_eq!(seconds("token-bucket:10/s,burst=3"), 0.3);
        assert_eq!(seconds("leaky-bucket:10/2s,capacity=5"), 1.0);
        assert_eq!(seconds("token-bucket:10/2s,burst=11,intervals"), 4.0);
        assert_eq!(seconds("fixed-window:10/3s"), 3.0);
        assert_eq!(seconds("sliding-window:10/3s"), 6.0);
        assert_eq!(seconds("sliding-log:10/3s"), 3.0);
    }
}
