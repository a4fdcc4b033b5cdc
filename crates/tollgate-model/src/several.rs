//! Several limits on one key, all or nothing.
//!
//! "Ten a second, and fifteen a minute": a request passes if every limit lets it pass, and then every limit is
//! charged. If one refuses, none is charged, so that a limit with room loses nothing to one without. (A limit
//! that counts refusals, [`CountPolicy::All`](crate::CountPolicy::All), counts its own and nobody else's.)
//!
//! All limits see the request at the same time. Who is refused is told the one thing that matters, the longest
//! wait, and which limit it comes from.

use crate::{Algorithm, Inherit, Model};

/// Limits that hold together, each with a state of its own for each key.
pub struct Several {
    limits: Vec<Model>,
}

/// The answer of several limits to one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joint {
    /// Who stands in the way; `None` when the request may pass.
    pub refusal: Option<Refusal>,
    /// How much more every limit would admit now, after this request: the least of them.
    pub remaining: u64,
}

/// Of the limits that refuse, the first with the longest wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its place in the order in which the limits were given, from 0.
    pub limit: usize,
    /// Its wait; `None` when no wait will ever help, which is longer than any.
    pub retry_after_ns: Option<u64>,
}

impl Several {
    /// Limits in which no key was seen yet.
    ///
    /// # Panics
    ///
    /// Like [`Model::new`]; and when there are no limits at all.
    pub fn new(limits: &[Algorithm]) -> Self {
        assert!(!limits.is_empty(), "no limit has nothing to say");
        Self { limits: limits.iter().copied().map(Model::new).collect() }
    }

    /// Decides whether `key` may spend `cost` of every limit at `now_ns`, and remembers it.
    pub fn check(&mut self, key: &str, now_ns: u64, cost: u64) -> Joint {
        let refuses = |limit: &Model| !limit.peek(key, now_ns, cost).allowed;
        let refused = self.limits.iter().any(refuses);
        // What can never pass changes nothing, not even where refusals count.
        let never = self.limits.iter().any(|limit| limit.peek(key, now_ns, cost).never);
        let mut refusals = Vec::new();
        for (number, limit) in self.limits.iter_mut().enumerate() {
            // A limit that would let it pass is not asked when another does not.
            if !refused || refuses(limit) {
                let answer =
                    if never { limit.peek(key, now_ns, cost) } else { limit.check(key, now_ns, cost) };
                if refused {
                    refusals.push(Refusal { limit: number, retry_after_ns: answer.retry_after_ns });
                }
            }
        }
        Joint { refusal: longest(&refusals), remaining: self.remaining(key, now_ns) }
    }

    /// Puts another limit in force in the place of one; the others stay as they are: see [`Model::reconfigure`].
    ///
    /// # Panics
    ///
    /// As there, and when there is no limit of this number.
    pub fn reconfigure(&mut self, number: usize, algorithm: Algorithm, inherit: Inherit, now_ns: u64) {
        self.limits[number].reconfigure(algorithm, inherit, now_ns);
    }

    fn remaining(&self, key: &str, now_ns: u64) -> u64 {
        let remaining = self.limits.iter().map(|limit| limit.peek(key, now_ns, 0).remaining);
        remaining.min().expect("there is at least one limit")
    }

    /// The limits, in the order in which they were given.
    pub fn limits(&self) -> &[Model] {
        &self.limits
    }
}

impl Joint {
    /// Whether the request may pass.
    pub fn allowed(&self) -> bool {
        self.refusal.is_none()
    }
}

/// The first of those with the longest wait.
fn longest(refusals: &[Refusal]) -> Option<Refusal> {
    let wait = |refusal: &Refusal| refusal.retry_after_ns.map_or(u128::MAX, u128::from);
    refusals.iter().copied().reduce(|first, next| if wait(&next) > wait(&first) { next } else { first })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CountPolicy;

    const SECOND: u64 = 1_000_000_000;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;

    /// A bucket that holds what flows in during one period.
    fn bucket(burst: u64, period_ns: u64) -> Algorithm {
        Algorithm::TokenBucket { count: burst, period_ns, burst, initial: burst, grains: None }
    }

    fn refused(joint: Joint, limit: usize, retry_after_ns: Option<u64>) -> bool {
        joint.refusal == Some(Refusal { limit, retry_after_ns })
    }

    fn remaining(several: &Several, now: u64) -> Vec<u64> {
        several.limits().iter().map(|limit| limit.peek("k", now, 0).remaining).collect()
    }

    #[test]
    fn a_cost_above_one_limit_is_not_even_counted_by_another() {
        let counting = Algorithm::FixedWindow {
            limit: 5,
            window_ns: SECOND,
            origin_ns: 0,
            count: CountPolicy::All,
            ceiling: 100,
        };
        let mut several = Several::new(&[counting, bucket(3, SECOND)]);
        assert!(several.check("k", 0, 3).allowed());
        assert!(refused(several.check("k", 0, 4), 1, None));
        assert_eq!(remaining(&several, 0), [2, 0]);
        let once_more = several.limits()[0].peek("k", 0, 2);
        assert!(once_more.allowed, "the refused four were not counted");
    }

    #[test]
    fn who_is_refused_by_one_limit_is_charged_by_none() {
        let mut several = Several::new(&[bucket(10, SECOND), bucket(15, MINUTE)]);
        assert!((0..10).all(|_| several.check("k", 0, 1).allowed()));
        assert!(refused(several.check("k", 0, 1), 0, Some(SECOND / 10)));
        assert_eq!(remaining(&several, 0), [0, 5]);

        assert!((0..5).all(|_| several.check("k", SECOND, 1).allowed()));
        let joint = several.check("k", SECOND, 1);
        assert!(refused(joint, 1, Some(3 * SECOND)));
        assert_eq!(joint.remaining, 0);
        // The first has five left and the second a quarter: the next is due in three quarters of four seconds.
        assert_eq!(remaining(&several, SECOND), [5, 0]);
        assert_eq!(several.limits()[1].peek("k", SECOND, 1).retry_after_ns, Some(3 * SECOND));
    }

    #[test]
    fn twelve_idle_hours_overflow_nothing() {
        let mut several = Several::new(&[bucket(700_000, HOUR), bucket(14_500, MINUTE), bucket(300, SECOND)]);
        let later = 12 * HOUR;
        assert!(several.check("k", 0, 1).allowed());
        assert!((0..300).all(|_| several.check("k", later, 1).allowed()));
        assert!(refused(several.check("k", later, 1), 2, Some(3_333_334)));
        assert_eq!(remaining(&several, later), [699_700, 14_200, 0]);
    }

    #[test]
    fn a_limit_that_is_replaced_leaves_the_others_what_they_were() {
        let mut several = Several::new(&[bucket(10, SECOND), bucket(15, MINUTE)]);
        assert!(several.check("k", 0, 8).allowed());
        several.reconfigure(1, bucket(30, MINUTE), Inherit::Additive, 0);
        assert_eq!(remaining(&several, 0), [2, 22]);
        several.reconfigure(0, bucket(100, SECOND), Inherit::Proportional, 0);
        assert_eq!(remaining(&several, 0), [20, 22]);
    }

    #[test]
    fn the_first_of_the_longest_waits_is_named() {
        let mut several = Several::new(&[bucket(9, 9), bucket(1, 20), bucket(1, 20)]);
        assert!(several.check("k", 0, 1).allowed());
        assert!(refused(several.check("k", 0, 1), 1, Some(20)));
    }

    #[test]
    fn never_is_longer_than_any_wait() {
        let mut several = Several::new(&[bucket(2, HOUR), bucket(1, 1)]);
        assert!(several.check("k", 0, 1).allowed());
        let joint = several.check("k", 0, 2);
        assert!(refused(joint, 1, None));
        assert_eq!(joint.remaining, 0);
    }

    #[test]
    fn a_limit_counts_its_own_refusals_and_nobody_elses() {
        let log = |limit| Algorithm::SlidingLog { limit, window_ns: 10, count: CountPolicy::All };
        let mut several = Several::new(&[log(1), log(2)]);
        assert!(several.check("k", 0, 1).allowed());
        assert!(refused(several.check("k", 5, 1), 0, Some(10)));
        assert_eq!(remaining(&several, 5), [0, 1]);
        assert_eq!(remaining(&several, 10), [0, 2]);
    }

    #[test]
    fn a_cost_of_nothing_passes_every_limit() {
        let mut several = Several::new(&[bucket(1, 10), bucket(2, 10)]);
        assert!(several.check("k", 0, 1).allowed());
        assert_eq!(several.check("k", 0, 0), Joint { refusal: None, remaining: 0 });
    }
}
