//! The processor's time stamp counter.

use std::time::Duration;

use crate::clock::scale::Scale;
use crate::clock::{Clock, unix_now};
use crate::time::Timestamp;

/// The processor's time stamp counter, through [quanta](https://docs.rs/quanta): the default clock.
/// It shows zero when it is created.
///
/// A reading takes about 9 ns where the counter is invariant; elsewhere it is the operating
/// system's clock. The counter is calibrated once in a process, which takes some 11 ms and up to
/// 210. It then drifts from the system's clock by the error of that calibration, a few parts in a
/// million. It does not count the sleep of a suspended machine, and can jump when a virtual machine
/// migrates. A jump back never mints a token. Where that is not good enough, use
/// [`SystemClock`](crate::SystemClock).
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
        let scale = Scale::of(&clock);
        let zero = clock.raw();
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
        // A branch that is never taken: `saturating_sub` would take two more registers on every
        // check.
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
    fn it_goes_as_fast_as_the_systems_clock() {
        use std::time::Instant;

        const ALLOWED: f64 = 100e-6;
        let clock = TscClock::new();
        // A reading between two readings of the system's clock: the one of a hundred with the least
        // time between those.
        let reading = || {
            let readings = (0..100).map(|_| (Instant::now(), clock.now(), Instant::now()));
            readings.min_by_key(|(before, _, after)| *after - *before).unwrap()
        };
        let undisturbed = (0..20).any(|_| {
            let (outer, begun, inner) = reading();
            std::thread::sleep(Duration::from_millis(20));
            let (shorter, ended, longer) = reading();
            let nanos = |span: Duration| span.as_nanos() as f64;
            let (least, span, most) =
                (nanos(shorter - inner), nanos(ended.saturating_since(begun)), nanos(longer - outer));
            assert!(span > least * (1.0 - ALLOWED) && span < most * (1.0 + ALLOWED), "{least} {span} {most}");
            most - least < least * ALLOWED
        });
        assert!(undisturbed, "never two readings within two microseconds");
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
