//! `CL.THROTTLE` in numbers, as redis-cell computes them. Reads no clock and touches no memory.
//!
//! ```text
//!   emission  = period / count       in floating point, truncated to whole nanoseconds
//!   tolerance = emission * (max_burst + 1)
//!   increment = emission * quantity
//!   admitted  iff  debt + increment <= tolerance      where debt = max(TAT, now) - now
//!   then TAT  = max(TAT, now) + increment
//! ```
//!
//! Any number may be negative; then so may the emission interval, the tolerance and the increment.
//! What redis-cell lets wrap around is [`Wrong::OutOfRange`] here.

/// A call: its limit, and its quota in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Throttle {
    limit: i64,
    /// Not 0.
    emission: i64,
    tolerance: i64,
    increment: i64,
}

/// Why the numbers of a call mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The emission interval is zero.
    ZeroRate,
    /// A number leaves 64 bits.
    OutOfRange,
}

/// The five integers of an answer: limited, limit, remaining, retry after, reset after.
pub(super) type Five = [i64; 5];

const SECOND: i64 = 1_000_000_000;
const MILLISECOND: i64 = 1_000_000;
const MICROSECOND: i64 = 1_000;

impl Throttle {
    /// The call `CL.THROTTLE key max_burst count period quantity`.
    pub(super) fn new(max_burst: i64, count: i64, period: i64, quantity: i64) -> Result<Self, Wrong> {
        if count == 0 || period == 0 {
            return Err(Wrong::ZeroRate);
        }
        let nanos = i128::from(period) * i128::from(SECOND);
        // A cast of a number that is too large gives the largest, as in redis-cell.
        let emission = (nanos as f64 / count as f64) as i64;
        if emission == 0 {
            return Err(Wrong::ZeroRate);
        }
        let limit = max_burst.checked_add(1).ok_or(Wrong::OutOfRange)?;
        let tolerance = emission.checked_mul(limit).ok_or(Wrong::OutOfRange)?;
        let increment = emission.checked_mul(quantity).ok_or(Wrong::OutOfRange)?;
        Ok(Self { limit, emission, tolerance, increment })
    }

    /// The nanoseconds to charge and the most that may be charged at once, for a call that charges
    /// and can be admitted.
    pub(super) fn charge(self) -> Option<(u64, u64)> {
        let is_charge = self.increment > 0 && self.increment <= self.tolerance;
        is_charge.then_some((self.increment as u64, self.tolerance as u64))
    }

    /// The nanoseconds that the call gives back if it is admitted: of a quantity below zero.
    pub(super) fn gives_back(self) -> u64 {
        if self.increment < 0 { self.increment.unsigned_abs() } else { 0 }
    }

    /// The tolerance, or 1 where it is less: for looking at a key.
    pub(super) fn tolerance_to_look(self) -> u64 {
        self.tolerance.max(1) as u64
    }

    /// The answer, by the key's debt in nanoseconds before the call.
    pub(super) fn answer(self, debt: i64) -> (bool, Five) {
        let is_admitted = i128::from(debt) + i128::from(self.increment) <= i128::from(self.tolerance);
        // Admitted: no more than the tolerance.
        let after = if is_admitted { debt + self.increment } else { debt };
        (is_admitted, if is_admitted { self.admitted(after) } else { self.refused(debt) })
    }

    /// The answer to an admitted call, by the debt that it leaves, which is below zero if more was
    /// given back than the key's debt.
    pub(super) fn admitted(self, after: i64) -> Five {
        [0, self.limit, self.remaining(after), -1, seconds(after)]
    }

    /// The answer to a refused call, by the key's debt.
    pub(super) fn refused(self, debt: i64) -> Five {
        let retry_after = if self.increment <= self.tolerance {
            // A call is refused only by a debt above the difference.
            seconds(debt - (self.tolerance - self.increment))
        } else {
            -1
        };
        [1, self.limit, self.remaining(debt), retry_after, seconds(debt)]
    }

    /// Whole microseconds over whole microseconds: with an emission interval below one, the largest
    /// number or 0.
    fn remaining(self, debt: i64) -> i64 {
        let room = i128::from(self.tolerance) - i128::from(debt);
        if room <= -i128::from(self.emission) {
            return 0;
        }
        let room = match i64::try_from(room) {
            Ok(room) => (room / MICROSECOND) as f64,
            Err(_) => (room / i128::from(MICROSECOND)) as f64,
        };
        (room / (self.emission / MICROSECOND) as f64) as i64
    }
}

/// Whole seconds, and one more if a whole millisecond is left over.
fn seconds(nanos: i64) -> i64 {
    let (whole, part) = (nanos / SECOND, nanos % SECOND);
    // As a floating-point number, many seconds have no room for many nanoseconds.
    let truncated = (whole as f64 + part as f64 / SECOND as f64) as i64;
    truncated + i64::from(part / MILLISECOND > 0)
}
