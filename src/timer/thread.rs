//! One thread for all sleepers of the process.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::timer::Timer;

/// A timer that needs no async runtime: one thread of the process wakes each sleeper at its time.
///
/// The thread starts with the first sleeper and then stays. Going to sleep takes a lock and an
/// allocation; checks do not come here.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadTimer;

impl Timer for ThreadTimer {
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        Sleep { until: Instant::now().checked_add(duration), ticket: None }
    }
}

struct Sleep {
    /// `None`: it sleeps for ever.
    until: Option<Instant>,
    ticket: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(until) = self.until else { return Poll::Pending };
        if Instant::now() >= until {
            return Poll::Ready(());
        }
        let Some(shared) = Shared::of_the_process() else {
            // No thread could be started: the executor polls the future until its time has come.
            context.waker().wake_by_ref();
            return Poll::Pending;
        };
        let waker = context.waker().clone();
        let mut sleepers = shared.sleepers();
        let ticket = *self.ticket.get_or_insert_with(|| sleepers.next_ticket());
        let earlier = sleepers.wakers.insert((until, ticket), waker);
        let is_first = sleepers.wakers.keys().next() == Some(&(until, ticket));
        drop(sleepers);
        drop(earlier);
        if is_first {
            shared.earlier.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let (Some(until), Some(ticket), Some(shared)) = (self.until, self.ticket, Shared::of_the_process())
        {
            // The waker is dropped at the end of the block, after the lock is released.
            let _waker = shared.sleepers().wakers.remove(&(until, ticket));
        }
    }
}

/// What the timer thread shares with the sleepers.
#[derive(Default)]
struct Shared {
    sleepers: Mutex<Sleepers>,
    /// Notified when a new sleeper wakes before all others.
    earlier: Condvar,
}

#[derive(Default)]
struct Sleepers {
    /// In the order in which they wake.
    wakers: BTreeMap<(Instant, u64), Waker>,
    tickets: u64,
}

impl Sleepers {
    fn next_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Removes the sleepers whose time has come by `now`.
    fn due(&mut self, now: Instant) -> BTreeMap<(Instant, u64), Waker> {
        let later = self.wakers.split_off(&(now, u64::MAX));
        std::mem::replace(&mut self.wakers, later)
    }
}

impl Shared {
    /// Starts the thread on first use. `None` when the operating system refuses a thread.
    fn of_the_process() -> Option<&'static Self> {
        static SHARED: OnceLock<Shared> = OnceLock::new();
        static IS_RUNNING: OnceLock<bool> = OnceLock::new();
        let shared = SHARED.get_or_init(Self::default);
        let spawn = || thread::Builder::new().name("tollgate-timer".into()).spawn(|| shared.run());
        IS_RUNNING.get_or_init(|| spawn().is_ok()).then_some(shared)
    }

    fn sleepers(&self) -> MutexGuard<'_, Sleepers> {
        // No waker is cloned, woken or dropped under the lock: it may own a future that sleeps
        // here as well, and take the lock again.
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut sleepers = self.sleepers();
        loop {
            let now = Instant::now();
            let due = sleepers.due(now);
            if !due.is_empty() {
                drop(sleepers);
                for waker in due.into_values() {
                    wake(waker);
                }
                sleepers = self.sleepers();
                continue;
            }
            let next = sleepers.wakers.keys().next().map(|&(until, _)| until.saturating_duration_since(now));
            sleepers = match next {
                Some(wait) => {
                    self.earlier.wait_timeout(sleepers, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.earlier.wait(sleepers).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// Wakes one sleeper. A waker that panics must not end the thread that all sleepers share.
fn wake(waker: Waker) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) else { return };
    // The payload's destructor is the user's code, too, and may panic. What that panic carries is
    // leaked: dropping it could panic once more.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}
