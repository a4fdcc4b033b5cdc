//! Random numbers that are the same in every run: [`fastrand`]'s, with a seed.

pub use fastrand::Rng as Random;
