//! Chance with a seed: SplitMix64 (Steele, Lea and Flood, 2014), and what a day asks of it.
//!
//! Only additions, multiplications, divisions and comparisons: what every machine computes alike.

/// A row of random numbers that its seed determines.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; all are equally likely, but for a bias below `end` in 2^64.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// True `parts` times in a million.
    pub(super) fn happens(&mut self, parts: u64) -> bool {
        self.below(1_000_000) < parts
    }

    /// One of `all`, which is not empty.
    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Ranks by Zipf's law: the second is met half as often as the first, the third a third as often.
#[derive(Debug, Clone)]
pub(super) struct Zipf {
    /// For each rank, the weight of it and all before it.
    cumulative: Vec<f64>,
}

impl Zipf {
    /// The law for `ranks` ranks, at least one.
    pub(super) fn new(ranks: u32) -> Self {
        let weights = (1..=ranks).map(|rank| 1.0 / f64::from(rank));
        let cumulative = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self { cumulative: cumulative.collect() }
    }

    /// A rank, counted from 0.
    pub(super) fn roll(&self, dice: &mut Dice) -> u32 {
        let total = self.cumulative[self.cumulative.len() - 1];
        // 53 bits: every one of these numbers is a double.
        let point = dice.below(1 << 53) as f64 / (1_u64 << 53) as f64 * total;
        // The product may round up to the total, which is past the last rank.
        self.cumulative.partition_point(|&sum| sum <= point).min(self.cumulative.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_gives_its_published_first_numbers() {
        let mut dice = Dice::new(1_234_567);
        assert_eq!([dice.next(), dice.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn the_second_rank_is_met_half_as_often_as_the_first() {
        let (zipf, mut dice) = (Zipf::new(1_000), Dice::new(1));
        let mut met = [0_u32; 1_000];
        (0..200_000).for_each(|_| met[zipf.roll(&mut dice) as usize] += 1);
        let ratio = f64::from(met[0]) / f64::from(met[1]);
        assert!((1.9..2.1).contains(&ratio), "{ratio}");
        assert!(met[999] < met[0] / 100);
    }
}
