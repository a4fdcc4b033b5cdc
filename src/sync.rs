//! The one door to atomics: the standard library's, or loom's under `--cfg loom`.
//!
//! All concurrent code of the crate imports from here, so the code that loom explores is the code
//! that runs.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::Ordering;
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(not(any(loom, test)))]
pub(crate) use std::sync::atomic::AtomicU64;

#[cfg(all(test, not(loom)))]
pub(crate) use counted::AtomicU64;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};

#[cfg(all(test, not(loom)))]
pub(crate) use counted::AtomicU64 as Tally;
/// A counter that no decision reads: never loom's, which would explore every order of counting.
#[cfg(not(all(test, not(loom))))]
pub(crate) use std::sync::atomic::AtomicU64 as Tally;
pub(crate) use std::sync::atomic::Ordering as TallyOrdering;

/// For the models in `edges`.
#[cfg(loom)]
pub(crate) use loom::{model, model::Builder, thread::spawn};

/// In the crate's own tests: atomics that count what each thread does to them beside reading.
#[cfg(all(test, not(loom)))]
pub(crate) mod counted {
    use std::cell::Cell;
    use std::sync::atomic;

    use super::Ordering;

    /// What a thread has written.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Writes {
        /// Compare-exchanges and other read-modify-writes, failed ones too.
        pub(crate) exchanges: u64,
        pub(crate) stores: u64,
    }

    thread_local! {
        static WRITES: Cell<Writes> = const { Cell::new(Writes { exchanges: 0, stores: 0 }) };
    }

    /// What this thread writes during `work`, and what that returns.
    pub(crate) fn writes_of<T>(work: impl FnOnce() -> T) -> (Writes, T) {
        let before = WRITES.get();
        let done = work();
        let after = WRITES.get();
        let writes =
            Writes { exchanges: after.exchanges - before.exchanges, stores: after.stores - before.stores };
        (writes, done)
    }

    fn exchanges() {
        WRITES.set(Writes { exchanges: WRITES.get().exchanges + 1, ..WRITES.get() });
    }

    /// The standard library's, counted.
    #[repr(transparent)]
    #[derive(Debug, Default)]
    pub(crate) struct AtomicU64(atomic::AtomicU64);

    impl AtomicU64 {
        pub(crate) const fn new(value: u64) -> Self {
            Self(atomic::AtomicU64::new(value))
        }

        pub(crate) fn load(&self, order: Ordering) -> u64 {
            self.0.load(order)
        }

        pub(crate) fn store(&self, value: u64, order: Ordering) {
            WRITES.set(Writes { stores: WRITES.get().stores + 1, ..WRITES.get() });
            self.0.store(value, order);
        }

        pub(crate) fn swap(&self, value: u64, order: Ordering) -> u64 {
            exchanges();
            self.0.swap(value, order)
        }

        pub(crate) fn compare_exchange(
            &self,
            from: u64,
            to: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            exchanges();
            self.0.compare_exchange(from, to, success, failure)
        }

        pub(crate) fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
            exchanges();
            self.0.fetch_add(value, order)
        }

        pub(crate) fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
            exchanges();
            self.0.fetch_sub(value, order)
        }

        pub(crate) fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
            exchanges();
            self.0.fetch_max(value, order)
        }

        pub(crate) fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
            exchanges();
            self.0.fetch_or(value, order)
        }

        pub(crate) fn fetch_update(
            &self,
            success: Ordering,
            failure: Ordering,
            mut update: impl FnMut(u64) -> Option<u64>,
        ) -> Result<u64, u64> {
            self.0.fetch_update(success, failure, |seen| update(seen).inspect(|_| exchanges()))
        }
    }
}
