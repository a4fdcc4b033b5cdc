//! Aligned windows: locates an instant in its window.

use std::ops::RangeInclusive;

use crate::algorithm::{Moment, PAYLOAD_BITS, UPTIME};
use crate::bits::{Field, bits};
use crate::error::{BuildError, within};
use crate::rate::Rate;
use crate::time::{Shift, Timestamp, div_ceil};

/// The windows of one table. Number 0 contains the zero of the clock. After a change, that window
/// has a larger number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// Nanoseconds in a window.
    pub(crate) length: u64,
    /// Nanoseconds from the start of window 0 to the zero of the clock.
    offset: u64,
    /// `floor(2^64 / length)`, to divide by multiplying.
    reciprocal: u64,
    /// The last nanosecond in a numbered window. The clock stands still from there on: windows fail
    /// closed.
    last: u64,
}

impl Moment {
    /// The instant as a key sees it whose word has reached window `index`: never before the start
    /// of that window.
    #[inline]
    pub(crate) fn no_earlier_than(self, index: u64) -> Self {
        if self.tick >= index { self } else { Self { tick: index, elapsed: 0 } }
    }
}

impl Windows {
    /// Windows of `length` nanoseconds, aligned to multiples of it since the Unix epoch. `origin`
    /// is the Unix time of the clock's zero.
    pub(crate) fn new(length: u64, origin: u64) -> Self {
        let index_max = Self::index_field(length).max();
        Self {
            length,
            offset: origin % length,
            reciprocal: u64::try_from((1_u128 << 64) / u128::from(length)).unwrap_or(u64::MAX),
            last: index_max.saturating_mul(length),
        }
    }

    /// Windows of `length` nanoseconds, numbered so that the window at `since` has at least the
    /// number `first`.
    pub(crate) fn renumbered(length: u64, origin: u64, since: u64, first: u64) -> Result<Self, BuildError> {
        let windows = Self::new(length, origin);
        let shift = first.saturating_sub(windows.locate(Timestamp::from_nanos(since)).tick);
        let offset = u128::from(windows.offset) + u128::from(shift) * u128::from(length);
        let ahead = UPTIME.saturating_sub(since).max(UPTIME / 10);
        if offset + u128::from(since) + u128::from(ahead) > u128::from(windows.last) {
            return Err(BuildError::ChangedTooOften);
        }
        Ok(Self { offset: offset as u64, ..windows })
    }

    /// How many windows after that of `now` the one comes that takes the place of window `index` of
    /// `old`: the earliest that begins at most an eighth of a window sooner, as where a debt is
    /// [carried](Self::carry) to another clock. At most 1: a window has then ended when twice its
    /// length has passed since `now`. 0 where both are aligned to the same Unix time, or where
    /// their lengths differ.
    pub(crate) fn successor(&self, index: u64, old: &Self, now: u64) -> i64 {
        if self.length != old.length {
            return 0;
        }
        let began = |index: u64, windows: &Self| {
            i128::from(index) * i128::from(self.length) - i128::from(windows.offset)
        };
        let here = began(self.locate(Timestamp::from_nanos(now)).tick, self);
        later_by(began(index, old) - here, self.length).min(1) as i64
    }

    /// The same windows, each with a number larger by one.
    pub(crate) fn numbered_later(self) -> Self {
        Self { offset: self.offset + self.length, ..self }
    }

    /// Room for twenty years of window numbers, at the top of a payload.
    pub(crate) fn index_field(length: u64) -> Field {
        let width = bits(2 * UPTIME / length + 2);
        Field::lowest(PAYLOAD_BITS - width).above(width)
    }

    /// The window of `now`, and the nanoseconds since its start.
    #[inline]
    pub(crate) fn locate(&self, now: Timestamp) -> Moment {
        let time = self.time(now);
        // The estimate is at most one short:
        // `time / length - time * reciprocal / 2^64 < time / 2^64 + 1`.
        let estimate = ((u128::from(time) * u128::from(self.reciprocal)) >> 64) as u64;
        let elapsed = time - estimate * self.length;
        if elapsed < self.length {
            Moment { tick: estimate, elapsed }
        } else {
            Moment { tick: estimate + 1, elapsed: elapsed - self.length }
        }
    }

    /// Nanoseconds from `now` until `elapsed` into window `index`; 0 when that is past.
    pub(crate) fn until(&self, index: u64, elapsed: u64, now: Timestamp) -> u64 {
        let target = index.saturating_mul(self.length).saturating_add(elapsed);
        if target > self.last { u64::MAX } else { target.saturating_sub(self.time(now)) }
    }

    /// Converts window `index` of `saved`, on a clock that reads `shift` earlier, to its number
    /// here.
    ///
    /// Both align to Unix time, so the result is exact while both clocks agree with Unix time.
    /// Where they do not, a window must not end early: the number is rounded up. Clock drift of up
    /// to an eighth of a window is ignored.
    pub(crate) fn carry(&self, index: u64, saved: &Self, shift: Shift) -> i128 {
        let moved = shift.nanos() + i128::from(self.offset) - i128::from(saved.offset);
        i128::from(index) + later_by(moved, self.length)
    }

    /// Nanoseconds from `now` to the last one in a numbered window.
    pub(crate) fn left(&self, now: u64) -> u64 {
        self.last.saturating_sub(self.offset.saturating_add(now))
    }

    /// The start of window `index` on the limiter's clock; 0 when it lies before the clock's zero.
    pub(crate) fn start_of(&self, index: u64) -> u64 {
        index.saturating_mul(self.length).saturating_sub(self.offset)
    }

    /// Converts window `index` of `other`, whose windows have the same length, to its number here.
    /// Windows before number 0 become 0.
    pub(crate) fn renumber(&self, index: u64, other: &Self) -> u64 {
        let moved = i128::from(self.offset) - i128::from(other.offset);
        let index = i128::from(index) + moved.div_euclid(self.length.into());
        u64::try_from(index.max(0)).unwrap_or(u64::MAX)
    }

    fn time(&self, now: Timestamp) -> u64 {
        now.as_nanos().saturating_add(self.offset).min(self.last)
    }
}

/// The number of windows of this length by which a window begins later that must not end sooner
/// than one that is `moved` nanoseconds later: rounded up, but for an eighth of a window.
pub(crate) fn later_by(moved: i128, length: u64) -> i128 {
    div_ceil(moved - i128::from(length / 8), length)
}

/// Returns the period that the tiers share, which must be one of `periods`.
pub(crate) fn shared_period(
    rates: impl Iterator<Item = Rate>,
    periods: RangeInclusive<u64>,
) -> Result<u64, BuildError> {
    let mut shared = None;
    for rate in rates {
        within("rate.period", rate.period().as_nanos(), *periods.start(), *periods.end())?;
        if *shared.get_or_insert(rate.period_nanos()) != rate.period_nanos() {
            return Err(BuildError::TiersDiffer { field: "rate.period" });
        }
    }
    Ok(shared.unwrap_or(1))
}

/// The value that all tiers have in common.
pub(crate) fn shared<T: PartialEq>(
    field: &'static str,
    mut values: impl Iterator<Item = T>,
) -> Result<T, BuildError> {
    let first = values.next().ok_or(BuildError::TiersDiffer { field })?;
    if values.all(|value| value == first) { Ok(first) } else { Err(BuildError::TiersDiffer { field }) }
}

/// `Ok` when a setting that the payloads depend on does not change.
pub(crate) fn same(field: &'static str, is_same: bool) -> Result<(), BuildError> {
    if is_same { Ok(()) } else { Err(BuildError::CannotInherit { field }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::LONGEST;

    const LENGTHS: [u64; 7] = [1, 3, 1_000, 999_999_999, 86_400_000_000_000, (UPTIME / 3) | 1, LONGEST];

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    #[test]
    fn an_instant_is_located_exactly_by_multiplying() {
        for length in LENGTHS {
            for origin in [0, 1, length / 3, length - 1] {
                let windows = Windows::new(length, origin);
                let last = windows.last - windows.offset;
                let boundary = last - (last + windows.offset) % length;
                let spread = (0..60)
                    .map(|bit| boundary.saturating_sub(1 << bit))
                    .chain((0..60).map(|bit| boundary.saturating_add(1 << bit)));
                for now in spread.chain([0, 1, UPTIME, boundary, last]).filter(|&now| now <= last) {
                    let time = now + origin % length;
                    let exact = Moment { tick: time / length, elapsed: time % length };
                    assert_eq!(windows.locate(at(now)), exact, "{windows:?} at {now}");
                }
            }
        }
    }

    #[test]
    fn a_number_has_room_for_twenty_years_of_windows() {
        for length in LENGTHS {
            let (numbers, needed) = (Windows::index_field(length).max(), 2 * UPTIME / length);
            assert!(numbers > needed && numbers / 2 <= needed + 2, "{length}: {numbers} for {needed}");
            assert!(Windows::new(length, length - 1).left(0) >= UPTIME, "{length}");
        }
    }

    #[test]
    fn nothing_comes_after_the_last_nanosecond_that_has_a_window() {
        let windows = Windows::new(1_000_000_000, 7);
        let (number, last) = (windows.last / windows.length, windows.last - windows.offset);
        assert_eq!(windows.until(number, 0, at(0)), last);
        assert_eq!(windows.until(number, 1, at(0)), u64::MAX);
        assert_eq!(windows.locate(at(u64::MAX)), windows.locate(at(last)));
    }

    #[test]
    fn renumbered_windows_begin_when_they_did() {
        let (origin, since) = (123_456_789, 5_000_000_000_u64);
        for length in [1_000, 1_000_000_000, 60_000_000_000] {
            let windows = Windows::new(length, origin);
            let now = windows.locate(at(since));
            for first in [0, now.tick, now.tick + 1, now.tick + 1_000] {
                let later = Windows::renumbered(length, origin, since, first).expect("there is room");
                assert_eq!(later.locate(at(since)), Moment { tick: now.tick.max(first), ..now });
                assert_eq!(later.renumber(now.tick, &windows), now.tick.max(first));
                assert_eq!(windows.renumber(now.tick.max(first), &later), now.tick);
                assert_eq!(windows.renumber(0, &later), 0, "none before the first");
                assert_eq!(later.start_of(later.locate(at(since)).tick), since.saturating_sub(now.elapsed));
            }
        }
        assert_eq!(Windows::new(1_000, 7).start_of(0), 0);
    }

    /// The rest of the ten years, and at least one year.
    #[test]
    fn windows_are_renumbered_while_ten_years_have_room() {
        let length = 1_000_000_000;
        let numbers = Windows::index_field(length).max();
        for (since, left) in
            [(0, UPTIME), (UPTIME / 2, UPTIME / 2), (UPTIME, UPTIME / 10), (2 * UPTIME, UPTIME / 10)]
        {
            let most = numbers - left / length;
            assert!(Windows::renumbered(length, 0, since, most).is_ok(), "at {since}");
            let error = Windows::renumbered(length, 0, since, most + 1).map(drop);
            assert_eq!(error, Err(BuildError::ChangedTooOften), "at {since}");
        }
    }
}
