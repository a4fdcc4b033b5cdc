//! The state of one limit for one key, as headers and bodies show it.

use std::time::Duration;

use tollgate::{Decision, Part};

/// The state of one limit for one key, after a decision.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, Rate, TokenBucket};
/// use tollgate_http::LimitState;
///
/// let quota = TokenBucket::new(Rate::per_second(10));
/// let limiter: Limiter<str, TokenBucket, 1, ManualClock> =
///     Limiter::builder(quota).per().clock(ManualClock::new()).build()?;
/// let state = LimitState::from(&limiter.check("alice"));
/// assert_eq!((state.limit, state.remaining), (10, 9));
/// assert_eq!(state.reset, Duration::from_millis(100));
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitState {
    /// The most that can be admitted at once: the burst, the capacity, or the window's limit.
    pub limit: u64,
    /// How much of the limit is left.
    pub remaining: u64,
    /// The time until more of the limit is available, zero if it is whole; for a refused request,
    /// until it would be admitted. [`Duration::MAX`] if it is not known, as of requests in flight:
    /// `RateLimit` then has no `t`, and headers that need a reset do not show the limit.
    pub reset: Duration,
}

impl From<&Part<'_>> for LimitState {
    #[inline]
    fn from(limit: &Part<'_>) -> Self {
        let reset = limit.retry_after().unwrap_or_else(|| limit.more_after());
        Self { limit: limit.limit(), remaining: limit.remaining(), reset }
    }
}

impl From<&Decision<'_>> for LimitState {
    #[inline]
    fn from(decision: &Decision<'_>) -> Self {
        let reset = decision.retry_after().unwrap_or_else(|| decision.more_after());
        Self { limit: decision.limit(), remaining: decision.remaining(), reset }
    }
}
