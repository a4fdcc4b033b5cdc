//! A manual clock at whose readings the test can act: in the middle of one verb it runs others, or
//! lets other threads run.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use tollgate::{Clock, ManualClock, Timestamp};

type Hook = Box<dyn FnOnce()>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    static READINGS: Cell<usize> = const { Cell::new(0) };
    static YIELDS: Cell<u64> = const { Cell::new(0) };
}

/// A clock that a thread can interrupt at its own readings.
#[derive(Clone, Debug)]
pub(crate) struct Interrupted(pub(crate) ManualClock);

impl Clock for Interrupted {
    fn now(&self) -> Timestamp {
        // The engine goes on with the time that was read before the interruption.
        let now = self.0.now();
        let left = READINGS.get();
        if left > 0 {
            READINGS.set(left - 1);
            if left == 1
                && let Some(hook) = HOOK.take()
            {
                hook();
            }
        }
        let yields = YIELDS.get();
        if yields != 0 {
            YIELDS.set(yields.rotate_left(1));
            if yields & 1 == 1 {
                std::thread::yield_now();
            }
        }
        now
    }

    fn unix_at_zero(&self) -> Duration {
        self.0.unix_at_zero()
    }
}

/// Runs `work`, and `hook` at the `nth` reading of the clock in it, counted from 1. Says whether
/// the hook ran.
pub(crate) fn interrupted<T>(
    nth: usize,
    hook: impl FnOnce() + 'static,
    work: impl FnOnce() -> T,
) -> (T, bool) {
    HOOK.set(Some(Box::new(hook)));
    READINGS.set(nth);
    let done = work();
    READINGS.set(0);
    (done, HOOK.take().is_none())
}

/// From now on this thread lets others run at those readings whose bits are set, again and again.
pub(crate) fn yield_at(readings: u64) {
    YIELDS.set(readings);
}
