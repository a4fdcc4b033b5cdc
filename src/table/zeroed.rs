//! Zeroed memory, and what stands for it under loom.

use crate::error::BuildError;
use crate::sync::{AtomicU64, Tally};
#[cfg(not(loom))]
pub(crate) use crate::table::memory::{Zeroed, prefetch};

/// Loom's atomics are not all zero: under loom, each value is made by itself.
#[cfg(loom)]
pub(crate) type Zeroed<T> = Vec<T>;

/// Loom has no cache.
#[cfg(loom)]
pub(crate) fn prefetch<T>(_place: &T) {}

/// `len` zero words.
pub(crate) fn zeroed_words(len: usize) -> Result<Zeroed<AtomicU64>, BuildError> {
    #[cfg(not(loom))]
    return Zeroed::new(len);
    #[cfg(loom)]
    return Ok((0..len).map(|_| AtomicU64::new(0)).collect());
}

/// The same of words that one thread at a time uses.
pub(crate) fn zeroed_tallies(len: usize) -> Result<Zeroed<Tally>, BuildError> {
    #[cfg(not(loom))]
    return Zeroed::new(len);
    #[cfg(loom)]
    return Ok((0..len).map(|_| Tally::new(0)).collect());
}
