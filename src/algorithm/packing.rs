//! How the counts of several windows share a word with the number of the window.
//!
//! ```text
//!   61        .           .          .        .          0
//!  +-----------+-----------+----------+--------+----------+
//!  |  window   |  current  |  last    |  ...   |  oldest  |
//!  +-----------+-----------+----------+--------+----------+
//! ```
//!
//! The current count is always exact. Closed counts are exact while the limit lets them fit. For a
//! very large limit on a very short window they are kept in *granules*, rounded up: a little is
//! refused too early, nothing is admitted too much.

use std::ops::RangeInclusive;

use crate::algorithm::Verdict::{self, Deny, DenyAndCount};
use crate::algorithm::{CountPolicy, Payload, Refund};
use crate::bits::{Field, bits};

/// All closed windows together may be overstated by at most this share of the limit.
const COARSEST: u64 = 8;

/// The widths of the counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    pub(crate) index: Field,
    current: Field,
    /// The count of the oldest closed window. The others lie above it, each as wide.
    oldest: Field,
    pub(super) closed: u32,
    /// Closed counts are multiples of this, rounded up. 1: exact.
    pub(crate) granule: u64,
    /// Where counts stop.
    pub(crate) ceiling: u64,
}

impl Packing {
    /// A limit below `below` that [fits](Self::fit), the largest but for the errors of granules. 0:
    /// there is none.
    pub(crate) fn most(index: Field, closed: u32, below: u64, count: CountPolicy) -> u64 {
        (0..64).rev().fold(0, |found, bit| {
            let larger = found | (1 << bit);
            let fits = larger < below && Self::fit(index, closed, larger, count).is_some();
            if fits { larger } else { found }
        })
    }

    /// Room below `index` for the current count and `closed` others, each at most `limit`.
    pub(crate) fn fit(index: Field, closed: u32, limit: u64, count: CountPolicy) -> Option<Self> {
        let room = index.start();
        // `CountPolicy::All` counts beyond the limit: at least to twice it, further where there is
        // room.
        let needed = match count {
            CountPolicy::Allowed => limit,
            CountPolicy::All => limit.checked_mul(2)?,
        };
        if needed == 0 || bits(needed) >= room {
            return None;
        }
        let even = room / (closed + 1);
        let (current_width, closed_width) = if bits(needed) <= even {
            (room - even * closed, even)
        } else {
            (bits(needed), (room - bits(needed)) / closed)
        };
        let exact = closed_width >= bits(needed);
        let ceiling = if exact { (1 << closed_width) - 1 } else { needed };
        let most = Field::lowest(closed_width).max();
        if most == 0 {
            return None;
        }
        let granule = ceiling.div_ceil(most);
        if (granule - 1).saturating_mul(closed.into()) > limit / COARSEST {
            return None;
        }
        let current = Field::lowest(closed_width * closed).above(current_width);
        let oldest = Field::lowest(closed_width);
        Some(Self { index, current, oldest, closed, granule, ceiling })
    }

    /// The limits that this packing can count: large enough for the granule, small enough for the
    /// counts. A packing for the largest of them is the same one.
    pub(crate) fn limits(&self, count: CountPolicy) -> RangeInclusive<u64> {
        let least = (self.granule - 1).saturating_mul(self.closed.into()).saturating_mul(COARSEST);
        let most = if count == CountPolicy::All { self.ceiling / 2 } else { self.ceiling };
        least.max(1)..=most
    }

    fn closed_field(&self, age: u32) -> Field {
        let width = self.oldest.end();
        Field::lowest(width * (self.closed - age)).above(width)
    }

    /// The current count.
    #[inline]
    pub(crate) fn current(&self, payload: u64) -> u64 {
        self.current.get(payload)
    }

    /// The count of the oldest window.
    #[inline]
    pub(crate) fn oldest(&self, payload: u64) -> u64 {
        (self.oldest.get(payload) * self.granule).min(self.ceiling)
    }

    /// The count of the window `age` before the current one, 1 being the last.
    #[inline]
    pub(crate) fn closed(&self, payload: u64, age: u32) -> u64 {
        (self.closed_field(age).get(payload) * self.granule).min(self.ceiling)
    }

    /// `payload` with the current count set to `count`.
    #[inline]
    pub(crate) fn with_current(&self, payload: u64, count: u64) -> u64 {
        self.current.set(payload, count)
    }

    /// `payload` after window `index` has begun. Unchanged when `index` is not later than its own.
    #[inline]
    pub(crate) fn rotated(&self, payload: u64, index: u64) -> u64 {
        let steps = index.saturating_sub(self.index.get(payload));
        if steps == 0 {
            return payload;
        }
        self.rotated_by(payload, index, steps)
    }

    fn rotated_by(&self, payload: u64, index: u64, steps: u64) -> u64 {
        // The clock stands still in the last window, so nothing rotates beyond it.
        let mut rotated = self.index.of(index.min(self.index.max()));
        for age in 1..=self.closed {
            let count = match u64::from(age).checked_sub(steps) {
                None => 0,
                Some(0) => self.current(payload).div_ceil(self.granule),
                Some(before) => self.closed_field(before as u32).get(payload),
            };
            rotated = self.closed_field(age).set(rotated, count);
        }
        rotated
    }

    /// `payload` with its window renumbered to `index`. When `index` is negative, `payload` rotates
    /// to window 0.
    pub(crate) fn renumbered(&self, payload: u64, index: i128) -> u64 {
        // No rule counts beyond the ceiling, but a file may hold any number.
        let payload = self.with_current(payload, self.current(payload).min(self.ceiling));
        if index >= 0 {
            return self.index.set(payload, index.min(self.index.max().into()) as u64);
        }
        let steps = u64::try_from(-index).unwrap_or(u64::MAX);
        self.index.set(self.rotated(payload, self.index.get(payload).saturating_add(steps)), 0)
    }

    /// Whether all counts of `payload` are zero.
    #[inline]
    pub(crate) fn is_empty(&self, payload: u64) -> bool {
        Field::lowest(self.current.end()).get(payload) == 0
    }

    /// The age of the newest count that is not zero: it leaves the window last. 0 is the current
    /// count.
    pub(crate) fn newest_counted(&self, payload: u64) -> Option<u32> {
        (0..=self.closed).find(|&age| {
            if age == 0 { self.current(payload) != 0 } else { self.closed_field(age).get(payload) != 0 }
        })
    }

    /// Gives back `cost` units that window `index` counted, as far as it still has them. A closed
    /// count was rounded up to a granule, so only whole granules leave it: the count never falls
    /// below the units that it stands for.
    pub(crate) fn refund(&self, payload: u64, index: u64, cost: u64) -> Option<Refund> {
        let age = u32::try_from(self.index.get(payload).checked_sub(index)?).ok()?;
        self.refund_aged(payload, age, cost)
    }

    /// The same of the window `age` before the current one.
    fn refund_aged(&self, payload: u64, age: u32, cost: u64) -> Option<Refund> {
        let (field, granule) = match age {
            0 => (self.current, 1),
            age if age <= self.closed => (self.closed_field(age), self.granule),
            _ => return None,
        };
        let back = (cost / granule).min(field.get(payload));
        let payload = Payload(field.set(payload, field.get(payload) - back));
        (back > 0).then(|| Refund::of(payload, back * granule))
    }

    /// Gives back up to `units` of the counts of all windows, the newest first.
    pub(crate) fn credit(&self, payload: u64, units: u64) -> Option<Refund> {
        let nothing = Refund::of(Payload(payload), 0);
        let given = (0..=self.closed).fold(nothing, |given, age| {
            let more = self.refund_aged(given.payload.0, age, units - given.units);
            more.map_or(given, |more| Refund { units: given.units + more.units, ..more })
        });
        (given.units > 0).then_some(given)
    }

    /// The verdict for a refused request.
    #[inline]
    pub(crate) fn refuse(&self, count: CountPolicy, payload: u64, cost: u64) -> Verdict {
        let seen = self.current(payload);
        let counted = seen.saturating_add(cost).min(self.ceiling);
        if count == CountPolicy::All && counted > seen {
            DenyAndCount(Payload(self.with_current(payload, counted)))
        } else {
            Deny(Payload(payload))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::PAYLOAD_BITS;

    /// A packing below a window number of `number` bits.
    fn fit(number: u32, closed: u32, limit: u64, count: CountPolicy) -> Option<Packing> {
        Packing::fit(index(number), closed, limit, count)
    }

    fn index(number: u32) -> Field {
        Field::lowest(PAYLOAD_BITS - number).above(number)
    }

    const COUNTS: [CountPolicy; 2] = [CountPolicy::Allowed, CountPolicy::All];

    #[test]
    fn the_largest_limit_fits_and_the_next_does_not() {
        for (number, closed) in [(10, 1), (30, 1), (30, 4), (38, 6)] {
            for count in COUNTS {
                let most = Packing::most(index(number), closed, u64::MAX, count);
                assert!(fit(number, closed, most, count).is_some(), "{number} {closed} {most}");
                assert!(fit(number, closed, most + 1, count).is_none(), "{number} {closed} {most}");
                let lower = Packing::most(index(number), closed, most, count);
                assert!(lower < most && fit(number, closed, lower, count).is_some(), "{number} {closed}");
            }
        }
        assert_eq!(Packing::most(index(50), 24, u64::MAX, CountPolicy::Allowed), 0);
    }

    /// Every limit that a packing accepts after a change is within its error and its counts.
    #[test]
    fn other_limits_stay_within_an_eighth_and_can_be_counted() {
        for (number, closed, limit) in
            [(30, 1, 10), (30, 1, 1_000_000), (30, 1, 80_000), (38, 3, 200), (34, 6, 20)]
        {
            for count in COUNTS {
                let Some(packing) = fit(number, closed, limit, count) else { continue };
                let (limits, overstated) = (packing.limits(count), (packing.granule - 1) * u64::from(closed));
                assert!(limits.contains(&limit), "{packing:?}");
                assert!(overstated * COARSEST <= limit, "{packing:?}");
                assert_eq!(*limits.start(), (overstated * COARSEST).max(1), "{packing:?}");
                let counted = if count == CountPolicy::All { 2 * limits.end() } else { *limits.end() };
                assert!(counted <= packing.ceiling && counted + 2 > packing.ceiling, "{packing:?}");
                let same = fit(number, closed, *limits.end(), count).expect("its own largest limit");
                assert_eq!(format!("{same:?}"), format!("{packing:?}"));
            }
        }
    }

    #[test]
    fn a_closed_count_gives_back_whole_granules_only() {
        let packing = fit(30, 1, 1_000_000, CountPolicy::Allowed).expect("a million a second");
        let granule = packing.granule;
        assert!(granule > 1);
        let closed = packing.rotated(packing.with_current(0, 10 * granule), 1);
        assert_eq!(packing.closed(closed, 1), 10 * granule);
        assert_eq!(packing.refund(closed, 0, granule - 1), None);
        let refund = packing.refund(closed, 0, 3 * granule + 1).expect("three granules");
        assert_eq!((refund.units, packing.closed(refund.payload.0, 1)), (3 * granule, 7 * granule));
        let all = packing.refund(closed, 0, 1_000 * granule).expect("all ten");
        assert_eq!((all.units, packing.closed(all.payload.0, 1)), (10 * granule, 0));
    }

    #[test]
    fn a_window_before_number_zero_counts_as_closed() {
        let packing = fit(38, 4, 15, CountPolicy::Allowed).expect("fifteen in four sub-windows");
        let payload = packing.with_current(packing.index.of(5), 7);
        let renumbered = packing.renumbered(payload, -3);
        assert_eq!((packing.index.get(renumbered), packing.closed(renumbered, 3)), (0, 7));
        assert_eq!(packing.credit(renumbered, 9).map(|given| given.units), Some(7), "it gives back");
        assert!(packing.is_empty(packing.renumbered(payload, -5)));
    }
}
