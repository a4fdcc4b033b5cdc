//! How many permits the next trip asks for: a pure rule.
//!
//! Permits that are spent at a pace at which all are spent within half of their ttl double the
//! next number, so twice as many are still spent within the ttl. Permits that lapse halve it. A
//! grant of fewer brings it down to the grant, a refusal or a failure to 1.

use std::time::Duration;

/// All nodes together hold at most one part of so many of the limit.
const SHARE: u64 = 4;

/// More permits at once would save nothing: a trip for a million requests costs none of them
/// anything.
pub(crate) const MOST: u64 = 1 << 20;

/// From this number on, permits are asked for when half of the last ones are spent.
const AHEAD: u64 = 8;

/// The number of permits of the next trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    size: u64,
    most: u64,
    /// When the last permits were asked for, and how many were granted.
    last: Option<(Duration, u64)>,
}

impl Pace {
    /// Begins with 1. No trip asks for more than this node's share: `limit / (4 * nodes)`, and
    /// at least 1.
    pub(crate) fn new(limit: u64, nodes: u32) -> Self {
        let most = (limit / (SHARE * u64::from(nodes.max(1)))).clamp(1, MOST);
        Self { size: 1, most, last: None }
    }

    /// How many permits to ask for now, when `left` of the last ones are not spent.
    pub(crate) fn next(&mut self, now: Duration, ttl: Duration, left: u64) -> u64 {
        if let Some((sent, size)) = self.last.take() {
            let (age, spent) = (now.saturating_sub(sent).as_nanos(), size.saturating_sub(left));
            if 2 * age * u128::from(size) <= ttl.as_nanos() * u128::from(spent) {
                self.size = (2 * self.size).min(self.most);
            }
        }
        self.size
    }

    /// Whether permits are asked for when half of the last `size` are spent.
    pub(crate) fn asks_ahead(&self, size: u64) -> bool {
        size >= AHEAD && self.size >= AHEAD
    }

    /// Permits were asked for at `sent`, and `granted` of them were there.
    pub(crate) fn granted(&mut self, sent: Duration, asked: u64, granted: u64) {
        if granted < asked {
            self.size = self.size.min(granted).max(1);
        }
        self.last = Some((sent, granted));
    }

    /// The ttl ended before all permits were spent.
    pub(crate) fn lapsed(&mut self) {
        (self.size, self.last) = ((self.size / 2).max(1), None);
    }

    /// Not one permit was there, or the store did not answer.
    pub(crate) fn refused(&mut self) {
        (self.size, self.last) = (1, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_millis(50);

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// The numbers of trips whose permits are all spent after so many milliseconds.
    fn sizes(pace: &mut Pace, after: &[u64]) -> Vec<u64> {
        let mut now = Duration::ZERO;
        let size = |after: &u64| {
            let size = pace.next(now, TTL, 0);
            pace.granted(now, size, size);
            now += ms(*after);
            size
        };
        after.iter().map(size).collect()
    }

    #[test]
    fn permits_spent_in_half_the_ttl_double() {
        assert_eq!(sizes(&mut Pace::new(1_000, 1), &[25, 25, 26, 1, 1]), [1, 2, 4, 4, 8]);
    }

    #[test]
    fn a_trip_asks_for_a_quarter_of_the_nodes_share() {
        for (limit, nodes, most) in [(1_000, 1, 250), (1_000, 3, 83), (7, 2, 1), (u64::MAX, 1, MOST)] {
            let sizes = sizes(&mut Pace::new(limit, nodes), &[1; 40]);
            assert_eq!(sizes.iter().max(), Some(&most), "{limit} for {nodes}");
        }
    }

    #[test]
    fn lapses_halve_grants_cut_refusals_end() {
        let mut pace = Pace::new(1_000, 1);
        sizes(&mut pace, &[1; 7]);
        pace.lapsed();
        assert_eq!(pace.next(ms(9), TTL, 0), 32);
        pace.granted(ms(9), 32, 5);
        assert_eq!(pace.next(ms(50), TTL, 0), 5, "not spent in half of the ttl");
        pace.refused();
        assert_eq!(pace.next(ms(60), TTL, 0), 1);
    }

    #[test]
    fn permits_are_asked_for_ahead_when_half_are_spent() {
        let mut pace = Pace::new(1_000, 1);
        assert!(!pace.asks_ahead(16), "not while there are few");
        sizes(&mut pace, &[1; 5]);
        assert!(pace.asks_ahead(16) && !pace.asks_ahead(2));
        // 8 of 16 in a quarter of the ttl: all in half of it.
        pace.granted(ms(100), 16, 16);
        assert_eq!(pace.next(ms(112), TTL, 8), 32);
        pace.granted(ms(200), 32, 32);
        assert_eq!(pace.next(ms(213), TTL, 16), 32);
    }
}
