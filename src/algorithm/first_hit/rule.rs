//! The rule of a window from the first hit: when the key's window ends, and what it has counted.
//!
//! ```text
//!   61                       w   w-1        0
//!  +---------------------------+--------------+
//!  | end of the window, ticks  |    count     |
//!  +---------------------------+--------------+
//! ```
//!
//! A larger payload has its debt for longer, so the table finds the key that is idle longest. But
//! of two windows with different ends neither has the larger count at all later times: there is no
//! `inheritable`.

use crate::algorithm::change::Unit;
use crate::algorithm::{
    Booking, Carry, CountPolicy, Moment, Numbers, PAYLOAD_BITS, Payload, Ranged, Refund, RefundOrder, Ringed,
    Rule, Stored, Taken, UPTIME, Verdict,
};
use crate::bits::{Field, bits};
use crate::ring::Ring;
use crate::time::{Shift, Timestamp};

/// A tick is at most this part of the period.
const FINE: u64 = 1_000;

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
    /// Ticks of a window.
    period: u64,
}

impl Ticks {
    /// The largest limit that [fits](Self::fit).
    pub(super) fn most(period: u64, since: u64, top: u64) -> u64 {
        (0..u64::BITS).rev().fold(0, |found, bit| {
            let larger = found | 1 << bit;
            if Self::fit(period, larger, since, top).is_some() { larger } else { found }
        })
    }

    /// The finest ticks that leave room for the uptime and a window beside limits up to `most`,
    /// from `since` on, above `top`.
    pub(super) fn fit(period: u64, most: u64, since: u64, top: u64) -> Option<Self> {
        // A window also counts beyond its limit.
        let width = bits(most.checked_mul(2)?);
        let units = Field::lowest(width);
        let end = units.above(PAYLOAD_BITS.checked_sub(width).filter(|&left| left > 0)?);
        let first = (top >> width) + 1;
        let uptime = UPTIME.saturating_sub(since).max(UPTIME / 10);
        (0..u64::BITS).take_while(|&shift| shift == 0 || 1 << shift <= period / FINE).find_map(|shift| {
            // A request comes at most one tick after the start of its tick.
            let period = period.div_ceil(1 << shift) + u64::from(shift > 0);
            let last = end.max().checked_sub(first)?.checked_sub(period)?;
            (last > uptime >> shift).then(|| {
                let last = u64::try_from((u128::from(last) << shift) - 1).unwrap_or(u64::MAX);
                Self { end, units, shift, since, last, first, period }
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

/// A window that begins with the key's first request.
#[derive(Clone, Copy, Debug)]
pub struct FirstHitRule {
    pub(super) ticks: Ticks,
    limit: u64,
    count: CountPolicy,
    /// The steps of a debt per unit: they tell where in its window a key is.
    price: u64,
    /// The payload of a key that was never seen. A payload below the floor stands for it.
    start: Payload,
    /// The smallest `start` of all tiers.
    idle: Payload,
}

impl FirstHitRule {
    pub(super) fn new(ticks: Ticks, limit: u64, count: CountPolicy) -> Self {
        let none = Payload(ticks.end.of(ticks.first));
        let price = ticks.period.min((1 << 60) / ticks.units.max()).max(1);
        Self { ticks, limit, count, price, start: none, idle: none }
    }

    /// Where counts stop.
    pub(crate) fn ceiling(&self) -> u64 {
        self.ticks.units.max()
    }

    /// Nanoseconds of a tick.
    pub(crate) fn tick(&self) -> u64 {
        1 << self.ticks.shift
    }

    /// The end of the key's window, and its count. A key without debt is like one never seen, which
    /// begins a window now, where a change of the quota left it none.
    #[inline]
    fn seen(&self, payload: Payload, tick: u64) -> (u64, u64) {
        let Ticks { end, units, period, .. } = self.ticks;
        let payload = if payload < self.floor_payload() { self.start } else { payload };
        let window = |payload: Payload| (end.get(payload.0), units.get(payload.0));
        let ((end, used), (start, unseen)) = (window(payload), window(self.start));
        if end > tick && used > 0 {
            (end, used)
        } else if start > tick && unseen > 0 {
            // The table may have forgotten the key: it has the debt of a key never seen.
            (start, unseen)
        } else {
            // A late request does not lower the end.
            (tick.max(end.saturating_sub(period)) + period, 0)
        }
    }

    /// The payload of a key with this count, whose window ends at `end`.
    #[inline]
    fn payload(&self, end: u64, used: u64) -> Payload {
        let Ticks { end: ends, units, .. } = self.ticks;
        Payload(ends.of(end.min(ends.max())) | used.min(units.max()))
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
        let Ticks { end, units, period, .. } = self.ticks;
        end.of((self.after(until).tick + period).min(end.max())) | units.max()
    }

    fn needs(&self, payload: Payload, at: Moment) -> u64 {
        let Ticks { end, period, since, .. } = self.ticks;
        // Of a request at an earlier time than the key has seen.
        let tick = end.get(payload.0).saturating_sub(period);
        let needed = self.ticks.nanos(tick) - i128::from(since);
        if tick <= at.tick { 0 } else { u64::try_from(needed).unwrap_or(u64::MAX) }
    }

    #[inline]
    fn own(&self, stored: Stored, at: Moment) -> Option<Payload> {
        let is_own =
            stored.bits() >= self.floor() && self.ticks.end.get(stored.bits()) <= at.tick + self.ticks.period;
        is_own.then(|| Payload(stored.bits()))
    }

    /// A later version's units may be fewer than the limit: they read as the most.
    fn beyond(&self, stored: Stored) -> Option<Payload> {
        Some(Payload(stored.bits() | self.ticks.units.max()))
    }

    /// At no later time either: its window ends no later, and it has no more units.
    fn is_least(&self, payload: Payload) -> bool {
        let ((end, used), (idle, units)) =
            (self.seen(payload, self.ticks.first), self.seen(self.idle, self.ticks.first));
        end <= idle && used <= units
    }

    fn unit(&self) -> Unit {
        Unit { price: self.price, burst: self.limit, step: self.price }
    }

    /// The units, less the share of the window that is over.
    fn debt(&self, payload: Payload, at: Moment) -> u64 {
        let (end, used) = self.seen(payload, at.tick);
        let over = self.ticks.period.saturating_sub(end - at.tick);
        let share = u128::from(over) * u128::from(self.price) / u128::from(self.ticks.period);
        used.saturating_mul(self.price).saturating_sub(share as u64)
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

    /// The slot stays the key's until the window ends.
    fn forgive(&self, payload: Payload, at: Moment) -> Payload {
        let (end, unseen) = self.seen(Payload::UNSEEN, at.tick);
        if unseen > 0 { self.payload(end, unseen) } else { self.payload(self.seen(payload, at.tick).0, 0) }
    }

    fn refund(&self, payload: Payload, taken: Taken, at: Moment, _: RefundOrder) -> Option<Refund> {
        let (tick, ends) = (at.tick.max(taken.since.tick), self.ticks.end);
        if ends.get(payload.0) != ends.get(taken.charged.0) {
            return None;
        }
        let ((end, used), (_, unseen)) = (self.seen(payload, tick), self.seen(Payload::UNSEEN, tick));
        let most = used.saturating_sub(unseen);
        let units = taken.cost.min(most);
        (units > 0).then(|| Refund::of(self.payload(end, used - units), units))
    }

    /// The next payload with units: without, it would have no debt.
    fn bump(&self, payload: Payload) -> Payload {
        let units = self.ticks.units;
        let more = if units.get(payload.0) == units.max() { units.max() + 1 } else { 1 };
        Payload(payload.0 + more)
    }
}

impl Booking for FirstHitRule {
    fn ahead(&self) -> Option<Self> {
        Some(Self { count: CountPolicy::Allowed, ..*self })
    }

    fn debit(&self, payload: Payload, at: Moment, cost: u64, _: u64) -> Option<(u64, Payload)> {
        let (end, used) = self.seen(payload, at.tick);
        let units = cost.min(self.ceiling().saturating_sub(used));
        Some((units, self.payload(end, used + units)))
    }
}

impl Numbers for FirstHitRule {
    fn remaining_at(&self, payload: Payload, _: Ring<'_>, at: Moment) -> u64 {
        self.limit.saturating_sub(self.seen(payload, at.tick).1)
    }

    fn retry_after(&self, payload: Payload, _: Ring<'_>, now: Timestamp, cost: u64) -> u64 {
        let (end, used) = self.seen(payload, self.moment(now).tick);
        if used.saturating_add(cost) <= self.limit { 0 } else { self.until(end, now) }
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
