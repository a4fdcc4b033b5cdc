//! Threads that work together, with a watchdog.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The longest time in which a crew may finish no operation.
const PATIENCE: Duration = Duration::from_secs(60);

/// A thread of a crew.
pub(crate) struct Worker<'a> {
    /// The number of the thread, from 0.
    pub(crate) number: usize,
    barrier: &'a Barrier,
    done: &'a AtomicU64,
}

impl Worker<'_> {
    /// Waits for all threads of the crew.
    pub(crate) fn meet(&self) {
        self.barrier.wait();
    }

    /// Counts a finished operation.
    pub(crate) fn count_operation(&self) {
        self.done.fetch_add(1, Relaxed);
    }
}

/// Runs `work` on `workers` threads that start together. Ends the process if they make no progress,
/// so that a hanging check does not hang the test.
pub(crate) fn crew<T: Send>(workers: usize, work: impl Fn(Worker<'_>) -> T + Sync) -> Vec<T> {
    let (barrier, done) = (&Barrier::new(workers), &AtomicU64::new(0));
    let (work, (finished, watch)) = (&work, channel::<()>());
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut before = 0;
            while watch.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let now = done.load(Relaxed);
                if now == before {
                    eprintln!("no operation returned for {PATIENCE:?}, after {now} operations");
                    std::process::abort();
                }
                before = now;
            }
        });
        let worker = |number| {
            scope.spawn(move || {
                barrier.wait();
                work(Worker { number, barrier, done })
            })
        };
        let working: Vec<_> = (0..workers).map(worker).collect();
        let results: Vec<_> = working.into_iter().map(thread::ScopedJoinHandle::join).collect();
        drop(finished);
        results
            .into_iter()
            .map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
