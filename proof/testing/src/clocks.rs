//! Clocks at whose readings a test can act: in the middle of one verb it runs others, panics, or
//! lets other threads run. And one whose Unix time is set.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
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

/// A manual clock of a machine whose Unix time is set while it runs. Clones share all.
#[derive(Clone, Debug)]
pub struct UnixSet {
    /// The clock itself.
    pub manual: ManualClock,
    unix_at_zero: Arc<AtomicU64>,
}

impl UnixSet {
    /// A clock that shows zero, which is this Unix time in nanoseconds.
    pub fn new(unix_at_zero: u64) -> Self {
        let manual = ManualClock::starting_at(Duration::from_nanos(unix_at_zero));
        Self { manual, unix_at_zero: Arc::new(unix_at_zero.into()) }
    }

    /// From now on the machine knows that this is the Unix time of the clock's zero.
    pub fn set_unix_at_zero(&self, nanos: u64) {
        self.unix_at_zero.store(nanos, Relaxed);
    }

    /// What the machine knows now.
    pub fn unix_at_zero_now(&self) -> u64 {
        self.unix_at_zero.load(Relaxed)
    }

    /// The clock of a process that is started now: it shows the same, and knows the Unix time.
    #[must_use]
    pub fn restarted(&self) -> Self {
        let next = Self::new(self.unix_at_zero_now());
        next.manual.set(self.now());
        next
    }
}

impl Clock for UnixSet {
    fn now(&self) -> Timestamp {
        self.manual.now()
    }

    /// As it was known at first, as by the clocks that run by themselves.
    fn unix_at_zero(&self) -> Duration {
        self.manual.unix_at_zero()
    }

    fn unix_now(&self) -> Duration {
        Duration::from_nanos(self.unix_at_zero_now().saturating_add(self.now().as_nanos()))
    }
}
