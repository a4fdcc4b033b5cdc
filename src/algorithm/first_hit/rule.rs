//! The rule behind both forms: when a key's debt ends, and how much of it the last interval pays.
//!
//! ```text
//!   61                       w   w-1        0
//!  +---------------------------+--------------+
//!  |  end of the debt, in ticks |  last units |
//!  +---------------------------+--------------+
//!
//!           refill        refill        last units
//!   used  |------------|-------------|------------|
//!        now          ...   one period before    end
//! ```
//!
//! A window is the same with one interval, which pays everything. A larger payload has its debt for
//! longer, so the table finds the key that is idle longest. But of two debts with different phases
//! neither is the larger at all later times: there is no `half`.
//!
//! # Refunds
//!
//! A window gives back what the same window has counted. In a bucket the refills pay the oldest
//! units first. Up to and with the request, `charged` tells how many units were in debt, and how
//! many of them still are: the request's own units are the last of these. Once another request than
//! the newest was given back, that is too many. What still holds: the refills since the request
//! paid at most so many of its units. Only a debit books ahead here, which changes nothing of that.
//!
//! ```text
//!   since the charge, only newest requests came back:   back = min(cost, used of `charged` now)
//!   otherwise:                                          back = cost - refill * intervals since
//! ```

use crate::algorithm::change::Unit;
use crate::algorithm::{
    Booking, Carry, CountPolicy, Moment, Numbers, Order, PAYLOAD_BITS, Payload, Ranged, Refund, Ringed, Rule,
    Stored, Taken, UPTIME, Verdict,
};
use crate::bits::{Field, bits};
use crate::error::BuildError;
use crate::ring::Ring;
use crate::time::{Shift, Timestamp};

/// A tick is at most this part of the period.
const FINE: u64 = 1_000;

/// What the end of an interval pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Everything.
    Window,
    /// The refill.
    Bucket,
}

/// The clock of one table, and the fields of its words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    end: Field,
    units: Field,
    /// A tick is `1 << shift` nanoseconds.
    shift: u32,
    /// The start of the version, on the clock of the limiter.
    since: u64,
    /// The last nanosecond after it for which ends have room. The clock stands still from there on:
    /// it fails closed.
    last: u64,
    /// The tick at the start of the version. Smaller ends are of older versions, and none is 0.
    first: u64,
    /// Ticks of an interval.
    period: u64,
    /// Ticks until the debt of an empty bucket of any tier ends.
    longest: u64,
}

impl Ticks {
    /// The finest ticks that leave room for the uptime and the longest debt beside the units, from
    /// `since` on, above `top`. An error names the largest count that would fit.
    pub(super) fn fit(
        form: Form,
        period: u64,
        most: u64,
        longest: u64,
        since: u64,
        top: u64,
    ) -> Result<Self, BuildError> {
        let fit = |most| Self::try_fit(form, period, most, longest, since, top);
        fit(most).ok_or_else(|| {
            let largest = (0..u64::BITS).rev().fold(0, |found, bit| {
                let larger = found | 1 << bit;
                if fit(larger).is_some() { larger } else { found }
            });
            BuildError::OutOfRange { field: "rate.count", value: most.into(), min: 1, max: largest.into() }
        })
    }

    fn try_fit(form: Form, period: u64, most: u64, longest: u64, since: u64, top: u64) -> Option<Self> {
        // A window also counts beyond its limit.
        let most = if form == Form::Window { most.checked_mul(2)? } else { most };
        let width = bits(most);
        let units = Field::lowest(width);
        let end = units.above(PAYLOAD_BITS.checked_sub(width).filter(|&left| left > 0)?);
        let first = (top >> width) + 1;
        let uptime = UPTIME.saturating_sub(since).max(UPTIME / 10);
        (0..u64::BITS).take_while(|&shift| shift == 0 || 1 << shift <= period / FINE).find_map(|shift| {
            // A request comes at most one tick after the start of its tick.
            let period = period.div_ceil(1 << shift) + u64::from(shift > 0);
            let longest = period.checked_mul(longest)?;
            let last = end.max().checked_sub(first)?.checked_sub(longest)?;
            (last > uptime >> shift).then(|| {
                let last = u64::try_from((u128::from(last) << shift) - 1).unwrap_or(u64::MAX);
                Self { end, units, shift, since, last, first, period, longest }
            })
        })
    }

    /// The first nanosecond of a tick on the limiter's clock, which may lie before its zero.
    fn nanos(&self, tick: u64) -> i128 {
        ((i128::from(tick) - i128::from(self.first)) << self.shift) + i128::from(self.since)
    }

    /// The first tick at or after this nanosecond, at most the largest.
    fn tick_after(&self, nanos: i128) -> u64 {
        let ticks = (nanos - i128::from(self.since) + ((1 << self.shift) - 1)) >> self.shift;
        (ticks + i128::from(self.first)).clamp(0, self.end.max().into()) as u64
    }
}

/// A window or bucket whose intervals begin with the key's first request.
#[derive(Clone, Copy, Debug)]
pub struct FirstHitRule {
    pub(super) ticks: Ticks,
    form: Form,
    /// Units that the end of an interval pays. Of a window: more than it ever counts.
    refill: u64,
    limit: u64,
    count: CountPolicy,
    /// The steps of a debt per unit: they tell where in its interval a key is.
    price: u64,
    /// The payload of a key that was never seen. A payload below the floor stands for it.
    start: Payload,
    /// The smallest `start` of all tiers.
    idle: Payload,
}

impl FirstHitRule {
    pub(super) fn new(ticks: Ticks, form: Form, refill: u64, limit: u64, count: CountPolicy) -> Self {
        let refill = if form == Form::Window { ticks.units.max() } else { refill };
        let none = Payload(ticks.end.of(ticks.first));
        let price = ticks.period.min((1 << 60) / limit.max(refill)).max(1);
        Self { ticks, form, refill, limit, count, price, start: none, idle: none }
    }

    /// Where counts stop.
    pub(crate) fn ceiling(&self) -> u64 {
        if self.form == Form::Window { self.ticks.units.max() } else { self.limit }
    }

    /// Whether the end of an interval pays everything.
    #[cfg(test)]
    pub(crate) fn is_window(&self) -> bool {
        self.form == Form::Window
    }

    /// Nanoseconds of a tick.
    pub(crate) fn tick(&self) -> u64 {
        1 << self.ticks.shift
    }

    /// The debt of so many units at the start of an interval.
    pub(super) fn debt_of(&self, units: u64) -> u64 {
        units.saturating_mul(self.price)
    }

    /// The intervals after the current one in which debt up to `end` remains.
    #[inline]
    fn behind(&self, end: u64, tick: u64) -> u64 {
        let left = end.saturating_sub(tick);
        if left <= self.ticks.period || self.form == Form::Window {
            0
        } else {
            (left - 1) / self.ticks.period
        }
    }

    /// The end of the key's current interval, and its units in debt. A key without debt begins an
    /// interval now.
    #[inline]
    fn seen(&self, payload: Payload, tick: u64) -> (u64, u64) {
        let Ticks { end, units, period, .. } = self.ticks;
        let payload = if payload < self.floor_payload() { self.start } else { payload };
        let (end, units) = (end.get(payload.0), units.get(payload.0));
        if end <= tick || units == 0 {
            // A late request does not lower the end.
            return (tick.max(end.saturating_sub(period)) + period, 0);
        }
        let behind = self.behind(end, tick);
        (end - behind * period, behind.saturating_mul(self.refill).saturating_add(units))
    }

    /// The payload of a key with so many units in debt, whose current interval ends at `end`.
    #[inline]
    fn payload(&self, end: u64, used: u64) -> Payload {
        let Ticks { end: ends, units, period, .. } = self.ticks;
        let behind =
            if used <= self.refill || self.form == Form::Window { 0 } else { (used - 1) / self.refill };
        let end = end.saturating_add(behind.saturating_mul(period)).min(ends.max());
        Payload(ends.of(end) | (used - behind * self.refill).min(units.max()))
    }

    fn floor_payload(&self) -> Payload {
        Payload(self.ticks.end.of(self.ticks.first))
    }

    /// Nanoseconds from `now` until this tick; `u64::MAX` if the clock never reaches it.
    fn until(&self, tick: u64, now: Timestamp) -> u64 {
        let when = self.ticks.nanos(tick);
        if when - i128::from(self.ticks.since) > i128::from(self.ticks.last) {
            return u64::MAX;
        }
        u64::try_from((when - i128::from(now.as_nanos())).max(0)).unwrap_or(u64::MAX)
    }

    /// The units of `taken` that are certainly still in debt at `tick`.
    fn remaining_debt(&self, payload: Payload, taken: Taken, tick: u64, order: Order) -> u64 {
        let Taken { charged, since, cost } = taken;
        let end = self.ticks.end.get(charged.0);
        match (self.form, order) {
            (Form::Window, _) if self.ticks.end.get(payload.0) == end => cost,
            // A reset has forgiven the debt meanwhile.
            (Form::Bucket, Order::Kept) if payload >= charged => cost.min(self.seen(charged, tick).1),
            (Form::Bucket, Order::Lost | Order::LostAndBooked) if tick < end => {
                let intervals = self.behind(end, since.tick) - self.behind(end, tick);
                cost.saturating_sub(intervals.saturating_mul(self.refill))
            }
            _ => 0,
        }
    }
}

impl Ranged for FirstHitRule {
    const RANGED: bool = true;

    fn is_early(&self) -> bool {
        self.ticks.since == 0
    }

    #[inline]
    fn early(&self, now: Timestamp) -> Moment {
        self.after(now.as_nanos())
    }

    #[inline]
    fn after(&self, elapsed: u64) -> Moment {
        Moment { tick: self.ticks.first + (elapsed >> self.ticks.shift), elapsed: 0 }
    }

    fn last(&self) -> u64 {
        self.ticks.last
    }

    #[inline]
    fn floor(&self) -> u64 {
        self.floor_payload().0
    }

    fn top(&self, until: u64) -> u64 {
        let Ticks { end, units, longest, .. } = self.ticks;
        end.of((self.after(until).tick + longest).min(end.max())) | units.max()
    }

    fn needs(&self, payload: Payload, at: Moment) -> u64 {
        let Ticks { end, longest, since, .. } = self.ticks;
        // Of a request at an earlier time than the key has seen, or one that was booked.
        let tick = end.get(payload.0).saturating_sub(longest);
        let needed = self.ticks.nanos(tick) - i128::from(since);
        if tick <= at.tick { 0 } else { u64::try_from(needed).unwrap_or(u64::MAX) }
    }

    #[inline]
    fn own(&self, stored: Stored, at: Moment) -> Option<Payload> {
        let is_own = stored.bits() >= self.floor()
            && self.ticks.end.get(stored.bits()) <= at.tick + self.ticks.longest;
        is_own.then(|| Payload(stored.bits()))
    }

    /// A later version's units may be fewer than the limit: they read as the most.
    fn beyond(&self, stored: Stored) -> Option<Payload> {
        Some(Payload(stored.bits() | self.ticks.units.max()))
    }

    /// At no later time either: its interval ends no later, and it has no more units.
    fn is_least(&self, payload: Payload) -> bool {
        let ((end, used), (idle, units)) =
            (self.seen(payload, self.ticks.first), self.seen(self.idle, self.ticks.first));
        end <= idle && used <= units
    }

    fn unit(&self) -> Unit {
        Unit { price: self.price, burst: self.limit, step: self.price }
    }

    /// The units, less the share of the current interval that is over.
    fn debt(&self, payload: Payload, at: Moment) -> u64 {
        let (end, used) = self.seen(payload, at.tick);
        let over = self.ticks.period.saturating_sub(end - at.tick);
        let share = u128::from(over) * u128::from(self.price) / u128::from(self.ticks.period);
        self.debt_of(used).saturating_sub(share as u64)
    }

    fn owing(&self, debt: u64) -> Payload {
        let used = debt.div_ceil(self.price);
        let share = u128::from(used) * u128::from(self.price) - u128::from(debt);
        let over = share * u128::from(self.ticks.period) / u128::from(self.price);
        let end = self.ticks.first + self.ticks.period - over as u64;
        if used == 0 { self.floor_payload() } else { self.payload(end, used) }
    }

    fn starting(self, debt: u64, least: u64) -> Self {
        Self { start: self.owing(debt), idle: self.owing(least), ..self }
    }
}

impl Ringed for FirstHitRule {}

impl Rule for FirstHitRule {
    #[inline]
    fn limit(&self) -> u64 {
        self.limit
    }

    #[inline]
    fn moment(&self, now: Timestamp) -> Moment {
        self.after(now.as_nanos().saturating_sub(self.ticks.since).min(self.ticks.last))
    }

    #[inline]
    fn decide(&self, payload: Payload, _: Ring<'_>, at: Moment, cost: u64) -> Verdict {
        let (end, used) = self.seen(payload, at.tick);
        let count = used.saturating_add(cost);
        if count <= self.limit {
            return Verdict::Allow(self.payload(end, count));
        }
        let count = count.min(self.ceiling());
        match self.count {
            CountPolicy::All if count > used => Verdict::DenyAndCount(self.payload(end, count)),
            _ => Verdict::Deny(payload),
        }
    }

    fn expired(&self, payload: Payload, at: Moment) -> bool {
        self.ticks.end.get(payload.0) <= at.tick
    }

    fn is_in_debt(&self, payload: Payload, at: Moment) -> bool {
        self.seen(payload, at.tick).1 > self.seen(Payload::UNSEEN, at.tick).1
    }

    /// The slot stays the key's until the interval ends.
    fn forgive(&self, payload: Payload, at: Moment) -> Payload {
        let (end, unseen) = self.seen(Payload::UNSEEN, at.tick);
        if unseen > 0 { self.payload(end, unseen) } else { self.payload(self.seen(payload, at.tick).0, 0) }
    }

    fn refund(&self, payload: Payload, taken: Taken, at: Moment, order: Order) -> Option<Refund> {
        let tick = at.tick.max(taken.since.tick);
        let ((end, used), (_, unseen)) = (self.seen(payload, tick), self.seen(Payload::UNSEEN, tick));
        let most = used.saturating_sub(unseen);
        let units = self.remaining_debt(payload, taken, tick, order).min(most);
        (units > 0).then(|| Refund { payload: self.payload(end, used - units), units })
    }

    /// The next payload with units: without, it would have no debt.
    fn bump(&self, payload: Payload) -> Payload {
        let units = self.ticks.units;
        let more = if units.get(payload.0) == units.max() { units.max() + 1 } else { 1 };
        Payload(payload.0 + more)
    }

    fn less(&self, charged: Payload, units: u64) -> Payload {
        let Ticks { end, units: field, period, .. } = self.ticks;
        let (ends, last) = (end.get(charged.0), field.get(charged.0));
        if self.form == Form::Window || units < last {
            return if self.form == Form::Window { charged } else { Payload(charged.0 - units) };
        }
        let before = (units - last) / self.refill + 1;
        let last = last + before * self.refill - units;
        Payload(end.of(ends.saturating_sub(before * period)) | last.min(field.max()))
    }

    fn reorders(&self, payload: Payload, taken: Taken) -> bool {
        self.form == Form::Bucket && payload != taken.charged
    }
}

impl Booking for FirstHitRule {
    fn ahead(&self) -> Option<Self> {
        Some(Self { count: CountPolicy::Allowed, ..*self })
    }

    /// A window counts up to its ceiling; a bucket's debt ends within the term at the latest.
    fn debit(&self, payload: Payload, at: Moment, cost: u64, last: u64) -> Option<(u64, Payload)> {
        let (end, used) = self.seen(payload, at.tick);
        let latest = self.ticks.end.get(self.top(last.min(self.last())));
        let behind = latest.saturating_sub(end) / self.ticks.period;
        let most = match self.form {
            Form::Window => self.ceiling(),
            Form::Bucket => self.refill.saturating_mul(behind + 1),
        };
        let units = cost.min(most.saturating_sub(used));
        Some((units, self.payload(end, used + units)))
    }
}

impl Numbers for FirstHitRule {
    fn remaining_at(&self, payload: Payload, _: Ring<'_>, at: Moment) -> u64 {
        self.limit.saturating_sub(self.seen(payload, at.tick).1)
    }

    fn retry_after(&self, payload: Payload, _: Ring<'_>, now: Timestamp, cost: u64) -> u64 {
        let (end, used) = self.seen(payload, self.moment(now).tick);
        // The end of the interval that pays the last unit that is too many.
        let over = used.saturating_add(cost).saturating_sub(self.limit);
        if over == 0 { 0 } else { self.until(self.ticks.end.get(self.payload(end, over).0), now) }
    }

    fn reset_after(&self, payload: Payload, ring: Ring<'_>, now: Timestamp) -> u64 {
        let (end, used) = self.seen(payload, self.moment(now).tick);
        if used == 0 { 0 } else { self.vacant_after(self.payload(end, used), ring, now) }
    }

    fn vacant_after(&self, payload: Payload, _: Ring<'_>, now: Timestamp) -> u64 {
        self.until(self.ticks.end.get(payload.0), now)
    }
}

impl Carry for FirstHitRule {
    /// The payload of a key never seen, where that has debt since the first clock.
    fn origin(&self, fresh: &Self, now: Timestamp) -> u64 {
        self.anew(self.start, fresh, now).0
    }

    fn with_origin(self, origin: u64) -> Self {
        let start = Payload(origin).max(self.floor_payload());
        Self { start, idle: self.floor_payload(), ..self }
    }

    fn resuming(self, saved: &Self, shift: Shift) -> Self {
        let start = self.carry(saved.start.0, saved, shift);
        self.with_origin(start.0)
    }

    /// The debt ends at the first tick of this clock that is not earlier.
    fn carry(&self, payload: u64, saved: &Self, shift: Shift) -> Payload {
        let Ticks { end, units, first, .. } = self.ticks;
        let ends = self.ticks.tick_after(saved.ticks.nanos(saved.ticks.end.get(payload)) + shift.nanos());
        let units = units.get(payload);
        if ends <= first || units == 0 { Payload::UNSEEN } else { Payload(end.of(ends) | units) }
    }

    fn anew(&self, payload: Payload, fresh: &Self, now: Timestamp) -> Payload {
        let ends = self.ticks.end.get(payload.0);
        let units = self.ticks.units.get(payload.0).min(fresh.ticks.units.max());
        if ends <= self.moment(now).tick || units == 0 {
            return Payload::UNSEEN;
        }
        Payload(fresh.ticks.end.of(fresh.ticks.tick_after(self.ticks.nanos(ends))) | units)
    }
}
