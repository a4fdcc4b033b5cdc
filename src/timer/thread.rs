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
/// The thread starts with the first sleeper and then stays. Going to sleep takes a lock and an allocation; checks do
/// not come here.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadTimer;

impl Timer for ThreadTimer {
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        Sleep { until: Instant::now().checked_add(duration), ticket: None }
    }
}

struct Sleep {
    /// `None`: for ever.
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
        let Some(bell) = Bell::of_the_process() else {
            // Without a thread to wake it, the future is asked again and again: late never, idle neither.
            context.waker().wake_by_ref();
            return Poll::Pending;
        };
        let waker = context.waker().clone();
        let mut sleepers = bell.sleepers();
        let ticket = *self.ticket.get_or_insert_with(|| sleepers.next_ticket());
        let earlier = sleepers.wakers.insert((until, ticket), waker);
        let is_first = sleepers.wakers.keys().next() == Some(&(until, ticket));
        drop(sleepers);
        drop(earlier);
        if is_first {
            bell.earlier.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let (Some(until), Some(ticket), Some(bell)) = (self.until, self.ticket, Bell::of_the_process()) {
            // Dropped at the end of the block, when the lock has been let go.
            let _waker = bell.sleepers().wakers.remove(&(until, ticket));
        }
    }
}

/// The sleepers in the order in which they wake, and the thread that wakes them.
#[derive(Default)]
struct Bell {
    sleepers: Mutex<Sleepers>,
    /// Somebody wakes earlier than the thread knew.
    earlier: Condvar,
}

#[derive(Default)]
struct Sleepers {
    wakers: BTreeMap<(Instant, u64), Waker>,
    tickets: u64,
}

impl Sleepers {
    fn next_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Takes out who is to wake by `now`.
    fn due(&mut self, now: Instant) -> BTreeMap<(Instant, u64), Waker> {
        let later = self.wakers.split_off(&(now, u64::MAX));
        std::mem::replace(&mut self.wakers, later)
    }
}

impl Bell {
    /// `None` when the operating system has no thread for it.
    fn of_the_process() -> Option<&'static Self> {
        static BELL: OnceLock<Bell> = OnceLock::new();
        static RINGS: OnceLock<bool> = OnceLock::new();
        let bell = BELL.get_or_init(Self::default);
        let ringer = || thread::Builder::new().name("tollgate-timer".into()).spawn(|| bell.ring());
        RINGS.get_or_init(|| ringer().is_ok()).then_some(bell)
    }

    fn sleepers(&self) -> MutexGuard<'_, Sleepers> {
        // No code of a user's runs under the lock: a waker may own a future that sleeps here, too.
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        let mut sleepers = self.sleepers();
        loop {
            let now = Instant::now();
            let due = sleepers.due(now);
            if !due.is_empty() {
                drop(sleepers);
                for waker in due.into_values() {
                    // One that panics must not leave the others asleep.
                    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
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
