//! The keys that a thread checks, drawn before the measurement so that drawing does not disturb it.

use crate::random::{SplitMix64, Zipf};

/// The shortest and the longest sequence.
const LENGTHS: (usize, usize) = (1 << 16, 1 << 23);

/// Key numbers in the order in which they are checked; the length is a power of two.
///
/// Zipf's law with a skew of 0 draws all keys alike; a skew near 1 resembles web traffic.
pub(super) fn key_sequence(keys: u32, skew: f64, seed: u64) -> Vec<u32> {
    let length = (4 * keys as usize).next_power_of_two().clamp(LENGTHS.0, LENGTHS.1);
    let mut random = SplitMix64::new(seed);
    if skew == 0.0 {
        return (0..length).map(|_| random.below(keys.into()) as u32).collect();
    }
    let zipf = Zipf::with_skew(keys, skew);
    (0..length).map(|_| zipf.sample(&mut random)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(keys: u32, skew: f64) -> Vec<usize> {
        let mut counts = vec![0; keys as usize];
        for key in key_sequence(keys, skew, 1) {
            counts[key as usize] += 1;
        }
        counts
    }

    #[test]
    fn keys_follow_zipfs_law() {
        let even = counts(16, 0.0);
        let mean = even.iter().sum::<usize>() / 16;
        assert!(even.iter().all(|&count| count.abs_diff(mean) < mean / 10), "{even:?}");
        let skewed = counts(16, 1.0);
        assert!(skewed[0].abs_diff(2 * skewed[1]) < skewed[0] / 10, "{skewed:?}");
        assert!(skewed[0].abs_diff(4 * skewed[3]) < skewed[0] / 10, "{skewed:?}");
        assert_eq!(counts(1, 2.0).len(), 1);
    }

    #[test]
    fn a_long_sequence_misses_few_keys() {
        let counts = counts(100_000, 0.0);
        let missed = counts.iter().filter(|&&count| count == 0).count();
        assert!(missed < 2_000, "{missed}");
    }
}
