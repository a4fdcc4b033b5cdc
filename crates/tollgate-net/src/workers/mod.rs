//! The threads that serve connections, each with a runtime of its own.
//!
//! A connection stays on its thread from the first byte to the last. Where threads share a runtime,
//! they wake each other to take over work, which costs a system call and the cache. What a thread
//! changes at every request it has for itself, by [`PerWorker`].

mod beside;
mod each;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use beside::beside;
pub use each::PerWorker;

/// A connection that ends within this time is short.
pub(crate) const SHORT: Duration = Duration::from_millis(1);

/// How many more of them than another a thread may have before the next one is for that.
const SHORT_ONES: usize = 16;

/// How many more short ones are expected after one that ended.
const AFTER_SHORT: usize = 2;

/// The threads. They end when this is dropped, with what they still serve.
pub struct Workers {
    all: Box<[Worker]>,
    /// Where the next choice begins: equals take turns.
    turn: AtomicUsize,
    _ends: DropGuard,
}

/// One of the threads.
#[derive(Clone)]
pub struct Worker {
    pub(crate) runtime: Handle,
    served: Arc<Served>,
}

/// The connections of a thread.
#[derive(Debug, Default)]
struct Served {
    now: AtomicUsize,
    /// How many more short ones are expected: more with each that ends, fewer with each that
    /// begins, so that those that stay are soon seen as such.
    short: AtomicUsize,
}

/// How many connections a thread has more than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    None,
    /// So many that the next ones are for another, unless some end soon.
    Short,
    /// So many that the next one is for another.
    Long,
}

/// Counts a connection until it is dropped.
pub(crate) struct Seat {
    served: Arc<Served>,
    since: Instant,
}

impl Workers {
    /// Starts so many threads.
    pub fn start(count: usize) -> io::Result<Self> {
        let ends = CancellationToken::new();
        // If one does not start, the others end.
        let guard = ends.clone().drop_guard();
        let start = |number| Worker::start(number, ends.clone());
        let all = (0..count).map(start).collect::<io::Result<_>>()?;
        Ok(Self { all, turn: AtomicUsize::new(0), _ends: guard })
    }

    /// How far a thread is ahead of the one with the fewest connections.
    pub(crate) fn lead(&self, worker: &Worker) -> Lead {
        let connections = |worker: &Worker| worker.served.now.load(Relaxed);
        let (own, fewest) = (connections(worker), self.all.iter().map(connections).min().unwrap_or_default());
        // Short ones do not stay, and to change threads costs more than to serve one.
        let more = worker.served.short.load(Relaxed).max(1);
        match own {
            _ if own > fewest + fewest / 2 + more => Lead::Long,
            _ if own > fewest => Lead::Short,
            _ => Lead::None,
        }
    }

    /// Waits until each of the threads has taken up a task.
    pub(crate) async fn take_turns(&self) {
        for worker in &self.all {
            // An error: the thread has ended.
            let _ = worker.runtime.spawn(async {}).await;
        }
    }

    /// The thread with the fewest connections; `None` without threads.
    pub(crate) fn choose(&self) -> Option<&Worker> {
        let turn = self.turn.fetch_add(1, Relaxed);
        let in_turn = (0..self.all.len()).map(|at| &self.all[turn.wrapping_add(at) % self.all.len()]);
        in_turn.min_by_key(|worker| worker.served.now.load(Relaxed))
    }
}

impl Worker {
    fn start(number: usize, ends: CancellationToken) -> io::Result<Self> {
        let (tell, told) = mpsc::channel();
        // The thread makes the runtime, which may not be dropped by a task of another one.
        thread::Builder::new().name(format!("tollgate-{number}")).spawn(move || {
            each::set_number(number);
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(tell.send(Err(error))),
            };
            if tell.send(Ok(runtime.handle().clone())).is_ok() {
                runtime.block_on(ends.cancelled());
            }
            runtime.shutdown_background();
        })?;
        let runtime = told.recv().map_err(io::Error::other)??;
        Ok(Self { runtime, served: Arc::default() })
    }

    /// Counts a connection as one that it serves.
    pub(crate) fn seat(&self) -> Seat {
        self.served.now.fetch_add(1, Relaxed);
        self.served.expect(|short| short.saturating_sub(1));
        Seat { served: Arc::clone(&self.served), since: Instant::now() }
    }
}

impl Served {
    fn expect(&self, change: impl Fn(usize) -> usize) {
        // Always `Ok`: the change is not refused.
        let _ = self.short.fetch_update(Relaxed, Relaxed, |short| Some(change(short)));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let was_short = self.since.elapsed() < SHORT;
        self.served.expect(|short| if was_short { (short + AFTER_SHORT).min(SHORT_ONES) } else { 0 });
        self.served.now.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_thread_with_the_fewest_is_chosen() {
        let workers = Workers::start(3).unwrap();
        let _seats = [&workers.all[0], &workers.all[0], &workers.all[2]].map(Worker::seat);
        for _ in 0..6 {
            assert!(Arc::ptr_eq(&workers.choose().unwrap().served, &workers.all[1].served));
        }
        assert!(Workers::start(0).unwrap().choose().is_none());
    }

    #[test]
    fn short_connections_may_be_more_on_one_thread() {
        let workers = Workers::start(2).unwrap();
        let one = &workers.all[0];
        let lead_of = |count: usize| {
            let _seats: Vec<_> = (0..count).map(|_| one.seat()).collect();
            workers.lead(one)
        };
        let ended_after = |time: Duration| {
            let mut seat = one.seat();
            seat.since = seat.since.checked_sub(time).unwrap();
        };
        ended_after(SHORT);
        assert_eq!(lead_of(0), Lead::None);
        ended_after(SHORT);
        assert_eq!(lead_of(1), Lead::Short);
        ended_after(SHORT);
        assert_eq!(lead_of(2), Lead::Long);
        for (count, lead) in [(1, Lead::Short), (16, Lead::Short), (17, Lead::Long)] {
            let seats: Vec<_> = (0..count).map(|_| one.seat()).collect();
            one.served.short.store(SHORT_ONES, Relaxed);
            assert_eq!(workers.lead(one), lead, "{count}");
            drop(seats);
        }
    }

    #[test]
    fn few_more_are_expected_after_one_short_connection() {
        let workers = Workers::start(2).unwrap();
        let one = &workers.all[0];
        drop(one.seat());
        let mut seats = Vec::new();
        while workers.lead(one) != Lead::Long {
            seats.push(one.seat());
        }
        assert_eq!(seats.len(), 2);
        drop(seats);
        for _ in 0..20 {
            drop(one.seat());
        }
        let expected = || one.served.short.load(Relaxed);
        assert_eq!(expected(), SHORT_ONES);
        let mut long = one.seat();
        long.since = long.since.checked_sub(SHORT).unwrap();
        drop(long);
        assert_eq!(expected(), 0);
    }

    #[test]
    fn a_thread_that_hangs_takes_no_turn() {
        let workers = Workers::start(2).unwrap();
        let (go, goes) = mpsc::channel::<()>();
        workers.all[1].runtime.spawn(async move { goes.recv() });
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let turns = |time| runtime.block_on(async { tokio::time::timeout(time, workers.take_turns()).await });
        assert!(turns(Duration::from_millis(100)).is_err());
        go.send(()).unwrap();
        assert!(turns(Duration::from_secs(20)).is_ok());
    }

    #[test]
    fn threads_end_with_what_they_serve() {
        let workers = Workers::start(2).unwrap();
        let served = Arc::new(());
        for worker in &workers.all {
            let served = Arc::clone(&served);
            worker.runtime.spawn(async move {
                std::future::pending::<()>().await;
                drop(served);
            });
        }
        drop(workers);
        let begun = Instant::now();
        while Arc::strong_count(&served) > 1 {
            assert!(begun.elapsed() < Duration::from_secs(20), "the threads go on");
            thread::sleep(Duration::from_millis(5));
        }
    }
}
