//! The rule whose quota comes with each call: the generic cell rate algorithm in nanoseconds.
//!
//! The payload is the *theoretical arrival time* (TAT): nanoseconds since the clock's zero, and
//! nothing of any quota. A request's cost reaches the rule as its *charge*, which is the cost times
//! the emission interval of the call:
//!
//! ```text
//!   base = max(TAT, now)
//!   admitted  iff  base + charge - now <= tolerance and base + charge fits the payload
//!   then TAT = base + charge
//! ```
//!
//! A debt is `TAT - now`. Every debt falls by a nanosecond each nanosecond, under any quotas
//! with the calls. So the order of two debts holds at every later time, and the rule can say which
//! debts may be inherited.
//!
//! A [refund](Rule::refund) is that of a bucket (see `gcra`) where nothing is booked ahead.

use std::time::Duration;

use crate::algorithm::staircase::Owed;
use crate::algorithm::{Moment, Order, PAYLOAD_BITS, Payload, Ranged, Refund, Ringed, Rule, Taken, Verdict};
use crate::error::{BuildError, within};
use crate::rate::Rate;
use crate::ring::Ring;
use crate::time::{Shift, Timestamp};

/// The longest emission interval and the largest tolerance: 292 years.
const MOST: u64 = i64::MAX as u64;

/// A quota that comes with a call: see [`PerCallLimiter`](crate::PerCallLimiter).
///
/// It is two numbers of nanoseconds. The *emission interval* is the time between two requests at
/// the full rate. The *tolerance* is how far ahead of the rate a key may get: it is the emission
/// interval times the number of requests that may come at once. (The delay variation tolerance of
/// `CL.THROTTLE`, for `max_burst + 1` requests.)
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{CallQuota, Rate};
///
/// let quota = CallQuota::new(Rate::per_second(100), 20)?;
/// assert_eq!(quota.emission(), Duration::from_millis(10));
/// assert_eq!(quota.tolerance(), Duration::from_millis(200));
/// assert_eq!(quota.limit(), 20);
///
/// let error = CallQuota::new(Rate::per_second(0), 20).unwrap_err();
/// assert_eq!(error.to_string(), "rate.count is 0, but must be between 1 and 1000000000");
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallQuota {
    /// Nanoseconds, from 1 to `MOST`.
    emission: u64,
    /// Nanoseconds, from `emission` to `MOST`.
    tolerance: u64,
}

impl CallQuota {
    /// `burst` requests at once, and `rate` in the long run.
    ///
    /// The emission interval is `rate.period / rate.count`, rounded **up** to whole nanoseconds, so
    /// that the rate is never exceeded. It falls short of the rate by less than one part in
    /// `rate.period / rate.count` nanoseconds: not at all for 100/s, by 2e-9 for 3/s, by up to 1e-6
    /// for rates around 1,000/s, and by up to a half for rates around a thousand million a second.
    /// [`emission`](Self::emission) says what it has become. (A [`TokenBucket`](crate::TokenBucket)
    /// counts in finer grains; they depend on the rate, so a word that serves all rates cannot.)
    ///
    /// # Errors
    ///
    /// [`BuildError::OutOfRange`], when the period is not between 1 and `i64::MAX` nanoseconds, the
    /// count not between 1 and one a nanosecond, or the burst not between 1 and what refills within
    /// `i64::MAX` nanoseconds (292 years).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{CallQuota, Rate};
    ///
    /// let quota = CallQuota::new(Rate::per_second(3), 1)?;
    /// assert_eq!(quota.emission(), Duration::from_nanos(333_333_334));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn new(rate: Rate, burst: u64) -> Result<Self, BuildError> {
        let (count, period) = (rate.count(), rate.period_nanos());
        within("rate.period", rate.period().as_nanos(), 1_u64, MOST)?;
        within("rate.count", count, 1_u64, period)?;
        let emission = period.div_ceil(count);
        within("burst", burst, 1_u64, MOST / emission)?;
        Ok(Self { emission, tolerance: burst * emission })
    }

    /// The quota of these nanoseconds, as they are: an emission interval from 1 to `i64::MAX`, and
    /// a tolerance from the emission interval to `i64::MAX`.
    ///
    /// The tolerance need not be a multiple of the emission interval.
    ///
    /// # Errors
    ///
    /// [`BuildError::OutOfRange`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{CallQuota, Rate};
    ///
    /// let quota = CallQuota::from_nanos(10_000_000, 200_000_000)?;
    /// assert_eq!(quota, CallQuota::new(Rate::per_second(100), 20)?);
    ///
    /// let error = CallQuota::from_nanos(10, 9).unwrap_err();
    /// assert!(error.to_string().starts_with("tolerance is 9, but must be between 10 and "));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn from_nanos(emission: u64, tolerance: u64) -> Result<Self, BuildError> {
        within("emission", emission, 1_u64, MOST)?;
        within("tolerance", tolerance, emission, MOST)?;
        Ok(Self { emission, tolerance })
    }

    /// The time between two requests of cost 1 at the full rate.
    #[must_use]
    pub const fn emission(self) -> Duration {
        Duration::from_nanos(self.emission)
    }

    /// How far ahead of the rate a key may get.
    #[must_use]
    pub const fn tolerance(self) -> Duration {
        Duration::from_nanos(self.tolerance)
    }

    /// The largest cost that can be admitted: the tolerance in whole emission intervals.
    #[must_use]
    pub const fn limit(self) -> u64 {
        self.tolerance / self.emission
    }

    /// The nanoseconds that a request of this cost is charged, if the quota ever admits it.
    #[inline]
    pub(crate) fn charge(self, cost: u64) -> Option<u64> {
        self.emission.checked_mul(cost).filter(|&charge| charge <= self.tolerance)
    }

    /// The largest cost whose charge can be computed with.
    pub(crate) fn largest_cost(self) -> u64 {
        MOST / self.emission
    }

    /// The nanoseconds of `units` that were charged.
    pub(crate) fn nanos(self, units: u64) -> u64 {
        units.saturating_mul(self.emission)
    }

    /// The rule of a call with this quota.
    #[inline]
    pub(crate) fn rule(self) -> PerCallRule {
        PerCallRule { tolerance: self.tolerance }
    }
}

/// The rule of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PerCallRule {
    /// Nanoseconds, at most `MOST`.
    tolerance: u64,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It may try again in so many nanoseconds.
    Wait(u64),
    /// It would leave this TAT, for which the payload has no room.
    Beyond(u64),
}

impl PerCallRule {
    /// The latest TAT, and the latest time that a TAT is compared with: 146 years. One less than
    /// the payload could hold: a word that is given up has its payload raised by one.
    pub(crate) const LAST: u64 = (1 << PAYLOAD_BITS) - 2;

    /// For what depends on no quota.
    pub(crate) const ANY: Self = Self { tolerance: MOST };

    /// A TAT of the saved clock as this clock tells it.
    pub(crate) fn carry(tat: u64, shift: Shift) -> Payload {
        // It is between 0 and a `u64`.
        Payload((i128::from(tat) + shift.nanos()).clamp(0, i128::from(Self::LAST)) as u64)
    }

    /// Why a request of this charge was refused.
    pub(crate) fn refusal(self, payload: Payload, at: Moment, charge: u64) -> Refusal {
        // No sum overflows: each addend is at most `MOST`, half of a `u64`.
        let tat = payload.0.max(at.tick) + charge;
        match (tat - at.tick).checked_sub(self.tolerance) {
            None | Some(0) => Refusal::Beyond(tat),
            Some(wait) => Refusal::Wait(wait),
        }
    }

    /// The nanoseconds that can be charged at once.
    pub(crate) fn room(self, payload: Payload, at: Moment) -> u64 {
        self.tolerance.saturating_sub(Self::debt(payload, at))
    }

    /// Nanoseconds until the key is as one that was never seen.
    pub(crate) fn debt(payload: Payload, at: Moment) -> u64 {
        payload.0.saturating_sub(at.tick)
    }
}

/// A payload means the same under every quota.
impl Ranged for PerCallRule {}

impl Ringed for PerCallRule {}

/// Costs are charges, in nanoseconds.
impl Rule for PerCallRule {
    /// The half of one asker's tolerance may be any time at all of another's.
    const SHARES: bool = false;

    #[inline]
    fn limit(&self) -> u64 {
        self.tolerance
    }

    #[inline]
    fn moment(&self, now: Timestamp) -> Moment {
        Moment { tick: now.as_nanos().min(Self::LAST), elapsed: 0 }
    }

    #[inline]
    fn decide(&self, payload: Payload, _: Ring<'_>, at: Moment, charge: u64) -> Verdict {
        // No sum overflows: each addend is at most `MOST`, half of a `u64`.
        let tat = payload.0.max(at.tick) + charge;
        let is_within = tat - at.tick <= self.tolerance && tat <= Self::LAST;
        if is_within { Verdict::Allow(Payload(tat)) } else { Verdict::Deny(payload) }
    }

    #[inline]
    fn expired(&self, payload: Payload, at: Moment) -> bool {
        payload.0 <= at.tick
    }

    fn forgive(&self, _: Payload, at: Moment) -> Payload {
        Payload(at.tick)
    }

    fn refund(&self, Payload(payload): Payload, taken: Taken, at: Moment, order: Order) -> Option<Refund> {
        let Taken { charged: Payload(charged), since, cost } = taken;
        let now = at.tick.max(since.tick);
        // A reset has forgiven the debt meanwhile.
        if matches!(order, Order::Kept | Order::KeptAndBooked) && payload < charged {
            return None;
        }
        let debt = payload.saturating_sub(now);
        let (back, rest, short) = Owed { since: since.tick, cost, charged, now, debt }.back(order);
        (back + short > 0).then(|| Refund { payload: Payload(payload - back), units: back, short, rest })
    }

    /// Half of the tolerance of the call that asks.
    fn half(&self, at: Moment) -> Option<Payload> {
        Some(Payload(at.tick + self.tolerance / 2))
    }

    fn less(&self, charged: Payload, units: u64) -> Payload {
        Payload(charged.0.saturating_sub(units))
    }

    fn needs_order(&self) -> bool {
        true
    }
}
