//! Reproducible sequences of keys.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The finalizer of splitmix64: a bijection that scatters its arguments.
pub(crate) fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Random numbers (splitmix64), from the `first` on.
fn random(first: usize) -> impl Iterator<Item = u64> {
    (1 + first as u64..).map(|nth| mix(42_u64.wrapping_add(nth.wrapping_mul(0x9E37_79B9_7F4A_7C15))))
}

/// `count` keys out of `0..keys`, uniformly at random.
pub(crate) fn uniform(keys: usize, count: usize) -> Vec<u64> {
    uniform_in(0, keys, count)
}

/// The `count` uniform keys of a pass.
pub(crate) fn uniform_in(pass: usize, keys: usize, count: usize) -> Vec<u64> {
    random(pass * count).take(count).map(|drawn| drawn % keys as u64).collect()
}

/// `count` keys out of `0..keys`, key `k` with a probability proportional to `(k + 1)^-exponent`.
pub(crate) fn zipf(keys: usize, count: usize, exponent: f64) -> Vec<u64> {
    let weights = (1..=keys).scan(0.0, |sum, rank| {
        *sum += (rank as f64).powf(-exponent);
        Some(*sum)
    });
    let sums: Vec<f64> = weights.collect();
    let total = sums.last().copied().unwrap_or(0.0);
    // A double has 53 bits of precision.
    let drawn = random(0).map(|bits| (bits >> 11) as f64 / (1_u64 << 53) as f64 * total);
    drawn.take(count).map(|point| sums.partition_point(|&sum| sum <= point).min(keys - 1) as u64).collect()
}

/// The `count` keys of a pass, which no other pass has, none below `2^63`.
pub(crate) fn new_keys(pass: usize, count: usize) -> Vec<u64> {
    let first = (pass * count) as u64;
    (first..first + count as u64).map(new_key).collect()
}

/// The `nth` of a sequence of distinct keys, none below `2^63`.
pub(crate) fn new_key(nth: u64) -> u64 {
    // The multiplication by an odd number is a bijection on the low 63 bits. The highest bit keeps
    // new keys apart from all others.
    1 << 63 | nth.wrapping_mul(0x9E37_79B9_7F4A_7C15) & (u64::MAX >> 1)
}

/// A string key of `length` letters, distinct for each number.
pub(crate) fn text(number: u64, length: usize) -> String {
    let digits = format!("{:016x}", mix(number));
    digits.chars().cycle().take(length).collect()
}

/// An IPv4 address, distinct for each number below `2^32`.
pub(crate) fn v4(number: u64) -> Ipv4Addr {
    Ipv4Addr::from_bits((number as u32).wrapping_mul(0x9E37_79B1))
}

/// An IPv6 address, distinct for each number.
pub(crate) fn v6(number: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(0x2001_0db8_u128 << 96 | u128::from(mix(number)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn new_keys_are_distinct() {
        let passes = (0..4).flat_map(|pass| new_keys(pass, 10_000));
        let distinct: HashSet<u64> = passes.inspect(|&key| assert!(key >= 1 << 63)).collect();
        assert_eq!(distinct.len(), 40_000);
    }

    #[test]
    fn the_first_zipf_key_has_its_share() {
        let asks = zipf(1_000, 100_000, 0.99);
        let expected = 1.0 / (1..=1_000).map(|rank| f64::from(rank).powf(-0.99)).sum::<f64>();
        let share = asks.iter().filter(|&&key| key == 0).count() as f64 / asks.len() as f64;
        assert!((share / expected - 1.0).abs() < 0.05, "{share} of {expected}");
        assert!(asks.iter().all(|&key| key < 1_000));
    }

    #[test]
    fn string_keys_keep_their_length_and_do_not_collide() {
        let names: HashSet<String> = (0..10_000).map(|number| text(number, 40)).collect();
        assert!(names.len() == 10_000 && names.iter().all(|name| name.len() == 40));
        assert_eq!((0..10_000).map(v4).collect::<HashSet<_>>().len(), 10_000);
    }
}
