//! Carries a key's debt from one clock to another.
//!
//! A payload counts from the zero of its clock, and a restarted process has another zero. Carrying
//! a payload over moves it by the [`Shift`] between the two clocks, so that the debt ends at the
//! same Unix time. The result is exact where the new clock can express it. Otherwise it is rounded
//! up to the later time: a request may be refused too long, and none is admitted too early.

use crate::algorithm::Payload;
use crate::time::{Shift, Timestamp};

/// A rule whose payloads can be carried from one clock to another. `saved` is the same rule on the
/// old clock.
pub trait Carry: Copy {
    /// The rule of a quota that came with a call: so many nanoseconds a unit, and a tolerance of so
    /// many. `None`: no quotas come with calls.
    fn of_call(_emission: u64, _tolerance: u64) -> Option<Self> {
        None
    }

    /// What the words and rings of the table have room for, where that is from before a change: the
    /// limit that they were built for. 0: each version has its own.
    fn room(&self) -> u64 {
        0
    }

    /// The same rule for words and rings with that much room. `None`: no limiter with this quota
    /// has so much.
    fn with_room(self, room: u64) -> Option<Self> {
        (room == 0).then_some(self)
    }

    /// The value from which payloads count, as a save writes it: a limiter built with this quota
    /// then continues this one. `fresh` is the rule of that limiter. 0: payloads count from the
    /// zero of the clock.
    fn origin(&self, _fresh: &Self, _now: Timestamp) -> u64 {
        0
    }

    /// The same rule, counting from `origin`.
    #[must_use]
    fn with_origin(self, _origin: u64) -> Self {
        self
    }

    /// The same rule, continuing what `saved` began.
    #[must_use]
    fn resuming(self, _saved: &Self, _shift: Shift) -> Self {
        self
    }

    /// The payload on this clock of a key that had `payload` on the saved one, whose bits were
    /// written to a file. 0: the key has no debt at or after the zero of this clock.
    fn carry(&self, payload: u64, saved: &Self, shift: Shift) -> Payload;

    /// `payload` as a limiter built with this quota and this [`room`](Self::room) would have
    /// written it. `fresh` is its rule on this clock.
    fn anew(&self, payload: Payload, fresh: &Self, now: Timestamp) -> Payload;

    /// A time of a ring on this clock. `None`: it left the window before the zero of this clock.
    fn carry_time(&self, _when: u64, _saved: &Self, _shift: Shift) -> Option<u64> {
        None
    }
}
