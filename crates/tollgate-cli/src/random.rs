//! Random numbers that a seed determines: SplitMix64 (Steele, Lea and Flood, 2014) and Zipf's law.
//!
//! [`SplitMix64`] and [`Zipf::harmonic`] use only operations that every machine computes alike.

/// A sequence of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; all are equally likely, but for a bias below `end` in 2^64.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// True with a probability of `per_million` in a million.
    pub(crate) fn chance(&mut self, per_million: u64) -> bool {
        self.below(1_000_000) < per_million
    }

    /// One of `all`, which must not be empty.
    pub(crate) fn choose<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Zipf's law: rank `k`, counted from 0, has a probability proportional to `1 / (k + 1)^skew`.
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    /// For each rank, the weight of it and all before it.
    cumulative: Vec<f64>,
}

impl Zipf {
    /// The law with a skew of 1, for at least one rank.
    pub(crate) fn harmonic(ranks: u32) -> Self {
        Self::new((1..=ranks).map(|rank| 1.0 / f64::from(rank)))
    }

    /// The law with any skew, for at least one rank.
    pub(crate) fn with_skew(ranks: u32, skew: f64) -> Self {
        Self::new((1..=ranks).map(|rank| f64::from(rank).powf(-skew)))
    }

    fn new(weights: impl Iterator<Item = f64>) -> Self {
        let cumulative = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self { cumulative: cumulative.collect() }
    }

    /// A random rank, counted from 0.
    pub(crate) fn sample(&self, random: &mut SplitMix64) -> u32 {
        let total = self.cumulative[self.cumulative.len() - 1];
        // A double represents every integer of 53 bits.
        let point = random.below(1 << 53) as f64 / (1_u64 << 53) as f64 * total;
        // The product may round up to the total, which is past the last rank.
        self.cumulative.partition_point(|&sum| sum <= point).min(self.cumulative.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_gives_its_published_first_numbers() {
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn frequencies_follow_zipfs_law() {
        for zipf in [Zipf::harmonic(1_000), Zipf::with_skew(1_000, 1.0)] {
            let mut random = SplitMix64::new(1);
            let mut counts = [0_u32; 1_000];
            (0..200_000).for_each(|_| counts[zipf.sample(&mut random) as usize] += 1);
            let ratio = f64::from(counts[0]) / f64::from(counts[1]);
            assert!((1.9..2.1).contains(&ratio), "{ratio}");
            assert!(counts[999] < counts[0] / 100);
        }
    }
}
