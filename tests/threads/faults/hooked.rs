//! A clock at which a test can interrupt the engine: a hook runs at one of the next readings.

use std::cell::{Cell, RefCell};

use tollgate::{Clock, ManualClock, Timestamp};

type Hook = Box<dyn FnOnce()>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// A manual clock with a hook. Each thread has its own hook.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hooked(pub(crate) ManualClock);

impl Clock for Hooked {
    fn now(&self) -> Timestamp {
        // The stalled thread continues with the time that it has read.
        let now = self.0.now();
        if LEFT.get() > 0 {
            LEFT.set(LEFT.get() - 1);
            if LEFT.get() == 0
                && let Some(hook) = HOOK.take()
            {
                hook();
            }
        }
        now
    }
}

/// Runs `work`, with `hook` at the `nth` reading of the clock, counted from 1. Returns whether the
/// hook ran.
pub(crate) fn at_reading<T>(
    nth: usize,
    hook: impl FnOnce() + 'static,
    work: impl FnOnce() -> T,
) -> (T, bool) {
    HOOK.set(Some(Box::new(hook)));
    LEFT.set(nth);
    let done = work();
    (done, unhook())
}

/// Removes the hook. Returns whether it has run.
pub(crate) fn unhook() -> bool {
    LEFT.set(0);
    HOOK.take().is_none()
}
