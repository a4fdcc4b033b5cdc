//! Windows that begin with each key's own first request.

use std::fmt;

use crate::algorithm::UPTIME;
use crate::algorithm::windows::{shared, shared_period};
use crate::algorithm::{Algorithm, Compile, FixedWindow, Ranged, Transition};
use crate::error::BuildError;

mod rule;
#[cfg(test)]
mod tests;

pub(crate) use rule::FirstHitRule;
use rule::Ticks;

/// A fixed window that is each key's own. [`FixedWindow::from_first_hit`] makes it.
///
/// It begins with the first admitted request of a key that has no window, and ends one period
/// later. *Guarantee:* at most `limit` units in each window. Across the end of a window **twice the
/// limit can pass at once**, as with aligned windows. So do `INCR` with `EXPIRE` on Redis,
/// gubernator and go-limiter.
///
/// **Time** is counted in ticks of a power of two nanoseconds: the smallest that leave room for the
/// counts, at most a thousandth of the period. [`Resolution::tick`](crate::Resolution::tick) says
/// how many. With a tick of one nanosecond (limits up to 3) every decision is exact. Otherwise a
/// window is less than two ticks longer than its period, and never shorter: with a limit of 100 a
/// minute, by less than 64 nanoseconds.
///
/// **Formula.** The word holds the end of the window and its count; from `end` on the count is 0.
/// Admitted iff `count + cost <= limit`.
///
/// **Memory.** One word per key. Windows with different ends do not compare at all later times, so
/// a [full bucket](crate::WhenFull) of the table refuses new keys, as it does for a sliding window.
///
/// **A change of the quota** keeps the end of each key's window, and what
/// [`Inherit`](crate::Inherit) says of its units. To another period, it keeps the share of the
/// window that is over.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{FixedWindow, Limiter, ManualClock, Rate};
///
/// let clock = ManualClock::new();
/// let quota = FixedWindow::new(Rate::per_minute(1)).from_first_hit();
/// let limiter = Limiter::builder(quota).clock(clock.clone()).build()?;
/// clock.advance(Duration::from_secs(59));
/// assert!(limiter.check(()).is_allowed());
/// clock.advance(Duration::from_secs(1)); // an aligned window would begin here
/// assert_eq!(limiter.check(()).retry_after(), Some(Duration::from_secs(59)));
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FirstHit(pub(super) FixedWindow);

impl FixedWindow {
    /// A window of each key's own: it begins with the key's first admitted request, and not at a
    /// multiple of the period. See [`FirstHit`] for its guarantee and its ticks. It counts refused
    /// requests too where [`count`](Self::count) says so; they do not begin a window.
    #[must_use]
    pub const fn from_first_hit(self) -> FirstHit {
        FirstHit(self)
    }
}

impl fmt::Display for FirstHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},first-hit", self.0)
    }
}

impl Algorithm for FirstHit {}

impl Compile for FirstHit {
    type Rule = FirstHitRule;

    fn saved_as(&self) -> String {
        self.to_string()
    }

    fn compile(tiers: &[Self], _: u64) -> Result<Vec<FirstHitRule>, BuildError> {
        compiled(tiers, 0, 0)
    }

    fn recompile(
        tiers: &[Self],
        _: u64,
        olds: &[FirstHitRule],
        change: Transition<'_>,
    ) -> Result<Vec<FirstHitRule>, BuildError> {
        let top = olds.first().map_or(0, |old| old.top(change.until));
        // A whole word has room for these windows: earlier changes used it up.
        compiled(tiers, change.since, top).map_err(|_| BuildError::ChangedTooOften)
    }
}

/// The rules of all tiers from `since` on, whose payloads are larger than `top`.
fn compiled(tiers: &[FirstHit], since: u64, top: u64) -> Result<Vec<FirstHitRule>, BuildError> {
    let limit = |tier: &FirstHit| tier.0.rate.count();
    let period = shared_period(tiers.iter().map(|tier| tier.0.rate), 1..=UPTIME)?;
    let count = shared("count", tiers.iter().map(|tier| tier.0.count))?;
    let fit = |most| Ticks::fit(period, most, since, top);
    if let Some(wrong) = tiers.iter().map(limit).find(|&count| count == 0 || fit(count).is_none()) {
        let (value, max) = (wrong.into(), Ticks::most(period, since, top).into());
        return Err(BuildError::OutOfRange { field: "rate.count", value, min: 1, max });
    }
    let ticks = tiers.iter().map(limit).max().and_then(fit);
    let rule = |tier: &FirstHit| Some(FirstHitRule::new(ticks?, limit(tier), count));
    Ok(tiers.iter().filter_map(rule).collect())
}
