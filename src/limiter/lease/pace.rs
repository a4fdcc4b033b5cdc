//! How many permits a lease takes at once: a pure rule.
//!
//! Permits that are spent within a quarter of their ttl double the next take, so at an even pace
//! the doubled take is still spent within half a ttl. A take that lapses halves the next one, and
//! brings it down to the permits that were spent of it. A take that the limiter has no room for
//! brings it down to what it had room for, and a refusal to 1: near the limit every permit is taken
//! when it is needed. Nothing goes above an eighth of the current limit, nor above `MOST`.

/// More permits at once would save nothing: of a contended compare-exchange of 100 ns each bears a
/// tenth of one.
const MOST: u64 = 1_024;

/// One lease may hold this share of the limit.
const SHARE: u64 = 8;

/// The share of the ttl within which a take counts as spent quickly.
const QUICKLY: u64 = 4;

/// The size of the next take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    size: u64,
    /// Whether it follows what happens to the takes.
    adapts: bool,
}

/// Where growing ends under a limit.
fn most(limit: u64) -> u64 {
    (limit / SHARE).clamp(1, MOST)
}

impl Pace {
    /// Begins with 1.
    pub(super) fn adaptive() -> Self {
        Self { size: 1, adapts: true }
    }

    /// Always `size`.
    pub(super) fn fixed(size: u64) -> Self {
        Self { size: size.max(1), adapts: false }
    }

    /// How many permits the next take asks for. `limit` is the current one, which may have changed
    /// since the last take.
    pub(super) fn size(self, limit: u64) -> u64 {
        self.size.min(if self.adapts { most(limit) } else { limit })
    }

    /// All permits of a take were spent `age` nanoseconds after it.
    pub(super) fn spent(&mut self, age: u64, ttl: u64) {
        if self.adapts && age < ttl / QUICKLY {
            self.size = (2 * self.size).min(MOST);
        }
    }

    /// The ttl ended, or the permits were given back, when `spent` of them were spent.
    pub(super) fn returned(&mut self, spent: u64) {
        self.shrink((self.size / 2).min(spent));
    }

    /// The limiter had room for `units`: 0 when the request was refused.
    pub(super) fn granted(&mut self, units: u64) {
        self.shrink(units);
    }

    fn shrink(&mut self, size: u64) {
        if self.adapts {
            self.size = self.size.min(size).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_takes_double_up_to_an_eighth_of_the_limit() {
        let mut pace = Pace::adaptive();
        let mut after = |age, limit| {
            pace.spent(age, 1_000);
            pace.size(limit)
        };
        assert_eq!([0; 7].map(|_| after(249, 200)), [2, 4, 8, 16, 25, 25, 25]);
        assert_eq!(after(250, 10_000), 128, "not quickly: as it was");
        assert_eq!(
            [after(0, u64::MAX), after(0, u64::MAX), after(0, u64::MAX), after(0, u64::MAX)],
            [256, 512, 1_024, MOST]
        );
        assert_eq!(after(0, 1), 1);
    }

    #[test]
    fn what_comes_back_shrinks_the_next_take() {
        let mut pace = Pace { size: 64, adapts: true };
        pace.returned(64);
        assert_eq!(pace.size, 32);
        pace.returned(5);
        assert_eq!(pace.size, 5);
        pace.granted(3);
        assert_eq!(pace.size, 3);
        pace.granted(0);
        assert_eq!(pace.size, 1);
    }

    #[test]
    fn a_fixed_size_stays() {
        let mut pace = Pace::fixed(7);
        pace.spent(0, 1_000);
        pace.returned(0);
        pace.granted(0);
        assert_eq!([pace.size(100), pace.size(3)], [7, 3]);
        assert_eq!(Pace::fixed(0).size(100), 1);
    }
}
