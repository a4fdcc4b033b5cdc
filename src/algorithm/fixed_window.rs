//! The fixed window.

use std::fmt;

use crate::algorithm::windows::{Windows, shared, shared_period};
use crate::algorithm::{
    Algorithm, AnyRule, Carry, Count, Moment, Numbers, Order, Refund, Rule, Settings, Taken, Verdict, sealed,
};
use crate::bits::Field;
use crate::error::{Error, within};
use crate::rate::Rate;
use crate::ring::Ring;
use crate::time::{Shift, Timestamp};

/// A fixed window: `count` units in each aligned window of one period; a new window starts from nothing.
///
/// **Guarantee.** At most `limit` in each window. Across a boundary **twice the limit can pass in a moment**: the
/// whole of one window at its end, the whole of the next at its start. Use [`SlidingWindow`](crate::SlidingWindow) or
/// [`SlidingLog`](crate::SlidingLog) where that matters. A late caller whose time lies in an older window than the
/// key has seen is charged to the key's newer one.
///
/// **Formula.** `window = floor(unix_time / period)`; admitted iff `count + cost <= limit`.
///
/// **Memory.** One word a key: the window's number for twenty years, and the count in what is left (a million a
/// second fits with twelve bits to spare). **Source.** folklore; windows aligned to the Unix epoch as in Redis'
/// `INCR` pattern.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{FixedWindow, GlobalLimiter, ManualClock, Rate};
///
/// let clock = ManualClock::new();
/// let limiter = GlobalLimiter::builder(FixedWindow::new(Rate::per_minute(1))).clock(clock.clone()).build()?;
/// clock.advance(Duration::from_secs(59));
/// assert!(limiter.check().is_allowed());
/// assert_eq!(limiter.check().retry_after(), Some(Duration::from_secs(1)));
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.check().is_allowed());
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct FixedWindow {
    pub(super) rate: Rate,
    #[cfg_attr(feature = "serde", serde(default))]
    count: Count,
}

impl FixedWindow {
    /// At most `rate.count()` in each aligned window of `rate.period()`.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self { rate, count: Count::Allowed }
    }

    /// Which requests the window counts; only the admitted ones by default.
    #[must_use]
    pub const fn count(mut self, count: Count) -> Self {
        self.count = count;
        self
    }
}

impl fmt::Display for FixedWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fixed-window:{}", self.rate)?;
        if self.count == Count::All { write!(f, ",count=all") } else { Ok(()) }
    }
}

impl sealed::Sealed for FixedWindow {}

impl Algorithm for FixedWindow {
    type Rule = FixedRule;

    fn settings(&self) -> Settings {
        Settings::new("fixed-window", self.rate).and_count(self.count)
    }

    fn compile(tiers: &[Self], origin: u64) -> Result<Vec<FixedRule>, Error> {
        let period = shared_period(tiers.iter().map(|tier| tier.rate))?;
        let count = shared("count", tiers.iter().map(|tier| tier.count))?;
        let index = Windows::index_field(period);
        let field = Field::lowest(index.start());
        let windows = Windows::new(period, origin);
        let half = tiers.iter().map(|tier| tier.rate.count() / 2).min().unwrap_or(0).min(field.max());
        let rule = |tier: &Self| {
            let limit = tier.rate.count();
            within("rate.count", limit, 1_u64, field.max())?;
            Ok(FixedRule { windows, index, field, limit, half, count })
        };
        tiers.iter().map(rule).collect()
    }
}

/// A fixed window in one word.
///
/// ```text
///   61        w 0         w: as many bits as twenty years of windows leave
///  +-----------+---------+
///  |  window   |  count  |
///  +-----------+---------+
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FixedRule {
    windows: Windows,
    index: Field,
    field: Field,
    limit: u64,
    /// Half of the smallest limit of the table.
    half: u64,
    count: Count,
}

impl FixedRule {
    /// The window that counts for the key, and what it has counted.
    #[inline]
    fn seen(&self, payload: u64, at: Moment) -> (u64, u64) {
        let index = self.index.get(payload);
        if index >= at.tick { (index, self.field.get(payload)) } else { (at.tick, 0) }
    }

    /// Where counts stop.
    pub(crate) fn ceiling(&self) -> u64 {
        self.field.max()
    }
}

impl Rule for FixedRule {
    #[inline]
    fn limit(&self) -> u64 {
        self.limit
    }

    #[inline]
    fn moment(&self, now: Timestamp) -> Moment {
        self.windows.locate(now)
    }

    #[inline]
    fn decide(&self, payload: u64, _: Ring<'_>, at: Moment, cost: u64) -> Verdict {
        let (index, seen) = self.seen(payload, at);
        let count = seen + cost;
        if count <= self.limit {
            return Verdict::Allow(self.index.of(index) | count);
        }
        let count = count.min(self.ceiling());
        match self.count {
            Count::All if count > seen => Verdict::DenyAndCount(self.index.of(index) | count),
            _ => Verdict::Deny,
        }
    }

    #[inline]
    fn expired(&self, payload: u64, at: Moment) -> bool {
        payload == 0 || self.index.get(payload) < at.tick
    }

    fn owes(&self, payload: u64, at: Moment) -> bool {
        self.seen(payload, at).1 > 0
    }

    fn refund(&self, payload: u64, taken: Taken, at: Moment, _: Order) -> Option<Refund> {
        let (index, count) = self.seen(payload, at);
        let units = if index == self.index.get(taken.charged) { taken.cost.min(count) } else { 0 };
        (units > 0).then(|| Refund { payload: payload - units, units })
    }

    fn ahead(&self) -> Option<Self> {
        Some(Self { count: Count::Allowed, ..*self })
    }

    fn half(&self, at: Moment) -> Option<u64> {
        Some(self.index.of(at.tick) | self.half)
    }

    fn forgive(&self, payload: u64, at: Moment) -> u64 {
        self.index.of(self.seen(payload, at).0)
    }
}

impl Numbers for FixedRule {
    fn remaining(&self, payload: u64, _: Ring<'_>, now: Timestamp) -> u64 {
        self.limit.saturating_sub(self.seen(payload, self.moment(now)).1)
    }

    fn retry_after(&self, payload: u64, _: Ring<'_>, now: Timestamp, cost: u64) -> u64 {
        let (index, seen) = self.seen(payload, self.moment(now));
        if seen + cost <= self.limit {
            return self.windows.until(index, 0, now);
        }
        self.windows.until(index + 1, 0, now)
    }

    fn reset_after(&self, payload: u64, _: Ring<'_>, now: Timestamp) -> u64 {
        let (index, seen) = self.seen(payload, self.moment(now));
        if seen == 0 { 0 } else { self.windows.until(index + 1, 0, now) }
    }

    fn any(self) -> AnyRule {
        AnyRule::Fixed(self)
    }
}

impl Carry for FixedRule {
    fn carry(&self, payload: u64, saved: &Self, shift: Shift) -> u64 {
        match self.windows.carry(self.index.get(payload), &saved.windows, shift) {
            index if payload == 0 || index < 0 => 0,
            index => self.index.set(payload, index.min(self.index.max().into()) as u64),
        }
    }
}
