//! The processor's time stamp counter.

use std::time::Duration;

use crate::clock::{Clock, unix_now};
use crate::time::Timestamp;

/// The processor's time stamp counter through [quanta](https://docs.rs/quanta), from zero at its making: the default.
///
/// About 9 ns a reading where the counter is invariant, else the operating system's clock. It is calibrated once (up
/// to 200 ms, the first time in a process) and then trusted: it drifts from the system's clock by the error of that
/// calibration, does not count a suspended machine's sleep, and can jump when a virtual machine migrates. A jump back
/// never mints a token. Where that is not good enough, use [`SystemClock`](crate::SystemClock).
#[derive(Clone, Debug)]
pub struct TscClock {
    clock: quanta::Clock,
    zero: u64,
    /// Nanoseconds in 2^64 ticks.
    scale: u64,
    unix_at_zero: Duration,
}

impl TscClock {
    /// A clock that shows zero now.
    #[must_use]
    pub fn new() -> Self {
        let clock = quanta::Clock::new();
        let zero = clock.raw();
        let scale = clock.delta_as_nanos(0, 1 << 48) << 16;
        Self { clock, zero, scale, unix_at_zero: unix_now() }
    }
}

impl Default for TscClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TscClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let ticks = self.clock.raw().saturating_sub(self.zero);
        Timestamp::from_nanos(((u128::from(ticks) * u128::from(self.scale)) >> 64) as u64)
    }

    fn unix_at_zero(&self) -> Duration {
        self.unix_at_zero
    }
}
