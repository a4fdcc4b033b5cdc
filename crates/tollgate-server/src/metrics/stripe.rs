//! Which of several equal counters a thread adds to.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crossbeam_utils::CachePadded;

/// The most stripes.
const MOST: usize = 16;

/// As many of something as threads may add to at once, without sharing a cache line: a thread adds
/// to its own, a reader adds all up.
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
        &self.0[number() & (self.0.len() - 1)]
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|padded| &**padded)
    }
}

/// The number of this thread, in the order in which threads first ask.
#[inline]
fn number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    NUMBER.get().unwrap_or_else(|| {
        let number = THREADS.fetch_add(1, Relaxed);
        NUMBER.set(Some(number));
        number
    })
}
