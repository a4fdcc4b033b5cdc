//! Zeroed memory, and what stands for it under loom.

use crate::error::BuildError;
use crate::sync::AtomicU64;
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
