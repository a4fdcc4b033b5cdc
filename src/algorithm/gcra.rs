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
//! # Refunds
//!
//! A request that left the TAT `charged` and is given back later lowers the TAT by what is certainly still owed because
//! of it, which is not always its cost: without it the bucket might have been full in between, and its refill lost.
//!
//! ```text
//!   nobody but the newest was    back = min(cost * price, charged - now), less TAT - charged while
//!     given back since:            somebody is booked ahead (TAT - now > burst * price)
//!   otherwise:                   back = cost * price - (now - since), or nothing if anybody ever booked ahead
//! ```
//!
//! Until `charged` the bucket was never full, so `charged - now` of the request is still to be refilled. Who is booked
//! ahead counts on what was charged before. Once another request than the newest was given back, `charged` is too
//! late a moment and the TAT no longer shows who is booked; what remains true is that the bucket cannot have
//! stood idle for longer than `now - since`. The rule was put to every short sequence of checks, reservations,
//! refunds and cancellations: `crates/tollgate-model/tests/refund_search.rs`. In a queue only the newest leaves.
//!
//! A *reservation* that may wait for `w` is a request of a bucket that is larger by what drips in `w`; it departs when
//! the bucket of the true size would admit it, at `TAT - burst * price`.
//!
//! Source: ITU-T I.371 (1996), virtual scheduling; the equivalence with the token bucket is in its annex.

use crate::algorithm::refill::Refill;
use crate::algorithm::{AnyRule, Carry, Moment, Numbers, Order, Refund, Rule, Taken, Verdict};
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

    fn refund(&self, payload: u64, taken: Taken, at: Moment, order: Order) -> Option<Refund> {
        let Taken { charged, since, cost } = taken;
        let (now, cost) = (at.tick.max(since.tick), cost * self.price);
        let owed = charged.saturating_sub(now).min(cost);
        let back = match order {
            Order::Kept if payload == charged => owed,
            _ if self.queue => 0,
            // Forgiven meanwhile.
            Order::Kept if payload < charged => 0,
            Order::Kept if payload > now + self.full => owed.saturating_sub(payload - charged),
            Order::Kept => owed,
            Order::Lost => (since.tick + cost).saturating_sub(now),
            Order::LostAndBooked => 0,
        };
        let back = back.min(payload.saturating_sub(now.max(self.start)));
        (back > 0).then(|| Refund { payload: payload - back, units: back.div_ceil(self.price) })
    }

    fn reorders(&self, payload: u64, taken: Taken) -> bool {
        !self.queue && payload != taken.charged
    }

    /// A queue's requests each have a departure.
    fn ahead(&self) -> Option<Self> {
        (!self.queue).then_some(*self)
    }

    fn half(&self, at: Moment) -> Option<u64> {
        Some(at.tick + self.half)
    }

    fn forgive(&self, _: u64, at: Moment) -> u64 {
        at.tick
    }
}

impl Numbers for Gcra {
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
        let tick = self.moment(now).tick;
        let tat = self.tat(payload).max(tick) + cost * self.price;
        // Who finds no room in a queue has no turn to wait for.
        let full = self.queue && tat - tick > self.full;
        if full { self.retry_after(payload, Ring::NONE, now, cost) } else { self.delay(tat, now, cost) }
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
