//! The rule behind both buckets: the generic cell rate algorithm.
//!
//! The payload is the *theoretical arrival time* (TAT): the moment at which the bucket will be full again (the leaky
//! bucket's will be empty), in grains of its [`Refill`] clock. With `now` in the same grains:
//!
//! ```text
//!   base = max(TAT, now)
//!   admitted  iff  base + cost * price - now <= burst * price      then TAT = base + cost * price
//! ```
//!
//! A request that left the TAT `charged` and is given back later lowers the TAT by what it certainly still owes:
//!
//! ```text
//!   back = min(cost * price, charged - now)
//! ```
//!
//! not by all of its cost: without the request the bucket might have been full at `charged - cost * price`, and its
//! tokens since would have been lost. While somebody is booked into the future (`TAT - now > burst * price`, and in a
//! queue always), what was booked after the request rests on it: `back` is less by `TAT - charged`, as in Go's
//! x/time/rate.
//!
//! A *reservation* that may wait for `w` is a request of a bucket that is larger by what drips in `w`; it departs when
//! the bucket of the true size would admit it, at `TAT - burst * price`.
//!
//! Source: ITU-T I.371 (1996), virtual scheduling; the equivalence with the token bucket is in its annex.

use crate::algorithm::refill::Refill;
use crate::algorithm::{AnyRule, Carry, Moment, Refund, Rule, Verdict};
use crate::ring::Ring;
use crate::time::{Shift, Timestamp};

/// A bucket in grains.
#[derive(Clone, Copy, Debug)]
pub struct Gcra {
    pub(crate) refill: Refill,
    /// Grains a token.
    pub(crate) price: u64,
    /// Grains in a full bucket.
    pub(crate) full: u64,
    /// Grains in half of the smallest bucket of the table.
    pub(crate) half: u64,
    /// The TAT that every bucket has at the clock's zero: above 0 when buckets do not start full.
    pub(crate) start: u64,
    /// Tokens in a full bucket.
    pub(crate) burst: u64,
    /// Whether admitted requests wait for their turn.
    pub(crate) queue: bool,
}

impl Gcra {
    fn tat(&self, payload: u64) -> u64 {
        payload.max(self.start)
    }
}

impl Rule for Gcra {
    #[inline]
    fn limit(&self) -> u64 {
        self.burst
    }

    #[inline]
    fn moment(&self, now: Timestamp) -> Moment {
        Moment { tick: self.refill.at(now.as_nanos()), elapsed: 0 }
    }

    #[inline]
    fn decide(&self, payload: u64, _: Ring<'_>, at: Moment, cost: u64) -> Verdict {
        let now = at.tick;
        // Once `start` has passed it is no later than now.
        let base = if now >= self.start { payload.max(now) } else { self.tat(payload).max(now) };
        let tat = base + cost * self.price;
        if tat - now <= self.full { Verdict::Allow(tat) } else { Verdict::Deny }
    }

    #[inline]
    fn expired(&self, payload: u64, at: Moment) -> bool {
        payload <= at.tick
    }

    fn refund(&self, payload: u64, charged: u64, at: Moment, cost: u64) -> Option<Refund> {
        let now = at.tick;
        let owed = charged.saturating_sub(now).min(cost * self.price);
        // In a queue, whoever came later leaves later; elsewhere, only who could not be served at once.
        let served = if self.queue { now } else { now + self.full };
        let booked = if payload > served { payload.saturating_sub(charged) } else { 0 };
        let back = owed.saturating_sub(booked).min(payload.saturating_sub(now));
        (back > 0).then(|| Refund { payload: payload - back, units: back.div_ceil(self.price) })
    }

    fn half(&self, at: Moment) -> Option<u64> {
        Some(at.tick + self.half)
    }

    fn forgive(&self, _: u64, at: Moment) -> u64 {
        at.tick
    }

    fn remaining(&self, payload: u64, _: Ring<'_>, now: Timestamp) -> u64 {
        let now = self.moment(now).tick;
        (now + self.full).saturating_sub(self.tat(payload).max(now)) / self.price
    }

    fn retry_after(&self, payload: u64, _: Ring<'_>, now: Timestamp, cost: u64) -> u64 {
        let earliest = (self.tat(payload) + cost * self.price).saturating_sub(self.full);
        self.refill.until(earliest, now.as_nanos())
    }

    fn reset_after(&self, payload: u64, _: Ring<'_>, now: Timestamp) -> u64 {
        self.refill.until(self.tat(payload), now.as_nanos())
    }

    fn delay(&self, payload: u64, now: Timestamp, cost: u64) -> u64 {
        let behind = if self.queue { cost * self.price } else { self.full };
        if cost > 0 { self.refill.until(payload.saturating_sub(behind), now.as_nanos()) } else { 0 }
    }

    fn patient(&self, now: Timestamp, max_wait: u64, cost: u64) -> Option<Self> {
        let now = now.as_nanos();
        let drips = self.refill.at(now.saturating_add(max_wait)) - self.refill.at(now);
        let full = if self.queue { self.full.min(drips + cost * self.price) } else { self.full + drips };
        Some(Self { full, ..*self })
    }

    fn wait(&self, payload: u64, now: Timestamp, cost: u64) -> u64 {
        let tat = self.tat(payload).max(self.moment(now).tick) + cost * self.price;
        self.delay(tat, now, cost).max(self.retry_after(payload, Ring::NONE, now, cost))
    }

    fn any(self) -> AnyRule {
        AnyRule::Gcra(self)
    }
}

impl Carry for Gcra {
    /// The buckets' start: it is that of the first clock, not of each.
    fn origin(&self) -> u64 {
        self.start
    }

    fn with_origin(self, start: u64) -> Self {
        Self { start, ..self }
    }

    fn resuming(self, saved: &Self, shift: Shift) -> Self {
        Self { start: self.carry(saved.start, saved, shift), ..self }
    }

    fn carry(&self, tat: u64, _: &Self, shift: Shift) -> u64 {
        self.refill.carry(tat, shift)
    }
}
