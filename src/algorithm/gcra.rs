//! The rule behind both buckets: the generic cell rate algorithm.
//!
//! The payload is the *theoretical arrival time* (TAT): the instant at which the bucket is full
//! again (the leaky bucket is empty again), in grains of its [`Refill`] clock. With `now` in the
//! same grains:
//!
//! ```text
//!   base = max(TAT, now)
//!   admitted  iff  base + cost * price - now <= burst * price      then TAT = base + cost * price
//! ```
//!
//! # Refunds
//!
//! A request left the TAT `charged` and is given back later. The refund lowers the TAT by the debt
//! that the request certainly still causes. That is not always its cost: without the request the
//! bucket might have been full in between, and would have lost refill.
//!
//! ```text
//!   since the charge, only       back = min(cost * price, charged - now), less TAT - charged
//!   newest requests came back:     while a request is booked ahead, and TAT - now > burst * price
//!   otherwise:                   back = min(cost * price, the larger of
//!                                  cost * price - (now - since), and the least debt since the
//!                                  charge, as the key's refunds remember it),
//!                                  or nothing if a request may have been booked ahead since
//! ```
//!
//! Until `charged` the bucket was never full, so `charged - now` of the request is not refilled
//! yet. A request that is booked ahead relies on the earlier charges. Once another request than the
//! newest was given back, `charged` is too late an instant, and the TAT no longer shows which
//! requests are booked. What still holds: the bucket cannot have been full for longer than
//! `now - since`, and not while its debt was above zero: see [`staircase`](super::staircase).
//! `proof/model/tests/refund_search.rs` tries the rule on every short sequence of checks,
//! reservations, refunds and cancellations. In a queue only the newest request can be given back.
//!
//! A *reservation* that may wait for `w` is decided as a request of a larger bucket: larger by the
//! refill of `w`. It departs when the bucket of the true size would admit it, at
//! `TAT - burst * price`.
//!
//! Source: ITU-T I.371 (1996), virtual scheduling; the equivalence with the token bucket is in its
//! annex.
//!
//! Where quotas come with calls, a grain is a nanosecond. Every debt falls by a nanosecond each
//! nanosecond, under any quotas. So the order of two debts holds at every later time.

use crate::algorithm::change::Unit;
use crate::algorithm::refill::{Bucket, Refill, Room, half};
use crate::algorithm::staircase::Owed;
use crate::algorithm::{
    Booking, Carry, Moment, Numbers, Payload, Ranged, Refund, RefundOrder, Ringed, Rule, Stored, Taken,
    Transition, Verdict,
};
use crate::error::BuildError;
use crate::ring::Ring;
use crate::time::{Shift, Timestamp};

/// A bucket in grains.
#[derive(Clone, Copy, Debug)]
pub struct Gcra {
    pub(crate) refill: Refill,
    /// Grains per token.
    pub(crate) price: u64,
    /// Grains in a full bucket.
    pub(crate) full: u64,
    /// Grains by which a TAT may lie ahead: those of a full bucket, and what a request that waits
    /// for its turn may exceed it by.
    pub(crate) room: u64,
    /// Grains in half of the smallest bucket of the table.
    pub(crate) half: u64,
    /// The TAT of every bucket at the start of the refill clock. It is above the floor of the clock
    /// when buckets do not start full. A payload below it stands for it.
    pub(crate) start: u64,
    /// The smallest `start` of all tiers: no key has less debt.
    pub(crate) idle: u64,
    /// The grains by which an older version's debts are paid later: see [`Refill::later_than`].
    later: i64,
    /// Tokens in a full bucket.
    pub(crate) burst: u64,
    /// Whether admitted requests wait for their turn.
    pub(crate) queue: bool,
    /// Whether quotas come with calls: a grain is a nanosecond, under every quota and in every
    /// version.
    by_call: bool,
}

impl Gcra {
    /// The longest emission interval and the largest tolerance of a quota that comes with a call:
    /// 36 years. So the words have room for every TAT within the first 73 years of the clock and
    /// more, which is the time that [`Refill::nanoseconds`] counts.
    pub(crate) const MOST_OF_CALL: u64 = (1 << 60) - 1;

    /// The rule of a quota that comes with a call, both numbers in nanoseconds up to
    /// `MOST_OF_CALL`. Half of the tolerance of the call that asks may be inherited.
    #[inline]
    pub(crate) fn by_call(emission: u64, tolerance: u64) -> Self {
        Self {
            refill: Refill::nanoseconds(tolerance, Self::MOST_OF_CALL),
            price: emission,
            full: tolerance,
            room: tolerance,
            half: tolerance / 2,
            start: 0,
            idle: 0,
            later: 0,
            burst: tolerance / emission,
            queue: false,
            by_call: true,
        }
    }

    /// The rules of all tiers of a table. After a change, for a table that the older rules have
    /// written.
    pub(crate) fn tiers(
        buckets: &[Bucket],
        change: Option<(&[Self], Transition<'_>)>,
    ) -> Result<Vec<Self>, BuildError> {
        let room = change.map_or(Room::ALL, |(olds, change)| {
            let top = olds.first().map_or(0, |old| old.refill.top(change.until));
            Room::after(change.since, top + 1)
        });
        let (refill, prices) = Refill::fit(buckets, room)?;
        let half = half(buckets, &prices);
        let old = change.and_then(|(olds, _)| olds.first());
        let later = old.map_or(0, |old| refill.later_than(&old.refill));
        let rule = |(bucket, &price): (&Bucket, &u64)| {
            let (burst, full, start) = (bucket.burst, bucket.burst * price, refill.floor());
            let (queue, by_call) = (bucket.queue, false);
            Self { refill, price, full, room: full, half, start, idle: start, later, burst, queue, by_call }
        };
        Ok(buckets.iter().zip(&prices).map(rule).collect())
    }

    /// Sets the tokens in the buckets of each tier at the zero of the clock.
    pub(crate) fn start_with(rules: &mut [Self], tokens: impl Iterator<Item = u64>) {
        let debts: Vec<u64> =
            rules.iter().zip(tokens).map(|(rule, tokens)| (rule.burst - tokens) * rule.price).collect();
        let least = debts.iter().copied().min().unwrap_or(0);
        rules.iter_mut().zip(debts).for_each(|(rule, debt)| *rule = rule.starting(debt, least));
    }

    /// The TAT of a payload.
    #[inline]
    fn tat(&self, payload: Payload) -> u64 {
        payload.0.max(self.start)
    }
}

impl Ranged for Gcra {
    const RANGED: bool = true;

    #[inline]
    fn is_ranged(&self) -> bool {
        !self.by_call
    }

    fn is_early(&self) -> bool {
        self.refill.is_whole()
    }

    #[inline]
    fn early(&self, now: Timestamp) -> Moment {
        Moment { tick: self.refill.whole(now.as_nanos()), elapsed: 0 }
    }

    #[inline]
    fn after(&self, elapsed: u64) -> Moment {
        Moment { tick: self.refill.after(elapsed), elapsed: 0 }
    }

    fn last(&self) -> u64 {
        self.refill.last()
    }

    #[inline]
    fn floor(&self) -> u64 {
        self.refill.floor()
    }

    fn top(&self, until: u64) -> u64 {
        self.refill.top(until)
    }

    fn needs(&self, payload: Payload, at: Moment) -> u64 {
        // Only a booked payload is larger than that of an empty bucket at the time of the clock.
        if payload.0 <= at.tick + self.full { 0 } else { self.refill.needs(payload.0) }
    }

    #[inline]
    fn own(&self, stored: Stored, _: Moment) -> Option<Payload> {
        (stored.bits() >= self.start).then(|| Payload(stored.bits()))
    }

    fn unit(&self) -> Unit {
        Unit { price: self.price, burst: self.burst, step: 1 }
    }

    fn debt(&self, payload: Payload, at: Moment) -> u64 {
        self.tat(payload).saturating_sub(at.tick)
    }

    fn owing(&self, debt: u64) -> Payload {
        let most = || self.full.saturating_add_signed(self.later);
        let debt = match self.later {
            // However often the steps are moved, a debt is longer by one step at most.
            1.. if debt > 0 => debt.max(debt.saturating_add_signed(self.later).min(most())),
            _ => debt.saturating_add_signed(self.later.min(0)),
        };
        // The clock never reaches the top of a word.
        Payload(self.refill.floor().saturating_add(debt).min(Refill::TOP))
    }

    fn starting(self, debt: u64, least: u64) -> Self {
        Self { start: self.owing(debt).0, idle: self.owing(least).0, ..self }
    }
}

impl Ringed for Gcra {}

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
    fn decide(&self, payload: Payload, _: Ring<'_>, at: Moment, cost: u64) -> Verdict {
        let tat = self.tat(payload).max(at.tick) + cost * self.price;
        if tat - at.tick <= self.room { Verdict::Allow(Payload(tat)) } else { Verdict::Deny(payload) }
    }

    #[inline]
    fn expired(&self, payload: Payload, at: Moment) -> bool {
        payload.0 <= at.tick.max(self.idle)
    }

    fn forgive(&self, _: Payload, at: Moment) -> Payload {
        Payload(at.tick)
    }

    fn refund(&self, payload: Payload, taken: Taken, at: Moment, order: RefundOrder) -> Option<Refund> {
        let Taken { charged: Payload(charged), since, cost } = taken;
        let Payload(payload) = payload;
        let (now, cost) = (at.tick.max(since.tick), cost.saturating_mul(self.price));
        let debt = payload.saturating_sub(now.max(self.start));
        let (back, rest, short) = Owed { since: since.tick, cost, charged, now, debt }.back(order);
        let is_newest = matches!(order, RefundOrder::Kept | RefundOrder::KeptAndBooked) && payload == charged;
        let (back, rest, short) = match order {
            _ if is_newest => (back, rest, short),
            _ if self.queue => (0, 0, back + short),
            // A reset has forgiven the debt meanwhile.
            RefundOrder::Kept | RefundOrder::KeptAndBooked if payload < charged => (0, 0, 0),
            // The quotas of the requests that are booked ahead may be any.
            RefundOrder::KeptAndBooked if self.by_call => (0, 0, back + short),
            RefundOrder::KeptAndBooked if payload > now + self.full => {
                // What requests that are booked ahead rely on stays.
                let kept = back.min(payload - charged);
                (back - kept, 0, kept)
            }
            _ => (back, rest, short),
        };
        let (units, short) = (back.div_ceil(self.price), short / self.price);
        (units + short > 0).then(|| Refund { payload: Payload(payload - back), units, short, rest })
    }

    fn inheritable(&self, at: Moment) -> Option<Payload> {
        Some(Payload(at.tick + self.half))
    }

    /// Half of the tolerance of one call may be any time at all of another's.
    fn may_share(&self) -> bool {
        !self.by_call
    }

    fn less(&self, charged: Payload, units: u64) -> Payload {
        Payload(charged.0.saturating_sub(units * self.price))
    }

    fn needs_order(&self) -> bool {
        !self.queue
    }
}

impl Booking for Gcra {
    /// Each request of a queue has its own departure.
    fn ahead(&self) -> Option<Self> {
        (!self.queue).then_some(*self)
    }

    fn patient(&self, now: Timestamp, max_wait: u64, cost: u64) -> Option<Self> {
        let drips = self.refill.drips(now.as_nanos(), max_wait);
        let room = if self.queue { self.full.min(drips + cost * self.price) } else { self.full + drips };
        Some(Self { room, ..*self })
    }

    /// No TAT is earlier than the departure, and there the bucket has its own room. A queue has
    /// departures of its own.
    fn departing(&self, now: Timestamp, wait: u64) -> Option<Self> {
        if self.queue {
            return None;
        }
        let drips = self.refill.drips(now.as_nanos(), wait);
        let departure = self.refill.at(now.as_nanos()) + drips;
        Some(Self { start: self.start.max(departure), room: self.full + drips, ..*self })
    }

    fn debit(&self, payload: Payload, at: Moment, cost: u64, last: u64) -> Option<(u64, Payload)> {
        let (tat, end) = (self.tat(payload).max(at.tick), self.refill.top(last.min(self.refill.last())));
        let units = cost.min(end.saturating_sub(tat) / self.price);
        Some((units, Payload(tat + units * self.price)))
    }

    fn wait(&self, payload: Payload, now: Timestamp, cost: u64) -> u64 {
        let tick = self.moment(now).tick;
        let tat = self.tat(payload).max(tick) + cost * self.price;
        // A request that finds no room in a queue has no turn to wait for.
        let full = self.queue && tat - tick > self.full;
        if full {
            self.retry_after(payload, Ring::NONE, now, cost)
        } else {
            self.delay(Payload(tat), now, cost)
        }
    }

    fn delay(&self, payload: Payload, now: Timestamp, cost: u64) -> u64 {
        let behind = if self.queue { cost * self.price } else { self.full };
        if cost > 0 { self.refill.until(payload.0.saturating_sub(behind), now.as_nanos()) } else { 0 }
    }
}

impl Numbers for Gcra {
    fn remaining_at(&self, payload: Payload, _: Ring<'_>, at: Moment) -> u64 {
        (at.tick + self.full).saturating_sub(self.tat(payload).max(at.tick)) / self.price
    }

    fn retry_after(&self, payload: Payload, _: Ring<'_>, now: Timestamp, cost: u64) -> u64 {
        let earliest = (self.tat(payload) + cost * self.price).saturating_sub(self.full);
        self.refill.until(earliest, now.as_nanos())
    }

    fn reset_after(&self, payload: Payload, _: Ring<'_>, now: Timestamp) -> u64 {
        self.refill.until(self.tat(payload), now.as_nanos())
    }

    /// Where buckets do not start full, that may be before the key has all.
    fn vacant_after(&self, payload: Payload, _: Ring<'_>, now: Timestamp) -> u64 {
        self.refill.until(payload.0, now.as_nanos())
    }
}

impl Carry for Gcra {
    fn of_call(emission: u64, tolerance: u64) -> Option<Self> {
        Some(Self::by_call(emission, tolerance))
    }

    /// The TAT at the start of the first clock. Later clocks do not start with a debt again.
    fn origin(&self, fresh: &Self, now: Timestamp) -> u64 {
        self.anew(Payload(self.start), fresh, now).0
    }

    fn with_origin(self, start: u64) -> Self {
        Self { start, idle: 0, ..self }
    }

    fn resuming(self, saved: &Self, shift: Shift) -> Self {
        let start = self.carry(saved.start, saved, shift).0;
        self.with_origin(start)
    }

    /// The remaining debt, in grains of the fresh rule.
    fn anew(&self, payload: Payload, fresh: &Self, now: Timestamp) -> Payload {
        let debt = payload.0.saturating_sub(self.refill.at(now.as_nanos()));
        if debt == 0 {
            return Payload::UNSEEN;
        }
        let owed = (u128::from(debt) * u128::from(fresh.price)).div_ceil(u128::from(self.price));
        let tat = u128::from(fresh.refill.at(now.as_nanos())) + owed;
        Payload(u64::try_from(tat).unwrap_or(u64::MAX).min(Refill::TOP))
    }

    fn carry(&self, tat: u64, saved: &Self, shift: Shift) -> Payload {
        Payload(self.refill.carry(tat, &saved.refill, shift))
    }
}
