//! How often a limiter has forgiven somebody.
//!
//! A [lease](crate::Lease) holds what it was charged for, and so does a future that waits for its turn. A reset forgives
//! charges, so it has to end what leases hold and what such futures would give back; it does not know them, and they look
//! here instead. One count for all keys: a reset of any key ends the permits of all leases, which costs each a refill.
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | L1 | `forgave` | `count` | that the key's word has been lowered: whoever takes after it counted is charged anew |
//!
use std::fmt;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering};
use Ordering::{Acquire, Release};

/// Counts resets, on a cache line that nothing else writes: it is read at every spending of a permit.
pub(super) struct Resets(CachePadded<AtomicU64>);

impl Resets {
    pub(super) fn new() -> Self {
        Self(CachePadded::new(AtomicU64::new(0)))
    }

    /// Ends what leases hold. Called once a word has been lowered, so that what is taken after it is not forgiven.
    pub(super) fn forgave(&self) {
        self.0.fetch_add(1, Release); // L1
    }

    /// Read it before permits are taken: they are good while it stays the same.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.0.load(Acquire) // L1
    }
}

impl fmt::Debug for Resets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resets").field(&self.count()).finish()
    }
}
