//! Histograms with fixed bounds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counts of one stripe: one more than there are bounds. Adding is two atomic additions.
pub struct Buckets<const N: usize> {
    counts: [AtomicU64; N],
    /// In the unit of the histogram, as a whole number. It wraps.
    sum: AtomicU64,
}

/// The counts of all stripes.
#[derive(Clone, Copy)]
pub struct Histogram<const N: usize> {
    /// By bucket; the last one has no bound.
    pub counts: [u64; N],
    /// Of all values, in the unit of the histogram. It wraps.
    pub sum: u64,
}

impl<const N: usize> Default for Buckets<N> {
    fn default() -> Self {
        Self { counts: std::array::from_fn(|_| AtomicU64::new(0)), sum: AtomicU64::new(0) }
    }
}

impl<const N: usize> Buckets<N> {
    /// Adds a value to the first bucket whose bound is not below it. `bounds` has `N - 1`.
    #[inline]
    pub fn add(&self, value: u64, bounds: &[u64]) {
        let bucket = bounds.iter().take_while(|bound| **bound < value).count();
        self.counts[bucket.min(N - 1)].fetch_add(1, Relaxed);
        if value > 0 {
            self.sum.fetch_add(value, Relaxed);
        }
    }

    /// Adds to the last bucket, which has no bound, and nothing to the sum.
    pub fn add_unlimited(&self) {
        self.counts[N - 1].fetch_add(1, Relaxed);
    }
}

impl<const N: usize> Histogram<N> {
    /// Adds the counts of stripes up.
    pub fn of<'b>(stripes: impl Iterator<Item = &'b Buckets<N>>) -> Self {
        let mut all = Self { counts: [0; N], sum: 0 };
        for stripe in stripes {
            for (count, own) in all.counts.iter_mut().zip(&stripe.counts) {
                *count += own.load(Relaxed);
            }
            all.sum = all.sum.wrapping_add(stripe.sum.load(Relaxed));
        }
        all
    }

    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_below_its_bound() {
        let buckets = Buckets::<3>::default();
        for value in [0, 10, 11, 20, 21, u64::MAX / 2] {
            buckets.add(value, &[10, 20]);
        }
        let all = Histogram::of([&buckets, &Buckets::default()].into_iter());
        assert_eq!((all.counts, all.count()), ([2, 2, 2], 6));
        assert_eq!(all.sum, 62 + u64::MAX / 2);
    }
}
