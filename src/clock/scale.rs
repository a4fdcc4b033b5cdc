//! The length of a tick of the processor's counter.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Nanoseconds a tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// 0 for counters of more than 1 GHz.
    whole: u64,
    /// In units of `2^-64`.
    fraction: u64,
}

/// The number of ticks whose length defines a scale. More makes it finer; fewer leaves room for
/// slow counters (down to 16 kHz).
const TICKS: u64 = 1 << 48;

/// How long the counter is watched. A reading is off by some ten nanoseconds, so the scale is exact
/// to a few parts in a million.
const SPAN: Duration = Duration::from_millis(10);

/// Readings at either end. The one that took the least time counts.
const READINGS: usize = 64;

impl Scale {
    /// The scale of the clock's counter, measured against the system's clock once in a process.
    ///
    /// quanta's own scale is not used: its measurement ends as soon as its samples agree, after
    /// half a millisecond. In about one process of a thousand it is 200 parts in a million wrong,
    /// for as long as the process runs (`docs/proof/found.md`).
    pub(super) fn of(clock: &quanta::Clock) -> Self {
        static MEASURED: OnceLock<Scale> = OnceLock::new();
        let quantas = clock.delta_as_nanos(0, TICKS);
        if quantas == TICKS {
            return Self::new(TICKS); // No counter: the system's clock itself, in nanoseconds.
        }
        *MEASURED.get_or_init(|| Self::new(measured(clock).unwrap_or(quantas)))
    }

    /// The scale of a counter that takes `nanos` for [`TICKS`].
    fn new(nanos: u64) -> Self {
        Self { whole: nanos / TICKS, fraction: nanos % TICKS * (u64::MAX / TICKS + 1) }
    }

    #[inline]
    pub(super) fn nanos(&self, ticks: u64) -> u64 {
        let part = ((u128::from(ticks) * u128::from(self.fraction)) >> 64) as u64;
        if self.whole == 0 { part } else { part.saturating_add(ticks.saturating_mul(self.whole)) }
    }
}

/// The nanoseconds of [`TICKS`] ticks. `None` if the counter stands still or steps back meanwhile.
fn measured(clock: &quanta::Clock) -> Option<u64> {
    let (first_ticks, first) = reading(clock);
    std::thread::sleep(SPAN);
    let (last_ticks, last) = reading(clock);
    let ticks = last_ticks.checked_sub(first_ticks)?;
    let nanos = last.duration_since(first).as_nanos() * u128::from(TICKS);
    u64::try_from(nanos.checked_div(u128::from(ticks))?).ok()
}

/// The counter and the system's clock at one instant: the pair that was read in the fewest ticks.
fn reading(clock: &quanta::Clock) -> (u64, Instant) {
    let bracketed = |_| {
        let before = clock.raw();
        let time = Instant::now();
        let took = clock.raw().saturating_sub(before);
        (took, before + took / 2, time)
    };
    let least = (0..READINGS).map(bracketed).min_by_key(|(took, ..)| *took);
    least.map_or_else(|| (clock.raw(), Instant::now()), |(_, ticks, time)| (ticks, time))
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
            let scale = Scale::new((TICKS as f64 * nanos_a_tick) as u64);
            let year = scale.nanos(YEAR * hertz) as f64;
            assert!((year / (YEAR as f64 * 1e9) - 1.0).abs() < 1e-9, "{hertz} Hz: {year} ns");
        }
    }

    #[test]
    fn two_measurements_agree() {
        let clock = quanta::Clock::new();
        let lengths: Vec<f64> = (0..5).filter_map(|_| measured(&clock)).map(|nanos| nanos as f64).collect();
        let closest = lengths.windows(2).map(|pair| (pair[0] / pair[1] - 1.0).abs()).fold(1.0, f64::min);
        assert!(closest < 20e-6, "{lengths:?}");
    }
}
