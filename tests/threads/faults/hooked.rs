//! A clock at which a test can stop the engine: at one of the next readings something else happens first.

use std::cell::{Cell, RefCell};

use tollgate::{Clock, ManualClock, Timestamp};

type Hook = Box<dyn FnOnce()>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// A manual clock whose readings can be stopped. A hook is its thread's own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hooked(pub(crate) ManualClock);

impl Clock for Hooked {
    fn now(&self) -> Timestamp {
        // What was read is what the stalled thread goes on with.
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

/// Does `work` with `hook` run at the `nth` reading of the clock, counted from 1; says whether it came to that.
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

/// Takes the hook away; says whether it has run.
pub(crate) fn unhook() -> bool {
    LEFT.set(0);
    HOOK.take().is_none()
}
