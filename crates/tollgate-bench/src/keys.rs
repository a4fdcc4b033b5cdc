//! The keys, in an order that is the same each time.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A bijection that scatters: the finalizer of splitmix64.
pub(crate) fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Random numbers from the `first`, the same each time (splitmix64).
fn random(first: usize) -> impl Iterator<Item = u64> {
    (1 + first as u64..).map(|nth| mix(42_u64.wrapping_add(nth.wrapping_mul(0x9E37_79B9_7F4A_7C15))))
}

/// `asks` keys out of `0..keys`, uniformly at random.
pub(crate) fn uniform(keys: usize, asks: usize) -> Vec<u64> {
    uniform_in(0, keys, asks)
}

/// The `pass`th `asks` of them.
pub(crate) fn uniform_in(pass: usize, keys: usize, asks: usize) -> Vec<u64> {
    random(pass * asks).take(asks).map(|drawn| drawn % keys as u64).collect()
}

/// `asks` keys out of `0..keys`, key `k` in proportion to `(k + 1)^-exponent`.
pub(crate) fn zipf(keys: usize, asks: usize, exponent: f64) -> Vec<u64> {
    let weights = (1..=keys).scan(0.0, |sum, rank| {
        *sum += (rank as f64).powf(-exponent);
        Some(*sum)
    });
    let sums: Vec<f64> = weights.collect();
    let total = sums.last().copied().unwrap_or(0.0);
    // 53 bits are what a double holds.
    let drawn = random(0).map(|bits| (bits >> 11) as f64 / (1_u64 << 53) as f64 * total);
    drawn.take(asks).map(|point| sums.partition_point(|&sum| sum <= point).min(keys - 1) as u64).collect()
}

/// Keys that nobody asked for before: the `pass`th `asks` of them, none below `2^63`.
pub(crate) fn unique(pass: usize, asks: usize) -> Vec<u64> {
    let first = (pass * asks) as u64;
    (first..first + asks as u64).map(newcomer).collect()
}

/// The `nth` of the keys that nobody asked for before.
pub(crate) fn newcomer(nth: u64) -> u64 {
    // By an odd number: one to one on the bits below the highest, which known keys do not have.
    1 << 63 | nth.wrapping_mul(0x9E37_79B9_7F4A_7C15) & (u64::MAX >> 1)
}

/// A key of `length` letters, as many as there are numbers.
pub(crate) fn text(number: u64, length: usize) -> String {
    let digits = format!("{:016x}", mix(number));
    digits.chars().cycle().take(length).collect()
}

/// An address of its own for each number below `2^32`.
pub(crate) fn v4(number: u64) -> Ipv4Addr {
    Ipv4Addr::from_bits((number as u32).wrapping_mul(0x9E37_79B1))
}

/// An address of its own for each number.
pub(crate) fn v6(number: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(0x2001_0db8_u128 << 96 | u128::from(mix(number)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn newcomers_are_all_new() {
        let passes = (0..4).flat_map(|pass| unique(pass, 10_000));
        let distinct: HashSet<u64> = passes.inspect(|&key| assert!(key >= 1 << 63)).collect();
        assert_eq!(distinct.len(), 40_000);
    }

    #[test]
    fn the_first_of_zipf_keys_takes_its_share() {
        let asks = zipf(1_000, 100_000, 0.99);
        let expected = 1.0 / (1..=1_000).map(|rank| f64::from(rank).powf(-0.99)).sum::<f64>();
        let share = asks.iter().filter(|&&key| key == 0).count() as f64 / asks.len() as f64;
        assert!((share / expected - 1.0).abs() < 0.05, "{share} of {expected}");
        assert!(asks.iter().all(|&key| key < 1_000));
    }

    #[test]
    fn names_keep_their_length_and_do_not_collide() {
        let names: HashSet<String> = (0..10_000).map(|number| text(number, 40)).collect();
        assert!(names.len() == 10_000 && names.iter().all(|name| name.len() == 40));
        assert_eq!((0..10_000).map(v4).collect::<HashSet<_>>().len(), 10_000);
    }
}
