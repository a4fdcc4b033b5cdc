//! Random numbers that are the same in every run: [`fastrand`]'s, with a seed.

pub use fastrand::Rng as Random;

/// A number for each number, which looks random: fingerprints of keys that are the same in every
/// run.
pub fn scattered(number: u64) -> u64 {
    Random::with_seed(number).u64(..)
}
