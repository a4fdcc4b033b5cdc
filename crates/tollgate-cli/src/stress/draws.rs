//! Which keys are hit: drawn beforehand, so that drawing does not disturb what is measured.
//!
//! Zipf's law: of `n` keys, number `k` (from 0) comes with a probability proportional to `1 / (k + 1)^skew`.
//! With a skew of 0 all are equal; near 1 is what the web looks like.

/// The fewest and the most keys that are drawn beforehand.
const DRAWS: (usize, usize) = (1 << 16, 1 << 23);

/// Key numbers in the order in which they are hit; a power of two of them.
pub(super) fn draw(keys: u32, skew: f64, seed: u64) -> Vec<u32> {
    let count = (4 * keys as usize).next_power_of_two().clamp(DRAWS.0, DRAWS.1);
    let mut random = SplitMix(seed);
    if skew == 0.0 {
        return (0..count).map(|_| ((u128::from(random.next()) * u128::from(keys)) >> 64) as u32).collect();
    }
    let mut total = 0.0;
    let cumulative: Vec<f64> = (1..=keys)
        .map(|rank| {
            total += f64::from(rank).powf(-skew);
            total
        })
        .collect();
    let draw = |_| {
        let unit = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let key = cumulative.partition_point(|&sum| sum <= unit * total);
        (key as u32).min(keys - 1)
    };
    (0..count).map(draw).collect()
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, fast, good enough for a load.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(keys: u32, skew: f64) -> Vec<usize> {
        let mut counts = vec![0; keys as usize];
        for key in draw(keys, skew, 1) {
            counts[key as usize] += 1;
        }
        counts
    }

    #[test]
    fn the_skew_is_zipfs() {
        let even = counts(16, 0.0);
        let mean = even.iter().sum::<usize>() / 16;
        assert!(even.iter().all(|&count| count.abs_diff(mean) < mean / 10), "{even:?}");
        let skewed = counts(16, 1.0);
        assert!(skewed[0].abs_diff(2 * skewed[1]) < skewed[0] / 10, "{skewed:?}");
        assert!(skewed[0].abs_diff(4 * skewed[3]) < skewed[0] / 10, "{skewed:?}");
        assert_eq!(counts(1, 2.0).len(), 1);
    }

    #[test]
    fn many_keys_are_all_but_a_few_hit() {
        let counts = counts(100_000, 0.0);
        let missed = counts.iter().filter(|&&count| count == 0).count();
        assert!(missed < 2_000, "{missed}");
    }
}
