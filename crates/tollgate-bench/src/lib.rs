//! What the comparisons share: the keys and the order in which they are asked for.

/// A small generator (splitmix64): the same keys in the same order for everybody.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Begins at `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, uniform over all of `u64`.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// `asks` keys out of `0..keys`, uniformly at random.
#[must_use]
pub fn uniform(keys: u64, asks: usize) -> Vec<u64> {
    let mut random = Random::new(42);
    (0..asks).map(|_| random.next() % keys).collect()
}
