//! Which of several equal counters a thread adds to.

use crossbeam_utils::CachePadded;

use crate::listen::worker_number;

/// The most stripes.
const MOST: usize = 16;

/// As many of something as threads may add to at once, without sharing a cache line: a thread that
/// serves connections adds to its own, all other threads to the last one, a reader adds all up.
pub(super) struct Stripes<T>(Box<[CachePadded<T>]>);

impl<T: Default> Stripes<T> {
    /// One for each processor, up to 16.
    pub(super) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let count = processors.next_power_of_two().min(MOST);
        Self((0..count).map(|_| CachePadded::default()).collect())
    }
}

impl<T> Stripes<T> {
    /// That of this thread.
    #[inline]
    pub(super) fn own(&self) -> &T {
        // The length is a power of two.
        &self.0[worker_number() & (self.0.len() - 1)]
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|padded| &**padded)
    }
}
