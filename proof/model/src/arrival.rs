//! The arithmetic of GCRA, which the token bucket and the leaky bucket share.
//!
//! The state of a key is its theoretical arrival time, the TAT: the time at which its bucket will
//! be full of tokens, or empty of water. An admitted request adds one emission interval to the TAT
//! for each unit of its cost. A request passes if the TAT is then at most `capacity` intervals
//! ahead of the clock:
//!
//! ```text
//!          base = max(TAT, now)                  base + cost * I  <=  now + capacity * I
//!   now -----|--------------------|---------------------------------------------|------> time
//!            '------- debt -------'------------------ room ---------------------'
//! ```
//!
//! # Units
//!
//! The interval I = period / count is rarely a whole number of nanoseconds, so the clock counts
//! *grains*. S grains make one unit of cost:
//!
//! ```text
//!   C(t) = floor(t * count * S / period)        the clock's reading, in grains, at t nanoseconds
//! ```
//!
//! With S = period the division leaves no remainder: one grain is 1/count of a nanosecond, and the
//! model is exact. A smaller S describes an engine with a coarser clock.
//!
//! A bucket that refills by intervals has a clock that counts whole tokens (S = 1), all of an
//! aligned interval at its end:
//!
//! ```text
//!   C(t) = count * floor((t + offset) / period)
//! ```

use crate::inherit::Debt;
use crate::rule::clamp;
use crate::turn::Turn;

/// A rate, a capacity, and the grains in which time is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrivals {
    count: u128,
    period: u128,
    grains: u128,
    capacity: u64,
    /// From the start of an interval to the clock's zero, with a clock that counts intervals.
    offset: Option<u128>,
}

impl Arrivals {
    pub(crate) fn new(count: u64, period_ns: u64, capacity: u64, grains: Option<u64>) -> Self {
        assert!(count > 0, "a rate of zero has no emission interval");
        assert!(period_ns > 0, "a period of zero is not a rate");
        let grains = grains.unwrap_or(period_ns);
        assert!(grains > 0, "a token needs at least one grain");
        Self { count: count.into(), period: period_ns.into(), grains: grains.into(), capacity, offset: None }
    }

    pub(crate) fn by_intervals(count: u64, period_ns: u64, origin_ns: u64, capacity: u64) -> Self {
        let arrivals = Self::new(count, period_ns, capacity, Some(1));
        Self { offset: Some((origin_ns % period_ns).into()), ..arrivals }
    }

    /// The same with intervals that are aligned to another Unix time; `None` without intervals.
    pub(crate) fn realigned(&self, origin_ns: u64) -> Option<Self> {
        self.offset.map(|_| Self { offset: Some(u128::from(origin_ns) % self.period), ..*self })
    }

    /// The TAT under the `next` intervals, which begin elsewhere from `now` on: no debt is paid
    /// sooner by more than an eighth of an interval. However often they are moved, no more than a
    /// full bucket and one interval are missing.
    pub(crate) fn moved(&self, next: &Self, tat: u128, now: u64) -> u128 {
        let into = |arrivals: &Self| (u128::from(now) + arrivals.offset.unwrap_or(0)) % self.period;
        let (old, new, debt) = (into(self), into(next), self.debt(tat, now));
        let eighth = self.period / 8;
        let debt = match debt {
            0 => 0,
            // The new interval began so much sooner that the next tokens would come too soon.
            debt if new > old + eighth => {
                debt.max((debt + self.count).min(u128::from(self.capacity) + self.count))
            }
            // The old interval is all but over, and the new one has just begun.
            debt if new + self.period <= old + eighth => debt.saturating_sub(self.count),
            debt => debt,
        };
        next.clock(now) + debt
    }

    pub(crate) fn refills_by_steps(&self) -> bool {
        self.offset.is_some()
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// `units` of cost, in grains.
    pub(crate) fn grains(&self, units: u64) -> u128 {
        u128::from(units) * self.grains
    }

    /// C(t). Converts whole tokens and the rest separately, so that no product exceeds 128 bits.
    /// Saturates only after more than 2^64 tokens since the clock's zero.
    pub(crate) fn clock(&self, t: u64) -> u128 {
        if let Some(offset) = self.offset {
            return (u128::from(t) + offset) / self.period * self.count;
        }
        let refilled = u128::from(t) * self.count;
        let (tokens, rest) = (refilled / self.period, refilled % self.period);
        tokens.saturating_mul(self.grains).saturating_add(rest * self.grains / self.period)
    }

    /// The first nanosecond at which the clock shows at least `reading`:
    /// `ceil(reading * period / (count * S))`. The inverse of [`Arrivals::clock`], which also
    /// converts whole tokens and the rest separately.
    fn first_instant(&self, reading: u128) -> u128 {
        if let Some(offset) = self.offset {
            return (reading.div_ceil(self.count) * self.period).saturating_sub(offset);
        }
        let (tokens, rest) = (reading / self.grains, reading % self.grains);
        let refilled =
            tokens.saturating_mul(self.period).saturating_add((rest * self.period).div_ceil(self.grains));
        refilled.div_ceil(self.count)
    }

    /// The wait from `now` until the clock shows at least `reading`; zero if it already does.
    fn wait_until(&self, now: u64, reading: u128) -> u64 {
        clamp(self.first_instant(reading).saturating_sub(now.into()))
    }

    /// The turn of a reservation whose cost is at most the capacity. It departs when a check of the
    /// same cost would pass: when the clock shows `base + cost * S - capacity * S`.
    ///
    /// It is charged as such a check: a clock that counts intervals may show more than the TAT
    /// there, and then the bucket is full before the request.
    pub(crate) fn turn(&self, tat: u128, now: u64, cost: u64) -> Turn<u128> {
        let charged = tat.max(self.clock(now)).saturating_add(self.grains(cost));
        let departure = self.first_instant(charged.saturating_sub(self.grains(self.capacity)));
        let (departure, wait) = (departure.max(now.into()), departure.saturating_sub(now.into()));
        let full = match (self.offset, u64::try_from(departure)) {
            (Some(_), Ok(departure)) => self.clock(departure),
            _ => 0,
        };
        Turn::After { wait, charged: charged.max(full.saturating_add(self.grains(cost))) }
    }

    /// The turn in a queue, if there is room. It departs when the clock shows the TAT before the
    /// charge.
    pub(crate) fn turn_in_queue(&self, tat: u128, now: u64, cost: u64) -> Turn<u128> {
        match self.admitted(tat, now, cost) {
            Some(charged) => {
                Turn::After { wait: self.first_instant(tat).saturating_sub(now.into()), charged }
            }
            None => Turn::Full { wait: self.retry_after(tat, now, cost) },
        }
    }

    /// How far the TAT is ahead of the clock.
    fn debt(&self, tat: u128, now: u64) -> u128 {
        tat.saturating_sub(self.clock(now))
    }

    /// The debt as a number of grains.
    pub(crate) fn debt_in_grains(&self, tat: u128, now: u64) -> Debt {
        Debt { amount: self.debt(tat, now), unit: self.grains }
    }

    /// The TAT of a key with this debt, rounded up to a grain.
    pub(crate) fn tat_with_debt(&self, debt: Debt, now: u64) -> u128 {
        self.clock(now).saturating_add(debt.in_units_of(self.grains))
    }

    /// The TAT after admitting `cost`, which is at most the capacity; `None` if there is no room.
    pub(crate) fn admitted(&self, tat: u128, now: u64, cost: u64) -> Option<u128> {
        let base = tat.max(self.clock(now));
        let fits = self.debt(tat, now) <= self.grains(self.capacity - cost);
        fits.then(|| base.saturating_add(self.grains(cost)))
    }

    /// The TAT after a debit of `cost`, however far ahead.
    pub(crate) fn debited(&self, tat: u128, now: u64, cost: u64) -> u128 {
        tat.max(self.clock(now)).saturating_add(self.grains(cost))
    }

    /// How many more units have room.
    pub(crate) fn remaining(&self, tat: u128, now: u64) -> u64 {
        let room = self.grains(self.capacity).saturating_sub(self.debt(tat, now));
        clamp(room / self.grains)
    }

    /// The wait until `cost` has room: until the clock shows `TAT + cost * S - capacity * S`.
    pub(crate) fn retry_after(&self, tat: u128, now: u64, cost: u64) -> u64 {
        self.wait_until(now, tat.saturating_sub(self.grains(self.capacity - cost)))
    }

    /// The wait until there is no debt: until the clock shows the TAT.
    pub(crate) fn debt_ends_after(&self, tat: u128, now: u64) -> u64 {
        self.wait_until(now, tat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_grains_the_clock_counts_fractions_of_a_nanosecond() {
        let three_in_ten = Arrivals::new(3, 10, 1, None);
        assert_eq!(three_in_ten.clock(7), 21);
        assert_eq!(three_in_ten.grains(1), 10);
        assert_eq!(three_in_ten.first_instant(10), 4); // 10/3 ns, rounded up
    }

    #[test]
    fn with_grains_the_clock_moves_in_steps() {
        let two_grains_in_ten = Arrivals::new(1, 10, 1, Some(2));
        assert_eq!([4, 5, 9, 10].map(|t| two_grains_in_ten.clock(t)), [0, 1, 1, 2]);
        assert_eq!([1, 2, 3].map(|reading| two_grains_in_ten.first_instant(reading)), [5, 10, 15]);
    }

    #[test]
    fn by_intervals_the_clock_stands_still_between() {
        let three_in_ten = Arrivals::by_intervals(3, 10, 24, 1);
        assert_eq!([0, 5, 6, 15, 16].map(|t| three_in_ten.clock(t)), [0, 0, 3, 3, 6]);
        assert_eq!([1, 3, 4].map(|reading| three_in_ten.first_instant(reading)), [6, 6, 16]);
    }

    #[test]
    fn the_first_instant_is_the_inverse_of_the_clock() {
        for (count, period, grains) in
            [(3, 10, None), (7, 10, Some(3)), (10, 3, Some(4)), (1, 7, Some(16)), (5, 5, None)]
        {
            let arrivals = Arrivals::new(count, period, 1, grains);
            for reading in 1..200 {
                let instant = u64::try_from(arrivals.first_instant(reading)).unwrap();
                assert!(arrivals.clock(instant) >= reading);
                assert!(arrivals.clock(instant - 1) < reading);
            }
        }
    }
}
