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
    scale: Scale,
    unix_at_zero: Duration,
}

impl TscClock {
    /// A clock that shows zero now.
    #[must_use]
    pub fn new() -> Self {
        let clock = quanta::Clock::new();
        let zero = clock.raw();
        let scale = Scale::new(clock.delta_as_nanos(0, CALIBRATION));
        Self { clock, zero, scale, unix_at_zero: unix_now() }
    }
}

/// Ticks that calibrate the scale: more makes it finer, less leaves room for slow counters (down to 16 kHz).
const CALIBRATION: u64 = 1 << 48;

/// Nanoseconds a tick.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// 0 for counters of more than 1 GHz.
    whole: u64,
    /// In units of `2^-64`.
    fraction: u64,
}

impl Scale {
    /// The scale of a counter that takes `nanos` for `CALIBRATION` ticks.
    fn new(nanos: u64) -> Self {
        Self { whole: nanos / CALIBRATION, fraction: nanos % CALIBRATION * (u64::MAX / CALIBRATION + 1) }
    }

    #[inline]
    fn nanos(&self, ticks: u64) -> u64 {
        let part = ((u128::from(ticks) * u128::from(self.fraction)) >> 64) as u64;
        if self.whole == 0 { part } else { part.saturating_add(ticks.saturating_mul(self.whole)) }
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
        // A branch that is never taken, where `saturating_sub` would be two more registers on every check.
        match self.clock.raw().checked_sub(self.zero) {
            Some(ticks) => Timestamp::from_nanos(self.scale.nanos(ticks)),
            None => before_zero(),
        }
    }

    fn unix_at_zero(&self) -> Duration {
        self.unix_at_zero
    }

    fn unix_now(&self) -> Duration {
        unix_now()
    }
}

/// The counter stepped back behind the clock's zero.
#[cold]
fn before_zero() -> Timestamp {
    Timestamp::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_and_fast_counters_are_scaled_to_nanoseconds() {
        const YEAR: u64 = 31_557_600;
        for (hertz, nanos_a_tick) in
            [(24_000_000, 1_000.0 / 24.0), (1_000_000_000, 1.0), (3_000_000_000, 1.0 / 3.0)]
        {
            let scale = Scale::new((CALIBRATION as f64 * nanos_a_tick) as u64);
            let year = scale.nanos(YEAR * hertz) as f64;
            assert!((year / (YEAR as f64 * 1e9) - 1.0).abs() < 1e-9, "{hertz} Hz: {year} ns");
        }
    }

    #[test]
    fn it_moves() {
        let clock = TscClock::new();
        let begun = clock.now();
        while clock.now() <= begun {
            std::hint::spin_loop();
        }
    }
}
