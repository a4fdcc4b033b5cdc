//! How what a key owes outlives the clock that it was counted by.
//!
//! A payload counts from its clock's zero, and a process that starts again has another zero. Carrying a payload over
//! moves it by the [`Shift`] between the two clocks, so that the debt ends at the same moment of Unix time. It is exact
//! where the new clock can say the same, and else rounded towards the later: it errs by refusing.

use crate::algorithm::Moment;
use crate::ring::Ring;
use crate::time::{Shift, Timestamp};

/// A rule whose payloads can be carried from one clock to another. `saved` is the same rule on the old clock.
pub trait Carry: Clone {
    /// What a limiter that was built with this quota would count from besides the clock's zero, to go on as this one:
    /// `fresh` is its rule. 0: nothing else.
    fn origin(&self, _fresh: &Self, _now: Timestamp) -> u64 {
        0
    }

    /// The same rule counting from there.
    #[must_use]
    fn with_origin(self, _origin: u64) -> Self {
        self
    }

    /// The same rule carrying on what `saved` began.
    #[must_use]
    fn resuming(self, _saved: &Self, _shift: Shift) -> Self {
        self
    }

    /// The payload here of a key that had `payload` there. 0: it owes nothing from the clock's zero on.
    fn carry(&self, payload: u64, saved: &Self, shift: Shift) -> u64;

    /// `payload` as a limiter that was built with this quota would have written it: `fresh` is its rule on this clock.
    fn anew(&self, payload: u64, fresh: &Self, now: Timestamp) -> u64;

    /// The times behind the head that have not left the window at `at`, newest first.
    fn times(&self, _payload: u64, _ring: Ring<'_>, _at: Moment, _into: &mut Vec<u64>) {}

    /// One of those times here. `None`: it left the window before the clock's zero.
    fn carry_time(&self, _when: u64, _saved: &Self, _shift: Shift) -> Option<u64> {
        None
    }

    /// Makes `times`, newest first, those of the ring, and of the `payload` one that goes with them. Nobody else has
    /// the ring yet.
    fn log(&self, payload: u64, _ring: Ring<'_>, _times: &[u64]) -> u64 {
        payload
    }
}
