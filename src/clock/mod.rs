//! Where the time comes from.

#[cfg(not(loom))]
mod coarse;
mod manual;
#[cfg(not(loom))]
mod scale;
#[cfg(not(loom))]
mod system;
#[cfg(not(loom))]
mod tsc;

use std::time::Duration;

use crate::time::Timestamp;

#[cfg(not(loom))]
pub use coarse::CoarseClock;
pub use manual::ManualClock;
#[cfg(not(loom))]
pub use system::SystemClock;
#[cfg(not(loom))]
pub use tsc::TscClock;

/// Under loom time moves only when a model moves it.
#[cfg(loom)]
pub use manual::ManualClock as TscClock;

/// A source of time for a limiter.
///
/// A clock should not step back, but nothing breaks when one does: a key's own word is the floor of its time, so an
/// earlier reading is treated as the latest one that the key has seen, and **never mints a token**. A clock that
/// jumps ahead makes time pass: buckets fill, windows end.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Clock, Timestamp};
///
/// /// A clock for a simulation in whole seconds.
/// struct Seconds(std::cell::Cell<u64>);
///
/// impl Clock for Seconds {
///     fn now(&self) -> Timestamp {
///         Timestamp::ZERO + Duration::from_secs(self.0.get())
///     }
/// }
/// ```
pub trait Clock {
    /// The current time. Called once a check, and once more for a key that is new; once a
    /// [batch](crate::Limiter::check_many), whatever its keys.
    fn now(&self) -> Timestamp;

    /// Blocks the thread until the clock shows `when`.
    ///
    /// Unless the clock says otherwise, it sleeps for what is missing in real time and looks again.
    fn sleep_until(&self, when: Timestamp) {
        loop {
            let missing = when.saturating_since(self.now());
            if missing.is_zero() {
                return;
            }
            std::thread::sleep(missing);
        }
    }

    /// The Unix time at [`Timestamp::ZERO`]: aligned windows begin at multiples of their period of Unix time.
    ///
    /// Read once, when a limiter is built. Zero unless the clock says otherwise: then windows align to its own zero.
    fn unix_at_zero(&self) -> Duration {
        Duration::ZERO
    }

    /// The Unix time at which the clock shows what it shows now. It tells how long a saved limiter was away.
    ///
    /// Read once when a limiter is [saved](crate::Limiter::save) and once when it is
    /// [restored](crate::Builder::restore). Unless the clock says otherwise, what it has counted since its zero; the
    /// clocks of this crate that run by themselves ask the operating system, which may have been corrected since.
    fn unix_now(&self) -> Duration {
        self.unix_at_zero().saturating_add(self.now().saturating_since(Timestamp::ZERO))
    }
}

impl<C: Clock + ?Sized> Clock for &C {
    #[inline]
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn sleep_until(&self, when: Timestamp) {
        (**self).sleep_until(when);
    }

    fn unix_at_zero(&self) -> Duration {
        (**self).unix_at_zero()
    }

    fn unix_now(&self) -> Duration {
        (**self).unix_now()
    }
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn sleep_until(&self, when: Timestamp) {
        (**self).sleep_until(when);
    }

    fn unix_at_zero(&self) -> Duration {
        (**self).unix_at_zero()
    }

    fn unix_now(&self) -> Duration {
        (**self).unix_now()
    }
}

/// The Unix time now; zero when the system's clock is set before 1970.
#[cfg(not(loom))]
fn unix_now() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}
