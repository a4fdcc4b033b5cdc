//! One of something for each thread that serves connections.

use std::cell::Cell;
use std::thread;

use crossbeam::utils::CachePadded;

/// The most counters for the same events: a rule has about a kilobyte of them for each thread.
const MOST_COUNTERS: usize = 15;

thread_local! {
    /// The number of this thread; `usize::MAX` of threads that serve no connections.
    static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// One of something for each of the threads that serve connections, and one for all other threads,
/// none in a cache line of another.
pub struct PerWorker<T>(Box<[CachePadded<T>]>);

/// Gives this thread its number: it serves connections.
pub(super) fn set_number(number: usize) {
    NUMBER.set(number);
}

impl<T: Default> PerWorker<T> {
    /// For so many threads.
    pub fn new(workers: usize) -> Self {
        let length = (workers + 1).next_power_of_two();
        Self((0..length).map(|_| CachePadded::default()).collect())
    }

    /// For counters, of which threads may share some: for as many threads as there are processors,
    /// and at most 15.
    pub fn counters() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self::new(processors.min(MOST_COUNTERS))
    }
}

impl<T> PerWorker<T> {
    /// That of this thread.
    #[inline]
    pub fn here(&self) -> &T {
        // The length is a power of two, so that threads without a number find the last one.
        &self.0[NUMBER.get() & (self.0.len() - 1)]
    }

    /// Those of all threads.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|padded| &**padded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place of a thread with this number among those for so many threads.
    fn place(number: usize, each: &PerWorker<u8>) -> usize {
        let find = || each.all().position(|own| std::ptr::eq(own, each.here())).unwrap();
        thread::scope(|scope| {
            let there = scope.spawn(|| {
                set_number(number);
                find()
            });
            there.join().unwrap()
        })
    }

    #[test]
    fn each_thread_finds_its_own() {
        for workers in 1..40 {
            let each = PerWorker::<u8>::new(workers);
            for number in 0..workers {
                assert_eq!(place(number, &each), number, "of {workers}");
            }
            assert_eq!(place(usize::MAX, &each), each.all().count() - 1, "of {workers}");
        }
    }

    #[test]
    fn threads_beyond_the_counters_share_them() {
        let each = PerWorker::<u8>::counters();
        let length = each.all().count();
        assert!((2..=16).contains(&length), "{length}");
        assert_eq!(place(length + 1, &each), 1);
    }
}
