//! Windows and intervals that begin with each key's own first request.

use std::fmt;

use crate::algorithm::UPTIME;
use crate::algorithm::windows::{shared, shared_period};
use crate::algorithm::{Algorithm, Change, CountPolicy, FixedWindow, Ranged, Settings, TokenBucket, sealed};
use crate::error::{BuildError, within};
use crate::rate::Rate;

mod rule;
#[cfg(test)]
mod tests;

pub(crate) use rule::FirstHitRule;
use rule::{Form, Ticks};

/// A fixed window or a token bucket whose time is each key's own: it begins with the key's first
/// admitted request. [`FixedWindow::from_first_hit`] and [`TokenBucket::from_first_hit`] make it.
///
/// **The window.** It begins with the first admitted request of a key that has no window, and ends
/// one period later. *Guarantee:* at most `limit` units in each window. Across the end of a window
/// **twice the limit can pass at once**, as with aligned windows. So do `INCR` with `EXPIRE` on
/// Redis, gubernator and go-limiter.
///
/// **The bucket.** It refills by intervals: `rate.count()` tokens at the end of each period since
/// the key's first request, up to `burst`; nothing in between. Tokens that were not spent are
/// carried over. A full bucket begins its intervals anew with its next request. *Guarantee:* at
/// most `burst + count * (D / period + 1)` units in any time `D`, the division rounded down.
/// So do Bucket4j's `refillIntervally` and resilience4j.
///
/// **Time** is counted in ticks of a power of two nanoseconds: the smallest that leave room for the
/// counts, at most a thousandth of the period. [`Resolution::tick`](crate::Resolution::tick) says
/// how many. With a tick of one nanosecond (limits up to 3; refills of up to 7) every decision is
/// exact. Otherwise a window, and each interval, is less than two ticks longer than its period, and
/// never shorter: with a limit of 100 a minute, by less than 64 nanoseconds.
///
/// **Formula.** The word holds the end of the debt and the units that the last interval pays:
/// `used = (ceil((end - now) / period) - 1) * count + units`, of a window `units`, and nothing from
/// `end` on. Admitted iff `used + cost <= limit`.
///
/// **Memory.** One word per key. Debts with different ends do not compare at all later times, so a
/// [full bucket](crate::WhenFull) of the table refuses new keys, as it does for a sliding window.
///
/// **A change of the quota** keeps the place of each key in its interval, and what
/// [`Inherit`](crate::Inherit) says of its units.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{FixedWindow, GlobalLimiter, ManualClock, Rate};
///
/// let clock = ManualClock::new();
/// let quota = FixedWindow::new(Rate::per_minute(1)).from_first_hit();
/// let limiter = GlobalLimiter::builder(quota).clock(clock.clone()).build()?;
/// clock.advance(Duration::from_secs(59));
/// assert!(limiter.check().is_allowed());
/// clock.advance(Duration::from_secs(1)); // an aligned window would begin here
/// assert_eq!(limiter.check().retry_after(), Some(Duration::from_secs(59)));
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(from = "Of", into = "Of"))]
pub struct FirstHit(pub(super) Of);

/// The rule whose time is each key's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub(super) enum Of {
    FixedWindow(FixedWindow),
    TokenBucket(TokenBucket),
}

impl FixedWindow {
    /// A window of each key's own: it begins with the key's first admitted request, and not at a
    /// multiple of the period. See [`FirstHit`] for its guarantee and its ticks. It counts refused
    /// requests too where [`count`](Self::count) says so; they do not begin a window.
    #[must_use]
    pub const fn from_first_hit(self) -> FirstHit {
        FirstHit(Of::FixedWindow(self))
    }
}

impl TokenBucket {
    /// Refills by intervals of each key's own: `rate.count()` tokens at the end of each period
    /// since the key's first request, and nothing in between. See [`FirstHit`] for its guarantee
    /// and its ticks. With [`initial`](Self::initial) tokens, the intervals of every key begin at
    /// the clock's zero, until its bucket is full.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{GlobalLimiter, ManualClock, Rate, TokenBucket};
    ///
    /// let clock = ManualClock::new();
    /// let quota = TokenBucket::new(Rate::per_minute(7)).burst(21).from_first_hit();
    /// let limiter = GlobalLimiter::builder(quota).clock(clock.clone()).build()?;
    /// clock.advance(Duration::from_secs(100));
    /// assert!(limiter.check_n(21).is_allowed());
    /// assert_eq!(limiter.check_n(14).retry_after(), Some(Duration::from_secs(120)));
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(limiter.at(limiter.now()).peek_n(0).remaining(), 7);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub const fn from_first_hit(self) -> FirstHit {
        FirstHit(Of::TokenBucket(self.by_intervals()))
    }
}

impl From<Of> for FirstHit {
    fn from(of: Of) -> Self {
        match of {
            Of::FixedWindow(window) => window.from_first_hit(),
            Of::TokenBucket(bucket) => bucket.from_first_hit(),
        }
    }
}

impl From<FirstHit> for Of {
    fn from(FirstHit(of): FirstHit) -> Self {
        of
    }
}

impl fmt::Display for FirstHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Of::FixedWindow(window) => window.fmt(f)?,
            Of::TokenBucket(bucket) => bucket.fmt(f)?,
        }
        write!(f, ",first-hit")
    }
}

impl sealed::Sealed for FirstHit {}

impl Algorithm for FirstHit {
    type Rule = FirstHitRule;

    fn settings(&self) -> Settings {
        match self.0 {
            Of::FixedWindow(window) => Settings { algorithm: "fixed-window-first-hit", ..window.settings() },
            Of::TokenBucket(bucket) => Settings { algorithm: "token-bucket-first-hit", ..bucket.settings() },
        }
    }

    fn compile(tiers: &[Self], _: u64) -> Result<Vec<FirstHitRule>, BuildError> {
        let mut rules = compiled(tiers, 0, 0)?;
        let tokens = tiers.iter().map(|tier| Ok(tier.limit() - tier.initial()?));
        let debts: Vec<u64> = tokens.collect::<Result<_, BuildError>>()?;
        let least = debts.iter().copied().min().unwrap_or(0);
        for (rule, units) in rules.iter_mut().zip(debts) {
            *rule = rule.starting(rule.debt_of(units), rule.debt_of(least));
        }
        Ok(rules)
    }

    fn recompile(
        tiers: &[Self],
        _: u64,
        olds: &[FirstHitRule],
        change: Change<'_>,
    ) -> Result<Vec<FirstHitRule>, BuildError> {
        tiers.iter().try_for_each(|tier| tier.initial().map(drop))?;
        let top = olds.first().map_or(0, |old| old.top(change.until));
        // A whole word would have room: earlier changes used it up.
        let is_changed = || compiled(tiers, 0, 0).is_ok();
        compiled(tiers, change.since, top)
            .map_err(|error| if is_changed() { BuildError::ChangedTooOften } else { error })
    }
}

impl FirstHit {
    pub(super) const fn rate(&self) -> Rate {
        match self.0 {
            Of::FixedWindow(window) => window.rate,
            Of::TokenBucket(bucket) => bucket.rate,
        }
    }

    pub(super) const fn limit(&self) -> u64 {
        match self.0 {
            Of::FixedWindow(window) => window.rate.count(),
            Of::TokenBucket(bucket) => bucket.burst,
        }
    }

    pub(super) const fn count_policy(&self) -> CountPolicy {
        match self.0 {
            Of::FixedWindow(window) => window.count,
            Of::TokenBucket(_) => CountPolicy::Allowed,
        }
    }

    /// The tokens of every bucket at the zero of the clock. A window starts empty.
    fn initial(&self) -> Result<u64, BuildError> {
        match self.0 {
            Of::FixedWindow(window) => Ok(window.rate.count()),
            Of::TokenBucket(bucket) => bucket.initial_tokens(),
        }
    }

    fn form(&self) -> Form {
        match self.0 {
            Of::FixedWindow(_) => Form::Window,
            Of::TokenBucket(_) => Form::Bucket,
        }
    }
}

/// The rules of all tiers from `since` on, whose payloads are larger than `top`.
fn compiled(tiers: &[FirstHit], since: u64, top: u64) -> Result<Vec<FirstHitRule>, BuildError> {
    let period = shared_period(tiers.iter().map(FirstHit::rate))?;
    within("rate.period", period, 1_u64, UPTIME)?;
    let count = shared("count", tiers.iter().map(FirstHit::count_policy))?;
    let form = shared("algorithm", tiers.iter().map(FirstHit::form))?;
    let (mut most, mut longest) = (1, 1);
    for tier in tiers {
        // A full bucket refills within ten years.
        let (refill, limit) = (tier.rate().count(), tier.limit());
        within("rate.count", refill, 1_u64, u64::MAX)?;
        let largest = u128::from(UPTIME / period) * u128::from(refill);
        within(if form == Form::Window { "rate.count" } else { "burst" }, limit, 1_u64, largest)?;
        let intervals = if form == Form::Window { 1 } else { limit.div_ceil(refill) };
        (most, longest) = (refill.max(most), intervals.max(longest));
    }
    let ticks = Ticks::fit(form, period, most, longest, since, top)?;
    Ok(tiers
        .iter()
        .map(|tier| FirstHitRule::new(ticks, form, tier.rate().count(), tier.limit(), count))
        .collect())
}
