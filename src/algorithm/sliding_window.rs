//! The sliding window counter, in its two forms.

use std::fmt;

use crate::algorithm::packing::Packing;
use crate::algorithm::sub_windows::SubWindowRule;
use crate::algorithm::windows::{Windows, same, shared, shared_period};
use crate::algorithm::{
    Algorithm, Booking, Carry, Compile, CountPolicy, LONGEST, Moment, Numbers, Payload, Ranged, Refund,
    RefundOrder, Ringed, Rule, Taken, Transition, Verdict,
};
use crate::error::{BuildError, within};
use crate::rate::Rate;
use crate::ring::Ring;
use crate::time::{Shift, Timestamp};

/// A sliding window counter: a window of one period that slides. It is estimated from the counts of
/// aligned windows.
///
/// **Plain form.** `previous * overlap + current + cost <= limit`, where `overlap` is the share of
/// the previous aligned window that the sliding one still covers. The integers round nothing.
/// *Guarantee:* exact when the requests of the previous window were spread evenly. Otherwise the
/// units that pass in a window can exceed the limit (at most twice it) or fall short of it.
///
/// **With [`subwindows`](Self::subwindows)`(k)`.** The counts of `k` closed sub-windows, the oldest
/// one whole, the current count and `cost` sum to at most `limit`. *Guarantee:* never more than
/// `limit` in any window of one period, exactly. The price: the limiter remembers a unit up to
/// `1/k` of a period too long.
///
/// **Memory.** One word per key. The word holds the number of the window for twenty years, the
/// current count and the closed counts. Where the limit is so large that closed counts do not fit
/// exactly (beyond about 65,000 a second or 520,000 a minute in the plain form) they are kept in
/// granules, rounded **up**: at most an eighth of the limit is lost, for a million a second 0.03 %.
/// For a limit beyond that, `build` returns an error that names the largest.
///
/// **Source.** the estimate: Cloudflare, "How we built rate limiting capable of scaling to millions
/// of domains" (2017). Counting the oldest part whole: Datar et al., "Maintaining stream statistics
/// over sliding windows" (2002).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{GlobalLimiter, Limiter, ManualClock, Rate, SlidingWindow};
///
/// let clock = ManualClock::new();
/// let quota = SlidingWindow::new(Rate::per_minute(10));
/// let limiter = Limiter::builder(quota).clock(clock.clone()).build()?;
/// assert!(limiter.check_n((), 10).is_allowed());
/// clock.advance(Duration::from_secs(60)); // the sliding window still covers all of the last one
/// assert_eq!(limiter.check(()).retry_after(), Some(Duration::from_secs(6)));
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindow {
    pub(super) rate: Rate,
    pub(super) subwindows: Option<u32>,
    pub(super) count: CountPolicy,
}

/// The most sub-windows that a word has room for.
const MOST_SUBWINDOWS: u32 = 24;

impl SlidingWindow {
    /// At most `rate.count()` in any window of `rate.period()`, estimated.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self { rate, subwindows: None, count: CountPolicy::Allowed }
    }

    /// Never more than the limit in any window: counts `k` sub-windows, from 1 to 24, the oldest
    /// one whole.
    ///
    /// A word has room for a few large counts, or for many small ones. So large a limit fits with
    /// `k` sub-windows of a period (half as large where refusals [count](Self::count), too):
    ///
    /// | `k` | of a second | of a minute | of an hour | of a day |
    /// |-----|-------------|-------------|------------|----------|
    /// | 2   | 2,097,151   | millions    | millions   | millions |
    /// | 3   | 65,535      | millions    | millions   | millions |
    /// | 4   | 93          | 4,095       | 262,143    | millions |
    /// | 5   | 31          | 63          | 4,095      | 65,535   |
    /// | 6   | 15          | 31          | 31         | 1,023    |
    /// | 8   | 7           | 7           | 15         | 31       |
    /// | 12  | 3           | 3           | 7          | 7        |
    /// | 24  | 1           | 1           | 1          | 1        |
    ///
    /// Where they do not fit, the error of `build` names `subwindows`, and how many do.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{GlobalLimiter, Limiter, Rate, SlidingWindow};
    ///
    /// let quota = |k| SlidingWindow::new(Rate::per_minute(100)).subwindows(k);
    /// let error = Limiter::builder(quota(6)).build().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "subwindows is 6, but must be between 1 and 4 beside this rate"
    /// );
    /// assert!(Limiter::builder(quota(4)).build().is_ok());
    /// ```
    #[must_use]
    pub const fn subwindows(mut self, k: u32) -> Self {
        self.subwindows = Some(k);
        self
    }

    /// At most `rate.count()` in any window of `rate.period()`, never more, with the most
    /// [sub-windows](Self::subwindows) whose counts fit a key's word. Where not even one fits, the
    /// plain form, which is an estimate.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Rate, SlidingWindow};
    ///
    /// let window = |count| SlidingWindow::finest(Rate::per_minute(count)).to_string();
    /// assert_eq!(window(10), "sliding-window:10/min,subwindows=7");
    /// assert_eq!(window(1_000), "sliding-window:1000/min,subwindows=4");
    /// ```
    #[must_use]
    pub fn finest(rate: Rate) -> Self {
        let with = |k| Self::new(rate).subwindows(k);
        let fits = |window: &Self| Self::compile(&[*window], 0).is_ok();
        (1..=MOST_SUBWINDOWS).rev().map(with).find(fits).unwrap_or(Self::new(rate))
    }

    /// Sets which requests the window counts. Default: only admitted ones.
    #[must_use]
    pub const fn count(mut self, count: CountPolicy) -> Self {
        self.count = count;
        self
    }
}

impl fmt::Display for SlidingWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sliding-window:{}", self.rate)?;
        if let Some(k) = self.subwindows {
            write!(f, ",subwindows={k}")?;
        }
        if self.count == CountPolicy::All { write!(f, ",count=all") } else { Ok(()) }
    }
}

macro_rules! either {
    ($self:expr, $rule:ident => $call:expr) => {
        match $self {
            SlidingRule::Plain($rule) => $call,
            SlidingRule::Sub($rule) => $call,
        }
    };
}

impl Algorithm for SlidingWindow {}

impl Compile for SlidingWindow {
    type Rule = SlidingRule;

    fn saved_as(&self) -> String {
        self.to_string()
    }

    fn compile(tiers: &[Self], origin: u64) -> Result<Vec<SlidingRule>, BuildError> {
        let count = shared("count", tiers.iter().map(|tier| tier.count))?;
        let shortest = (1..LONGEST).find(|&period| fit(period, 1, 1, count).is_some()).unwrap_or(LONGEST);
        let period = shared_period(tiers.iter().map(|tier| tier.rate), shortest..=LONGEST)?;
        let subwindows = shared("subwindows", tiers.iter().map(|tier| tier.subwindows))?;
        let limits = || tiers.iter().map(|tier| tier.rate.count());
        let (least, largest) = (limits().min().unwrap_or(1), limits().max().unwrap_or(1));
        let packing = packing(period, subwindows, (least, largest), count)?;
        let windows = Windows::new(length(period, subwindows.unwrap_or(1)), origin);
        let rule = |limit| match subwindows {
            None => SlidingRule::Plain(PlainRule { windows, packing, limit, count }),
            Some(k) => SlidingRule::Sub(SubWindowRule { windows, packing, limit, count, subwindows: k }),
        };
        Ok(limits().map(rule).collect())
    }

    /// The packing stays: the counts are valid under any limit that they have room for.
    fn recompile(
        tiers: &[Self],
        _: u64,
        olds: &[SlidingRule],
        change: Transition<'_>,
    ) -> Result<Vec<SlidingRule>, BuildError> {
        let rule = |(tier, old): (&Self, &SlidingRule)| {
            let limit = tier.rate.count();
            let (length, count, subwindows) =
                either!(old, rule => (rule.windows.length, rule.count, rule.subwindows()));
            same("subwindows", tier.subwindows == subwindows)?;
            let period = tier.rate.period_nanos().div_ceil(subwindows.unwrap_or(1).into());
            same("rate.period", period == length)?;
            same("count", tier.count == count)?;
            let room = old.packing().limits(count);
            within("rate.count", limit, *room.start(), *room.end())?;
            Ok(match *old {
                SlidingRule::Plain(old) => SlidingRule::Plain(PlainRule { limit, ..old }),
                SlidingRule::Sub(old) => SlidingRule::Sub(SubWindowRule { limit, ..old }),
            })
        };
        change.keeps(olds.iter().zip(tiers).map(|(old, tier)| (old.limit(), tier.rate.count())))?;
        tiers.iter().zip(olds).map(rule).collect()
    }
}

/// The nanoseconds of one of `k` sub-windows.
fn length(period: u64, k: u32) -> u64 {
    period.div_ceil(k.into())
}

/// The room for `limit` in `k` sub-windows of a period.
fn fit(period: u64, k: u32, limit: u64, count: CountPolicy) -> Option<Packing> {
    Packing::fit(Windows::index_field(length(period, k)), k, limit, count)
}

/// The room for limits from `least` to `largest`. An error names the number that is wrong beside
/// the others: that of sub-windows where fewer have room for the limit, and otherwise the limit.
fn packing(
    period: u64,
    subwindows: Option<u32>,
    (least, largest): (u64, u64),
    count: CountPolicy,
) -> Result<Packing, BuildError> {
    let k = subwindows.unwrap_or(1);
    let has_room = |limit: u64| match k {
        1..=MOST_SUBWINDOWS => fit(period, k, limit.max(1), count),
        _ => None,
    };
    let found = has_room(largest);
    if let (Some(given), None) = (subwindows, found) {
        let fewer = MOST_SUBWINDOWS.min(given.wrapping_sub(1));
        let most = |limit: u64| (1..=fewer).rev().find(|&k| fit(period, k, limit.max(1), count).is_some());
        let without_limit = || if has_room(1).is_none() { most(1) } else { None };
        if let Some(max) = most(largest).or_else(without_limit) {
            let (value, max) = (given.into(), max.into());
            return Err(BuildError::OutOfRange { field: "subwindows", value, min: 1, max });
        }
    }
    found.filter(|_| least > 0).ok_or_else(|| {
        let (value, below) = if least == 0 { (0, u64::MAX) } else { (largest, largest) };
        let most = Packing::most(Windows::index_field(length(period, k)), k, below, count);
        BuildError::OutOfRange { field: "rate.count", value: value.into(), min: 1, max: most.into() }
    })
}

/// Either form of the sliding window counter.
#[derive(Clone, Copy, Debug)]
pub enum SlidingRule {
    /// `previous * overlap + current`.
    Plain(PlainRule),
    /// Sub-windows, the oldest counted whole.
    Sub(SubWindowRule),
}

impl SlidingRule {
    pub(crate) fn packing(&self) -> &Packing {
        either!(self, rule => &rule.packing)
    }

    fn windows(&self) -> &Windows {
        either!(self, rule => &rule.windows)
    }
}

/// The counts are valid under any limit that they have room for.
impl Ranged for SlidingRule {}

impl Ringed for SlidingRule {}

impl Rule for SlidingRule {
    #[inline]
    fn limit(&self) -> u64 {
        either!(self, rule => rule.limit)
    }

    #[inline]
    fn moment(&self, now: Timestamp) -> Moment {
        either!(self, rule => rule.windows.locate(now))
    }

    #[inline]
    fn decide(&self, payload: Payload, _: Ring<'_>, at: Moment, cost: u64) -> Verdict {
        either!(self, rule => rule.decide(payload.0, at, cost))
    }

    fn expired(&self, Payload(payload): Payload, at: Moment) -> bool {
        either!(self, rule => {
            let age = at.tick.saturating_sub(rule.packing.index.get(payload));
            payload == 0 || age > u64::from(rule.closed())
        })
    }

    fn is_in_debt(&self, payload: Payload, at: Moment) -> bool {
        either!(self, rule => !rule.packing.is_empty(rule.packing.rotated(payload.0, at.tick)))
    }

    fn refund(&self, payload: Payload, taken: Taken, at: Moment, _: RefundOrder) -> Option<Refund> {
        either!(self, rule => {
            let payload = rule.packing.rotated(payload.0, at.tick);
            rule.packing.refund(payload, rule.packing.index.get(taken.charged.0), taken.cost)
        })
    }

    fn credit(&self, payload: Payload, _: Ring<'_>, at: Moment, units: u64) -> Option<Refund> {
        either!(self, rule => rule.packing.credit(rule.packing.rotated(payload.0, at.tick), units))
    }

    fn forgive(&self, payload: Payload, at: Moment) -> Payload {
        either!(self, rule => {
            let index = &rule.packing.index;
            Payload(index.of(at.tick.max(index.get(payload.0))))
        })
    }
}

impl Booking for SlidingRule {
    fn ahead(&self) -> Option<Self> {
        let mut ahead = *self;
        *either!(&mut ahead, rule => &mut rule.count) = CountPolicy::Allowed;
        Some(ahead)
    }

    fn debit(&self, payload: Payload, at: Moment, cost: u64, _: u64) -> Option<(u64, Payload)> {
        let packing = self.packing();
        let payload = packing.rotated(payload.0, at.tick);
        let counted = packing.current(payload);
        let units = cost.min(packing.ceiling.saturating_sub(counted));
        Some((units, Payload(packing.with_current(payload, counted + units))))
    }
}

impl Numbers for SlidingRule {
    fn remaining_at(&self, payload: Payload, _: Ring<'_>, at: Moment) -> u64 {
        either!(self, rule => rule.remaining(payload.0, at))
    }

    fn retry_after(&self, payload: Payload, _: Ring<'_>, now: Timestamp, cost: u64) -> u64 {
        either!(self, rule => rule.retry_after(payload.0, now, cost))
    }

    fn reset_after(&self, payload: Payload, _: Ring<'_>, now: Timestamp) -> u64 {
        either!(self, rule => {
            let payload = rule.packing.rotated(payload.0, rule.windows.locate(now).tick);
            match rule.packing.newest_counted(payload) {
                None => 0,
                Some(age) => {
                    let ends = rule.packing.index.get(payload) + u64::from(rule.closed() - age) + 1;
                    rule.windows.until(ends, 0, now)
                }
            }
        })
    }

    /// The slot is the key's until the last window of its word has left, whatever that counts.
    fn vacant_after(&self, payload: Payload, _: Ring<'_>, now: Timestamp) -> u64 {
        either!(self, rule => {
            let left = rule.packing.index.get(payload.0) + u64::from(rule.closed()) + 1;
            rule.windows.until(left, 0, now)
        })
    }
}

impl Carry for SlidingRule {
    fn room(&self) -> u64 {
        *self.packing().limits(either!(self, rule => rule.count)).end()
    }

    fn with_room(mut self, room: u64) -> Option<Self> {
        let (limit, count) = either!(&self, rule => (rule.limit, rule.count));
        let Packing { index, closed, .. } = *self.packing();
        let packing = Packing::fit(index, closed, room, count)?;
        *either!(&mut self, rule => &mut rule.packing) = packing;
        packing.limits(count).contains(&limit).then_some(self)
    }

    fn carry(&self, payload: u64, saved: &Self, shift: Shift) -> Payload {
        let index = self.packing().index.get(payload);
        let index = self.windows().carry(index, saved.windows(), shift);
        Payload(if payload == 0 { 0 } else { self.packing().renumbered(payload, index) })
    }

    /// A change keeps the windows and the packing, also where it realigns other windows.
    fn anew(&self, payload: Payload, fresh: &Self, _: Timestamp) -> Payload {
        fresh.carry(payload.0, self, Shift::NONE)
    }
}

/// `previous * overlap + current`.
#[derive(Clone, Copy, Debug)]
pub struct PlainRule {
    windows: Windows,
    pub(crate) packing: Packing,
    limit: u64,
    count: CountPolicy,
}

impl PlainRule {
    #[expect(clippy::unused_self, reason = "the other form's number is a setting")]
    fn closed(&self) -> u32 {
        1
    }

    #[expect(clippy::unused_self, reason = "the other form's number is a setting")]
    fn subwindows(&self) -> Option<u32> {
        None
    }

    /// Whether `previous * (W - elapsed) / W + taken` is at most the limit. `taken` includes the
    /// request.
    #[inline]
    fn fits(&self, previous: u64, elapsed: u64, taken: u64) -> bool {
        let overlap = self.windows.length - elapsed;
        let Some(room) = self.limit.checked_sub(taken) else { return false };
        u128::from(previous) * u128::from(overlap) <= u128::from(room) * u128::from(self.windows.length)
    }

    /// The usual case, without a multiplication: the key was seen in this window, and there is room
    /// even if the sliding window still covers all of the previous one.
    #[inline]
    fn quick_charge(&self, payload: u64, at: Moment, cost: u64) -> Option<u64> {
        let taken = self.packing.current(payload) + cost;
        let room = self.limit.checked_sub(taken)?;
        let fits = self.packing.index.get(payload) == at.tick && self.packing.oldest(payload) <= room;
        fits.then(|| self.packing.with_current(payload, taken))
    }

    #[inline]
    fn decide(&self, payload: u64, at: Moment, cost: u64) -> Verdict {
        if let Some(charged) = self.quick_charge(payload, at, cost) {
            return Verdict::Allow(Payload(charged));
        }
        let payload = self.packing.rotated(payload, at.tick);
        let at = at.no_earlier_than(self.packing.index.get(payload));
        let taken = self.packing.current(payload) + cost;
        if self.fits(self.packing.oldest(payload), at.elapsed, taken) {
            Verdict::Allow(Payload(self.packing.with_current(payload, taken)))
        } else {
            self.packing.refuse(self.count, payload, cost)
        }
    }

    fn remaining(&self, payload: u64, at: Moment) -> u64 {
        let payload = self.packing.rotated(payload, at.tick);
        let at = at.no_earlier_than(self.packing.index.get(payload));
        let length = u128::from(self.windows.length);
        let covered = u128::from(self.packing.oldest(payload)) * (length - u128::from(at.elapsed));
        let used = covered.div_ceil(length) as u64 + self.packing.current(payload);
        self.limit.saturating_sub(used)
    }

    fn retry_after(&self, payload: u64, now: Timestamp, cost: u64) -> u64 {
        let at = self.windows.locate(now);
        let mut payload = self.packing.rotated(payload, at.tick);
        let at = at.no_earlier_than(self.packing.index.get(payload));
        // In this window, in the next, or at the start of the one after, when both counts have
        // expired.
        for window in 0..2 {
            let previous = self.packing.oldest(payload);
            if let Some(room) = self.limit.checked_sub(self.packing.current(payload) + cost) {
                let covered = u128::from(room) * u128::from(self.windows.length);
                let overlap = covered.checked_div(previous.into()).unwrap_or(u128::MAX);
                let elapsed = u128::from(self.windows.length).saturating_sub(overlap) as u64;
                let elapsed = if window == 0 { elapsed.max(at.elapsed) } else { elapsed };
                if elapsed < self.windows.length {
                    return self.windows.until(at.tick + window, elapsed, now);
                }
            }
            payload = self.packing.rotated(payload, at.tick + window + 1);
        }
        self.windows.until(at.tick + 2, 0, now)
    }
}
