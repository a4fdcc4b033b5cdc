//! Clocks at whose readings a test can act: in the middle of one verb it runs others, panics, or
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

/// A manual clock with a hook at one of the next readings. Each thread has its own hook.
#[derive(Clone, Debug, Default)]
pub struct Hooked(pub ManualClock);

impl Clock for Hooked {
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
pub fn at_reading<T>(nth: usize, hook: impl FnOnce() + 'static, work: impl FnOnce() -> T) -> (T, bool) {
    HOOK.set(Some(Box::new(hook)));
    READINGS.set(nth);
    let done = work();
    (done, unhook())
}

/// Removes the hook. Says whether it has run.
pub fn unhook() -> bool {
    READINGS.set(0);
    HOOK.take().is_none()
}

/// From now on this thread lets others run at those readings whose bits are set, again and again.
pub fn yield_at(readings: u64) {
    YIELDS.set(readings);
}

/// A clock that stands still, and at which other threads run.
pub struct Yielding;

impl Clock for Yielding {
    fn now(&self) -> Timestamp {
        std::thread::yield_now();
        Timestamp::ZERO
    }
}
