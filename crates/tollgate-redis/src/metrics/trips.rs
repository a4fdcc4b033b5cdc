//! How long trips to the store take.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The bounds of the times, in microseconds.
const MICROS: [u64; 12] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];

/// The trips to the store, those that failed included. A request whose future was dropped is in
/// none, nor is one that the open breaker kept back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TripCounts {
    /// Trips by how long they took: up to each of [`BOUNDS`](Self::BOUNDS), and longer than the one
    /// before; the last: longer than all.
    pub by_time: [u64; MICROS.len() + 1],
    /// The time of all of them together.
    pub total: Duration,
    /// Trips under way.
    pub in_flight: u64,
}

impl TripCounts {
    /// The bounds of [`by_time`](Self::by_time).
    pub const BOUNDS: [Duration; MICROS.len()] = {
        let (mut bounds, mut n) = ([Duration::ZERO; MICROS.len()], 0);
        while n < bounds.len() {
            bounds[n] = Duration::from_micros(MICROS[n]);
            n += 1;
        }
        bounds
    };
}

/// The trips of a limiter.
#[derive(Debug, Default)]
pub(crate) struct Trips {
    by_time: [AtomicU64; MICROS.len() + 1],
    /// In nanoseconds.
    total: AtomicU64,
    in_flight: AtomicU64,
}

/// A trip under way, until this is dropped.
pub(crate) struct UnderWay<'t>(&'t Trips);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}

impl Trips {
    pub(crate) fn begin(&self) -> UnderWay<'_> {
        self.in_flight.fetch_add(1, Relaxed);
        UnderWay(self)
    }

    /// Counts a trip that has ended.
    pub(crate) fn took(&self, time: Duration) {
        let place = TripCounts::BOUNDS.iter().take_while(|bound| **bound < time).count();
        self.by_time[place].fetch_add(1, Relaxed);
        self.total.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(crate) fn counts(&self) -> TripCounts {
        TripCounts {
            by_time: self.by_time.each_ref().map(|count| count.load(Relaxed)),
            total: Duration::from_nanos(self.total.load(Relaxed)),
            in_flight: self.in_flight.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trip_is_counted_below_its_bound() {
        let trips = Trips::default();
        let under_way = trips.begin();
        for micros in [0, 100, 101, 1_000_000, 1_000_001] {
            trips.took(Duration::from_micros(micros));
        }
        let counts = trips.counts();
        assert_eq!((counts.by_time[..2].to_vec(), &counts.by_time[11..]), (vec![2, 1], &[1, 1][..]));
        assert_eq!((counts.total, counts.in_flight), (Duration::from_micros(2_000_202), 1));
        drop(under_way);
        assert_eq!(trips.counts().in_flight, 0);
    }
}
