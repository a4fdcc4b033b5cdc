//! How much of a jitter the numbers of one response have.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// A random share of jitters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn draw() -> Self {
        // Each `RandomState` has another key.
        Self(RandomState::new().build_hasher().finish())
    }

    /// Returns this share of `most`.
    pub(super) fn of(self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos((((u128::from(most) + 1) * u128::from(self.0)) >> u64::BITS) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_within_its_bound_and_spread() {
        let most = Duration::from_millis(100);
        let waits: Vec<_> = (0..1_000).map(|_| Chance::draw().of(most)).collect();
        assert!(waits.iter().all(|wait| *wait <= most));
        let short = waits.iter().filter(|wait| **wait < most / 2).count();
        assert!((300..700).contains(&short), "{short} of 1,000");
        assert_eq!(Chance::draw().of(Duration::ZERO), Duration::ZERO);
    }
}
