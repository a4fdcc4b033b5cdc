//! What the tests of all crates share.

pub mod random;
