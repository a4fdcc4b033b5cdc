//! The fixed window.

use std::fmt;

use crate::algorithm::change::Unit;
use crate::algorithm::windows::{Windows, shared, shared_period};
use crate::algorithm::{
    Algorithm, Booking, Carry, Compile, CountPolicy, LONGEST, Moment, Numbers, Payload, Ranged, Refund,
    RefundOrder, Ringed, Rule, Stored, Taken, Transition, Verdict,
};
use crate::bits::Field;
use crate::error::{BuildError, within};
use crate::rate::Rate;
use crate::ring::Ring;
use crate::time::{Shift, Timestamp};

/// A fixed window: `count` units in each aligned window of one period. A new window starts from
/// zero.
///
/// **Guarantee.** At most `limit` in each window. Across a boundary **twice the limit can pass at
/// once**: one full window at its end, and the next at its start. Use
/// [`SlidingWindow`](crate::SlidingWindow) or [`SlidingLog`](crate::SlidingLog) where that matters.
/// A request whose time lies in an older window than the key has seen is charged to the newer
/// window. [`from_first_hit`](Self::from_first_hit) has the windows begin with each key's own first
/// request.
///
/// **Formula.** `window = floor(unix_time / period)`; admitted iff `count + cost <= limit`.
///
/// **Memory.** One word per key: the number of the window for twenty years, and the count in the
/// remaining bits (a limit of a million a second leaves twelve bits spare). **Source.** folklore;
/// windows aligned to the Unix epoch as in Redis' `INCR` pattern.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{FixedWindow, Limiter, ManualClock, Rate};
///
/// let clock = ManualClock::new();
/// let quota = FixedWindow::new(Rate::per_minute(1));
/// let limiter = Limiter::builder(quota).clock(clock.clone()).build()?;
/// clock.advance(Duration::from_secs(59));
/// assert!(limiter.check(()).is_allowed());
/// assert_eq!(limiter.check(()).retry_after(), Some(Duration::from_secs(1)));
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.check(()).is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedWindow {
    pub(super) rate: Rate,
    pub(super) count: CountPolicy,
}

impl FixedWindow {
    /// At most `rate.count()` in each aligned window of `rate.period()`.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self { rate, count: CountPolicy::Allowed }
    }

    /// Sets which requests the window counts. Default: only admitted ones.
    #[must_use]
    pub const fn count(mut self, count: CountPolicy) -> Self {
        self.count = count;
        self
    }
}

impl fmt::Display for FixedWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fixed-window:{}", self.rate)?;
        if self.count == CountPolicy::All { write!(f, ",count=all") } else { Ok(()) }
    }
}

impl Algorithm for FixedWindow {}

impl Compile for FixedWindow {
    type Rule = FixedRule;

    fn saved_as(&self) -> String {
        self.to_string()
    }

    fn compile(tiers: &[Self], origin: u64) -> Result<Vec<FixedRule>, BuildError> {
        FixedRule::tiers(tiers, 0, |period, _| Ok((Windows::new(period, origin), 0)))
    }

    fn recompile(
        tiers: &[Self],
        origin: u64,
        olds: &[FixedRule],
        change: Transition<'_>,
    ) -> Result<Vec<FixedRule>, BuildError> {
        let (since, top) = (change.since, olds.first().map_or(0, |old| old.top(change.until)));
        FixedRule::tiers(tiers, since, |period, index| {
            // The first window number whose payloads are above those of the older rules.
            let least = (top >> index.start()) + 1;
            let counted = |old: &FixedRule| {
                let window = old.moment(Timestamp::from_nanos(since)).tick;
                Windows::new(period, origin).successor(window, &old.windows, since)
            };
            let later = olds.first().map_or(0, counted);
            let windows = Windows::renumbered(period, origin, since, least + u64::from(later < 0))?;
            let now = windows.locate(Timestamp::from_nanos(since)).tick;
            Ok((windows, now.saturating_add_signed(later)))
        })
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
    count: CountPolicy,
    /// The start of the version, on the clock of the limiter.
    since: u64,
    /// The last nanosecond after it that is in a numbered window.
    last: u64,
    /// The window in which this quota begins: 0, or the window of the change. Counts of earlier
    /// quotas matter in this window only. Smaller numbers are from earlier quotas. Where a change
    /// realigned the windows it may be the one before that of the change, or the one after. Times
    /// before it count as its start.
    first: u64,
    /// The window of the last change: `first`. Without a change `u64::MAX`, no window's number.
    change_window: u64,
    /// The count in the window of the last change of a key that was never seen.
    start: u64,
    /// The smallest `start` of all tiers.
    idle: u64,
}

impl FixedRule {
    /// The rules of all tiers from `since` on. `windows` numbers the windows of a period in a
    /// field, and says which is the first.
    fn tiers(
        tiers: &[FixedWindow],
        since: u64,
        windows: impl FnOnce(u64, Field) -> Result<(Windows, u64), BuildError>,
    ) -> Result<Vec<Self>, BuildError> {
        let period = shared_period(tiers.iter().map(|tier| tier.rate), 1..=LONGEST)?;
        let count = shared("count", tiers.iter().map(|tier| tier.count))?;
        let index = Windows::index_field(period);
        let field = Field::lowest(index.start());
        let (windows, first) = windows(period, index)?;
        let last = windows.left(since);
        let half = tiers.iter().map(|tier| tier.rate.count() / 2).min().unwrap_or(0).min(field.max());
        let rule = |tier: &FixedWindow| {
            let limit = tier.rate.count();
            within("rate.count", limit, 1_u64, field.max())?;
            let (change_window, start, idle) = (u64::MAX, 0, 0);
            Ok(Self {
                windows,
                index,
                field,
                limit,
                half,
                count,
                since,
                last,
                first,
                change_window,
                start,
                idle,
            })
        };
        tiers.iter().map(rule).collect()
    }

    /// The window that counts for the key at `at`, and its count.
    #[inline]
    fn seen(&self, payload: Payload, at: Moment) -> (u64, u64) {
        let index = self.index.get(payload.0);
        if index >= at.tick { (index, self.field.get(payload.0)) } else { (at.tick, self.start_at(at)) }
    }

    /// The count of a key that was never seen in the window of `at`.
    #[inline]
    fn start_at(&self, at: Moment) -> u64 {
        if at.tick == self.change_window { self.start } else { 0 }
    }

    fn payload(&self, index: u64, count: u64) -> Payload {
        Payload(self.index.of(index) | count)
    }

    /// The verdict for a request in window `index`, which has counted `seen` of this payload.
    #[inline]
    fn judge(&self, payload: Payload, index: u64, seen: u64, cost: u64) -> Verdict {
        let count = seen + cost;
        if count <= self.limit {
            return Verdict::Allow(self.payload(index, count));
        }
        let count = count.min(self.ceiling());
        match self.count {
            CountPolicy::All if count > seen => Verdict::DenyAndCount(self.payload(index, count)),
            _ => Verdict::Deny(payload),
        }
    }

    /// Where counts stop.
    pub(crate) fn ceiling(&self) -> u64 {
        self.field.max()
    }
}

impl Ranged for FixedRule {
    const RANGED: bool = true;

    fn is_early(&self) -> bool {
        self.first == 0
    }

    #[inline]
    fn after(&self, elapsed: u64) -> Moment {
        let now = Timestamp::from_nanos(self.since.saturating_add(elapsed));
        self.windows.locate(now).no_earlier_than(self.first)
    }

    #[inline]
    fn early(&self, now: Timestamp) -> Moment {
        self.windows.locate(now)
    }

    fn last(&self) -> u64 {
        self.last
    }

    #[inline]
    fn floor(&self) -> u64 {
        self.index.of(self.first)
    }

    fn top(&self, until: u64) -> u64 {
        self.index.of(self.after(until).tick) | self.field.max()
    }

    fn needs(&self, payload: Payload, at: Moment) -> u64 {
        if self.index.get(payload.0) <= at.tick {
            return 0;
        }
        self.windows.start_of(self.index.get(payload.0)).saturating_sub(self.since)
    }

    /// In the window of the last change, older versions' counts matter.
    #[inline]
    fn own(&self, stored: Stored, at: Moment) -> Option<Payload> {
        let index = self.index.get(stored.bits());
        let is_own = index == at.tick || index < at.tick && at.tick != self.change_window;
        is_own.then(|| Payload(stored.bits()))
    }

    /// A later version's count may be smaller than the limit: it reads as the largest.
    fn beyond(&self, stored: Stored) -> Option<Payload> {
        Some(Payload(stored.bits() | self.field.max()))
    }

    fn is_least(&self, payload: Payload) -> bool {
        self.field.get(payload.0) <= self.idle
    }

    fn unit(&self) -> Unit {
        Unit { price: 1, burst: self.limit, step: 1 }
    }

    fn debt(&self, payload: Payload, at: Moment) -> u64 {
        self.seen(payload, at).1
    }

    fn owing(&self, debt: u64) -> Payload {
        self.payload(self.first, debt.min(self.field.max()))
    }

    fn starting(self, debt: u64, least: u64) -> Self {
        let count = |debt| self.field.get(self.owing(debt).0);
        Self { change_window: self.first, start: count(debt), idle: count(least), ..self }
    }
}

impl Ringed for FixedRule {}

impl Rule for FixedRule {
    #[inline]
    fn limit(&self) -> u64 {
        self.limit
    }

    #[inline]
    fn moment(&self, now: Timestamp) -> Moment {
        self.after(now.as_nanos().saturating_sub(self.since).min(self.last))
    }

    #[inline]
    fn decide(&self, payload: Payload, _: Ring<'_>, at: Moment, cost: u64) -> Verdict {
        let (index, seen) = self.seen(payload, at);
        self.judge(payload, index, seen, cost)
    }

    // Compares the window once.
    #[inline]
    fn decide_own(&self, stored: Stored, _: Ring<'_>, at: Moment, cost: u64) -> Option<Verdict> {
        let (index, payload) = (self.index.get(stored.bits()), Payload(stored.bits()));
        if index == at.tick {
            return Some(self.judge(payload, index, self.field.get(payload.0), cost));
        }
        // The slow path reads counts of older versions, and words of later ones.
        let is_new = index < at.tick && at.tick != self.change_window;
        is_new.then(|| self.judge(payload, at.tick, 0, cost))
    }

    fn expired(&self, payload: Payload, at: Moment) -> bool {
        payload == Payload::UNSEEN || self.index.get(payload.0) < at.tick
    }

    fn is_in_debt(&self, payload: Payload, at: Moment) -> bool {
        self.seen(payload, at).1 > self.start_at(at)
    }

    fn refund(&self, payload: Payload, taken: Taken, at: Moment, _: RefundOrder) -> Option<Refund> {
        let (index, count) = self.seen(payload, at);
        // No key has less than one that was never seen.
        let start = if index == self.change_window { self.start } else { 0 };
        let is_same = index == self.index.get(taken.charged.0);
        let units = if is_same { taken.cost.min(count.saturating_sub(start)) } else { 0 };
        (units > 0).then(|| Refund::of(Payload(payload.0 - units), units))
    }

    fn inheritable(&self, at: Moment) -> Option<Payload> {
        Some(self.payload(at.tick, self.half.max(self.start_at(at))))
    }

    fn forgive(&self, payload: Payload, at: Moment) -> Payload {
        self.payload(self.seen(payload, at).0, self.start_at(at))
    }
}

impl Booking for FixedRule {
    fn ahead(&self) -> Option<Self> {
        Some(Self { count: CountPolicy::Allowed, ..*self })
    }

    fn debit(&self, payload: Payload, at: Moment, cost: u64, _: u64) -> Option<(u64, Payload)> {
        let (index, seen) = self.seen(payload, at);
        let units = cost.min(self.ceiling().saturating_sub(seen));
        Some((units, self.payload(index, seen + units)))
    }
}

impl Numbers for FixedRule {
    fn remaining_at(&self, payload: Payload, _: Ring<'_>, at: Moment) -> u64 {
        self.limit.saturating_sub(self.seen(payload, at).1)
    }

    fn retry_after(&self, payload: Payload, _: Ring<'_>, now: Timestamp, cost: u64) -> u64 {
        let (index, seen) = self.seen(payload, self.moment(now));
        if seen + cost <= self.limit {
            return self.windows.until(index, 0, now);
        }
        self.windows.until(index + 1, 0, now)
    }

    fn reset_after(&self, payload: Payload, _: Ring<'_>, now: Timestamp) -> u64 {
        let (index, seen) = self.seen(payload, self.moment(now));
        if seen == 0 { 0 } else { self.windows.until(index + 1, 0, now) }
    }

    /// The slot is the key's until the window ends, whatever it still counts.
    fn vacant_after(&self, payload: Payload, _: Ring<'_>, now: Timestamp) -> u64 {
        self.windows.until(self.index.get(payload.0) + 1, 0, now)
    }
}

impl Carry for FixedRule {
    /// The payload of a key that was never seen, where it counts something since the last change,
    /// or where the window of the change lies ahead.
    fn origin(&self, fresh: &Self, now: Timestamp) -> u64 {
        let is_over = self.change_window < self.moment(now).tick;
        let is_ahead = self.windows.locate(now).tick < self.first;
        if is_over || self.start == 0 && !is_ahead {
            return 0;
        }
        self.anew(self.payload(self.change_window, self.start), fresh, now).0
    }

    fn with_origin(self, origin: u64) -> Self {
        if origin == 0 {
            return self;
        }
        let first = self.index.get(origin);
        Self { first, change_window: first, start: self.field.get(origin), idle: 0, ..self }
    }

    /// Payload 0 is of no window, so the windows are numbered from 1: one that was begun before
    /// this clock may be that of the last change.
    fn resuming(self, saved: &Self, shift: Shift) -> Self {
        let windows = self.windows.numbered_later();
        let resumed = Self { windows, last: windows.left(self.since), ..self };
        let is_changed = saved.change_window == saved.first;
        let start = if is_changed { saved.payload(saved.first, saved.start).0 } else { 0 };
        resumed.with_origin(resumed.carry(start, saved, shift).0)
    }

    fn carry(&self, payload: u64, saved: &Self, shift: Shift) -> Payload {
        match self.windows.carry(self.index.get(payload), &saved.windows, shift) {
            index if payload == 0 || index < 0 => Payload::UNSEEN,
            index => Payload(self.index.set(payload, index.min(self.index.max().into()) as u64)),
        }
    }

    fn anew(&self, payload: Payload, fresh: &Self, _: Timestamp) -> Payload {
        let count = self.field.get(payload.0).min(fresh.field.max());
        fresh.payload(fresh.windows.renumber(self.index.get(payload.0), &self.windows), count)
    }
}
