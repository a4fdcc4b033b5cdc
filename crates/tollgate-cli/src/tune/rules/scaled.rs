//! A quota with another count, and all its other numbers in proportion.

use tollgate::{FixedWindow, Quota, Rate};

use crate::spec::Spec;

/// A quota of `count` a period. Burst, capacity and initial tokens grow with the count, rounded up.
pub(super) fn scaled(quota: Quota, count: u64) -> Quota {
    let now = quota.rate();
    let rate = Rate::new(count, now.period());
    let in_proportion = |number: u64| {
        let scaled = (u128::from(number) * u128::from(count)).div_ceil(u128::from(now.count().max(1)));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    };
    let scaled = match Spec::from(quota) {
        Spec::TokenBucket { burst, initial, intervals, .. } => {
            let (burst, initial) = (in_proportion(burst), in_proportion(initial));
            Spec::TokenBucket { rate, burst, initial, intervals }
        }
        Spec::LeakyBucket { capacity, queue, .. } => {
            Spec::LeakyBucket { rate, capacity: in_proportion(capacity), queue }
        }
        Spec::FixedWindow { count, .. } => Spec::FixedWindow { rate, count },
        Spec::SlidingWindow { subwindows, count, .. } => Spec::SlidingWindow { rate, subwindows, count },
        Spec::SlidingLog { count, .. } => Spec::SlidingLog { rate, count },
        Spec::FirstHit(_) => {
            Spec::FirstHit(FixedWindow::new(rate).count(quota.count_policy()).from_first_hit())
        }
    };
    scaled.quota()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_grow_in_proportion() {
        for (text, count, expected) in [
            ("10/s,burst=20", 25, "token-bucket:25/s,burst=50"),
            ("10/s,burst=3", 11, "token-bucket:11/s,burst=4"),
            ("60/min,burst=20,initial=10", 120, "token-bucket:120/min,burst=40,initial=20"),
            ("leaky-bucket:1/s,capacity=30,queue", 2, "leaky-bucket:2/s,capacity=60,queue"),
            ("fixed-window:10/s,count=all", 7, "fixed-window:7/s,count=all"),
            ("sliding-window:60/h,subwindows=6", 1, "sliding-window:1/h,subwindows=6"),
            ("sliding-log:5/d", 9, "sliding-log:9/d"),
            ("fixed-window:10/s,first-hit", 7, "fixed-window:7/s,first-hit"),
        ] {
            let quota: Quota = text.parse().expect(text);
            let expected: Quota = expected.parse().expect(expected);
            assert_eq!(scaled(quota, count), expected, "{text}");
            assert_eq!(scaled(quota, quota.rate().count()), quota, "{text}");
        }
    }
}
