//! Contestants that are given the time: one microsecond passes with each check, so that the debt of
//! the keys does not depend on the speed of the contestant.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::contest::{Contestant, TestedLimiter};

/// The nanoseconds that pass with each check.
const STEP: u64 = 1_000;

/// A limiter whose checks take a key and the nanoseconds since the start.
pub(crate) fn given<K: 'static, F>(name: &str, make: impl Fn() -> F + 'static) -> Contestant<K>
where
    F: Fn(&K, u64) -> bool + Send + Sync + 'static,
{
    Contestant::new(name, move || TimeGiven { check: make(), now: AtomicU64::new(0) })
}

struct TimeGiven<F> {
    check: F,
    /// The time of the last check, in nanoseconds.
    now: AtomicU64,
}

impl<K, F: Fn(&K, u64) -> bool + Send + Sync> TestedLimiter<K> for TimeGiven<F> {
    fn admit(&self, key: &K) -> bool {
        (self.check)(key, self.now.fetch_add(STEP, Relaxed) + STEP)
    }

    fn admit_all(&self, keys: &[K]) -> usize {
        let mut now = self.now.load(Relaxed);
        let admits = |key: &&K| {
            now += STEP;
            (self.check)(key, now)
        };
        let admitted = keys.iter().filter(admits).count();
        self.now.store(now, Relaxed);
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_microsecond_passes_with_each_check() {
        let contestant = given("records", || |key: &u64, now: u64| *key * 1_000 == now);
        let limiter = (contestant.make)();
        assert_eq!(limiter.admit_all(&[1, 2, 9]), 2);
        assert!(limiter.admit(&4) && limiter.admit(&5));
        assert_eq!(limiter.admit_all(&[6]), 1);
    }
}
