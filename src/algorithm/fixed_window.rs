//! The fixed window.

use std::borrow::Cow;
use std::cmp::Ordering::{Greater, Less};
use std::fmt;
use std::sync::Arc;

use crate::algorithm::inherit::{Past, Unit};
use crate::algorithm::windows::{Windows, shared, shared_period};
use crate::algorithm::{
    Algorithm, AnyRule, Carry, Change, CountPolicy, Moment, Numbers, Order, Refund, Rule, Settings, Taken,
    Term, Verdict, sealed,
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
/// window.
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
/// use tollgate::{FixedWindow, GlobalLimiter, ManualClock, Rate};
///
/// let clock = ManualClock::new();
/// let quota = FixedWindow::new(Rate::per_minute(1));
/// let limiter = GlobalLimiter::builder(quota).clock(clock.clone()).build()?;
/// clock.advance(Duration::from_secs(59));
/// assert!(limiter.check().is_allowed());
/// assert_eq!(limiter.check().retry_after(), Some(Duration::from_secs(1)));
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.check().is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct FixedWindow {
    pub(super) rate: Rate,
    #[cfg_attr(feature = "serde", serde(default))]
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

impl sealed::Sealed for FixedWindow {}

impl Algorithm for FixedWindow {
    type Rule = FixedRule;

    fn settings(&self) -> Settings {
        Settings::new("fixed-window", self.rate).and_count(self.count)
    }

    fn compile(tiers: &[Self], origin: u64) -> Result<Vec<FixedRule>, BuildError> {
        FixedRule::tiers(tiers, 0, |period, _| Ok(Windows::new(period, origin)))
    }

    fn recompile(
        tiers: &[Self],
        origin: u64,
        olds: &[FixedRule],
        change: Change<'_>,
    ) -> Result<Vec<FixedRule>, BuildError> {
        let top = olds.first().map_or(0, |old| old.top(change.until));
        let mut rules = FixedRule::tiers(tiers, change.since, |period, index| {
            // The first window number whose payloads are above those of the older rules.
            Windows::renumbered(period, origin, change.since, (top >> index.start()) + 1)
        })?;
        let Some(old) = olds.first() else { return Ok(rules) };
        let ended = old.moment(Timestamp::from_nanos(change.since));
        let units = olds.iter().zip(&rules).map(|(old, new)| (old.unit(), new.unit())).collect();
        // After the window of the last change, no count from before that change matters.
        let kept = |old: &FixedRule| if ended.tick > old.first { None } else { old.past.clone() };
        let olds: Vec<_> = olds.iter().map(|old| FixedRule { past: kept(old), ..old.clone() }).collect();
        let depth = olds.iter().filter_map(|old| old.past.as_ref()).map(|past| past.depth()).max();
        for (rule, past) in rules.iter_mut().zip(Past::of(olds, ended, change, units, depth.unwrap_or(0))?) {
            rule.past = Some(past);
            rule.change_window = rule.first;
            rule.start = rule.field.get(rule.converted(0, Past::carried));
        }
        let idle = rules.iter().map(|rule| rule.start).min().unwrap_or(0);
        rules.iter_mut().for_each(|rule| rule.idle = idle);
        Ok(rules)
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
#[derive(Clone, Debug)]
pub struct FixedRule {
    windows: Windows,
    index: Field,
    field: Field,
    limit: u64,
    /// Half of the smallest limit of the table.
    half: u64,
    count: CountPolicy,
    term: Term,
    /// The window in which this quota begins: 0, or the window of the change. Counts of earlier
    /// quotas matter in this window only. Smaller numbers are from earlier quotas.
    first: u64,
    /// The window of the last change: `first`. Without a change `u64::MAX`, no window's number.
    change_window: u64,
    /// The count in window `first` of a key that was never seen.
    start: u64,
    /// The smallest `start` of all tiers.
    idle: u64,
    /// The quota before this one, if any.
    past: Option<Arc<Past<Self>>>,
}

impl FixedRule {
    /// The rules of all tiers from `since` on. `windows` numbers the windows of a period in a
    /// field.
    fn tiers(
        tiers: &[FixedWindow],
        since: u64,
        windows: impl FnOnce(u64, Field) -> Result<Windows, BuildError>,
    ) -> Result<Vec<Self>, BuildError> {
        let period = shared_period(tiers.iter().map(|tier| tier.rate))?;
        let count = shared("count", tiers.iter().map(|tier| tier.count))?;
        let index = Windows::index_field(period);
        let field = Field::lowest(index.start());
        let windows = windows(period, index)?;
        let first = windows.locate(Timestamp::from_nanos(since)).tick;
        let term = Term::new(since, windows.left(since));
        let half = tiers.iter().map(|tier| tier.rate.count() / 2).min().unwrap_or(0).min(field.max());
        let rule = |tier: &FixedWindow| {
            let limit = tier.rate.count();
            within("rate.count", limit, 1_u64, field.max())?;
            let (term, change_window, start, past) = (term.clone(), u64::MAX, 0, None);
            Ok(Self {
                windows,
                index,
                field,
                limit,
                half,
                count,
                term,
                first,
                change_window,
                start,
                idle: 0,
                past,
            })
        };
        tiers.iter().map(rule).collect()
    }

    /// The window that counts for the key at `at`, and its count.
    fn seen(&self, payload: u64, at: Moment) -> (u64, u64) {
        let index = self.index.get(payload);
        match index.cmp(&at.tick) {
            // A later version wrote the word: this one admits nothing more.
            Greater if self.is_later(payload) => (index, self.field.max()),
            Less if at.tick == self.first => {
                (at.tick, self.field.get(self.converted(payload, Past::carried)).max(self.start))
            }
            Less => (at.tick, 0),
            _ => (index, self.field.get(payload)),
        }
    }

    /// Converts a payload of any version to this one. `carried` says how its debt changes.
    fn converted(&self, payload: u64, carried: fn(&Past<Self>, u64) -> u64) -> u64 {
        let Some(past) = self.past.as_ref().filter(|_| self.index.get(payload) < self.first) else {
            return payload;
        };
        let old = &past.rule;
        let payload = old.converted(payload, carried);
        let (_, count) = old.seen(payload, past.ended);
        self.index.of(self.first) | carried(past, count).min(self.field.max())
    }

    fn unit(&self) -> Unit {
        Unit { price: 1, burst: self.limit }
    }

    /// The count of a key that was never seen in the window of `at`.
    fn start_at(&self, at: Moment) -> u64 {
        if at.tick == self.first { self.start } else { 0 }
    }

    /// The largest payload that a version with horizon `until` writes.
    fn top(&self, until: u64) -> u64 {
        let last = Timestamp::from_nanos(self.term.since().saturating_add(until));
        self.index.of(self.windows.locate(last).tick) | self.field.max()
    }

    /// The verdict for a request in window `index`, which has counted `seen`.
    #[inline]
    fn judge(&self, index: u64, seen: u64, cost: u64) -> Verdict {
        let count = seen + cost;
        if count <= self.limit {
            return Verdict::Allow(self.index.of(index) | count);
        }
        let count = count.min(self.ceiling());
        match self.count {
            CountPolicy::All if count > seen => Verdict::DenyAndCount(self.index.of(index) | count),
            _ => Verdict::Deny,
        }
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
        let time =
            self.term.quick_elapsed(now.as_nanos()).unwrap_or_else(|| self.term.elapsed(now.as_nanos()));
        self.windows.locate(Timestamp::from_nanos(self.term.since() + time))
    }

    #[inline]
    fn quick_moment(&self, now: Timestamp) -> Option<Moment> {
        self.term.quick_elapsed(now.as_nanos())?;
        Some(self.windows.locate(now))
    }

    #[inline]
    fn quick_decide(&self, payload: u64, _: Ring<'_>, at: Moment, cost: u64) -> Option<Verdict> {
        let index = self.index.get(payload);
        if index == at.tick {
            return Some(self.judge(index, self.field.get(payload), cost));
        }
        // The slow path reads counts of older versions, and words of later ones.
        let is_new = index < at.tick && at.tick != self.change_window;
        is_new.then(|| self.judge(at.tick, 0, cost))
    }

    fn term(&self) -> Option<&Term> {
        Some(&self.term)
    }

    fn term_mut(&mut self) -> Option<&mut Term> {
        Some(&mut self.term)
    }

    #[inline]
    fn is_timely(&self, now: Timestamp) -> bool {
        self.term.quick_elapsed(now.as_nanos()).is_some()
    }

    fn is_later(&self, payload: u64) -> bool {
        payload > self.top(self.term.horizon().until())
    }

    fn current(&self, payload: u64) -> u64 {
        self.converted(payload, Past::carried_by_any)
    }

    fn extend(&self, payload: u64) {
        let end = self.windows.start_of(self.index.get(payload).saturating_add(1));
        self.term.extend(end.saturating_sub(self.term.since()));
    }

    #[inline]
    fn decide(&self, payload: u64, _: Ring<'_>, at: Moment, cost: u64) -> Verdict {
        let (index, seen) = self.seen(payload, at);
        self.judge(index, seen, cost)
    }

    fn expired(&self, payload: u64, at: Moment) -> bool {
        let index = self.index.get(payload);
        // In the first window of this version the count of an older one may still matter.
        let carried = || self.field.get(self.current(payload)) > self.idle;
        payload == 0 || index < at.tick && (at.tick != self.change_window || !carried())
    }

    fn is_in_debt(&self, payload: u64, at: Moment) -> bool {
        self.seen(payload, at).1 > self.start_at(at)
    }

    fn refund(&self, payload: u64, taken: Taken, at: Moment, _: Order) -> Option<Refund> {
        if self.is_later(payload) {
            return None;
        }
        let (index, count) = self.seen(payload, at);
        let units = if index == self.index.get(taken.charged) { taken.cost.min(count) } else { 0 };
        (units > 0).then(|| Refund { payload: payload - units, units })
    }

    fn ahead(&self) -> Option<Cow<'_, Self>> {
        Some(match self.count {
            CountPolicy::Allowed => Cow::Borrowed(self),
            CountPolicy::All => Cow::Owned(Self { count: CountPolicy::Allowed, ..self.clone() }),
        })
    }

    fn half(&self, at: Moment) -> Option<u64> {
        Some(self.index.of(at.tick) | self.half.max(self.start_at(at)))
    }

    fn forgive(&self, payload: u64, at: Moment) -> u64 {
        self.index.of(self.seen(payload, at).0) | self.start_at(at)
    }

    fn bump(&self, payload: u64) -> u64 {
        self.current(payload) + 1
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

    fn anew(&self, payload: u64, fresh: &Self, _: Timestamp) -> u64 {
        let payload = self.current(payload);
        let count = self.field.get(payload).min(fresh.field.max());
        fresh.index.of(fresh.windows.renumber(self.index.get(payload), &self.windows)) | count
    }
}
