//! Clocks: where a limiter takes its time from.

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
/// A clock should not step back, but nothing breaks if it does. A key's word keeps the latest time
/// that the key has seen, and an earlier reading counts as that time: it **never mints a token**.
/// If a clock jumps ahead, that time has passed: buckets fill, windows end.
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
    /// The current time. Called once for a check, once more for a key that is new, and once for a
    /// whole [batch](crate::Limiter::check_many).
    fn now(&self) -> Timestamp;

    /// Blocks the thread until the clock shows `when`.
    ///
    /// By default it sleeps in real time for as long as the clock has to go, and looks again.
    fn sleep_until(&self, when: Timestamp) {
        loop {
            let missing = when.saturating_since(self.now());
            if missing.is_zero() {
                return;
            }
            std::thread::sleep(missing);
        }
    }

    /// The Unix time at [`Timestamp::ZERO`]: aligned windows begin at Unix times that are multiples
    /// of their period.
    ///
    /// Read once, when a limiter is built; [`realign`](crate::Limiter::realign) tells it another
    /// one. Zero by default: windows then align to the clock's zero.
    fn unix_at_zero(&self) -> Duration {
        Duration::ZERO
    }

    /// The current Unix time. It tells how much time passes between a save and a restore.
    ///
    /// Read once when a limiter is [saved](crate::Limiter::save) and once when it is
    /// [restored](crate::Builder::restore). By default it is `unix_at_zero` and the time since
    /// then. The clocks of this crate that run by themselves ask the operating system, whose Unix
    /// time may have been corrected in between.
    fn unix_now(&self) -> Duration {
        self.unix_at_zero().saturating_add(self.now().saturating_since(Timestamp::ZERO))
    }
}

macro_rules! held {
    ($($held:ty),*) => {$(
        impl<C: Clock + ?Sized> Clock for $held {
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
    )*};
}
held!(&C, Box<C>, std::sync::Arc<C>);

/// The Unix time now; zero when the system's clock is set before 1970.
#[cfg(not(loom))]
fn unix_now() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}
