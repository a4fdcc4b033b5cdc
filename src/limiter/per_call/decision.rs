//! The answer to a call that brings its quota, and why there is none.

use std::error;
use std::fmt;
use std::time::Duration;

use crate::algorithm::{CallQuota, Moment, Payload, PerCallRule, Refusal, Rule, Taken};
use crate::decision::Outcome;
use crate::table::Fingerprint;
use crate::time::Timestamp;

/// The answer to one call of a [`PerCallLimiter`](crate::PerCallLimiter): admitted, refused for
/// now, or never to be admitted under the quota that came with it.
///
/// All numbers are exact, in nanoseconds, and as of this call: another may bring another quota. It
/// borrows nothing and may be kept to [refund](crate::PerCallLimiter::refund) the request. It is
/// neither `Copy` nor `Clone`, so that no request is given back twice.
///
/// # Examples
///
/// What `CL.THROTTLE user 15 30 60` answers, before it rounds to seconds:
///
/// ```
/// use std::time::Duration;
/// use tollgate::{CallQuota, ManualClock, PerCallLimiter};
///
/// let limiter = PerCallLimiter::<str>::builder().clock(ManualClock::new()).build()?;
/// let emission = 60_000_000_000 / 30;
/// let quota = CallQuota::from_nanos(emission, emission * (15 + 1))?;
/// let decision = limiter.check("user", quota, 1)?;
/// assert!(decision.is_allowed());
/// assert_eq!((decision.limit(), decision.remaining()), (16, 15));
/// assert_eq!(decision.retry_after(), None);
/// assert_eq!(decision.reset_after(), Duration::from_secs(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a decision that is not looked at limits nothing"]
pub struct CallDecision {
    pub(super) outcome: Outcome,
    pub(super) quota: CallQuota,
    pub(super) cost: u64,
    /// After the request.
    pub(super) payload: Payload,
    pub(super) now: Timestamp,
    /// Units that may still be asked back.
    pub(super) left: u64,
    pub(super) fingerprint: Fingerprint,
    /// The limiter's resets before the request was charged.
    pub(super) resets: u32,
    /// The limiter's number.
    pub(super) limiter: u64,
}

impl CallDecision {
    /// The answer to a request that was charged nothing.
    pub(super) fn without_charge(
        outcome: Outcome,
        payload: Payload,
        quota: CallQuota,
        cost: u64,
        now: Timestamp,
    ) -> Self {
        let fingerprint = Fingerprint::UNTOUCHED;
        Self { outcome, quota, cost, payload, now, left: 0, fingerprint, resets: 0, limiter: 0 }
    }

    /// The same answer, field by field: returned as it is, the decision would live in memory on
    /// every check.
    #[inline(always)]
    pub(super) fn by_fields(answer: Result<Self, CallError>) -> Result<Self, CallError> {
        let Self { outcome, quota, cost, payload, now, left, fingerprint, resets, limiter } = answer?;
        Ok(Self { outcome, quota, cost, payload, now, left, fingerprint, resets, limiter })
    }

    /// Why the request was refused.
    pub(super) fn refusal(&self) -> Refusal {
        self.quota.rule().refusal(self.payload, self.at(), self.quota.nanos(self.cost))
    }

    /// Spends `units` of those that are left, the last first: what they took.
    pub(super) fn spend(&mut self, units: u64) -> Taken {
        // As if the units that are gone had been a request of their own, right after the others.
        let gone = self.quota.nanos(self.cost - self.left);
        let charged = self.quota.rule().less(self.payload, gone);
        self.left -= units;
        Taken { charged, since: self.at(), cost: self.quota.nanos(units) }
    }

    fn at(&self) -> Moment {
        self.quota.rule().moment(self.now)
    }

    /// Whether the request is admitted, refused, or can never be admitted.
    #[must_use]
    #[inline]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether the request is admitted.
    #[must_use]
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.outcome == Outcome::Allowed
    }

    /// Whether the cost is above the [limit](Self::limit), so that no wait will help. Such a
    /// request changed nothing.
    #[must_use]
    #[inline]
    pub fn is_never(&self) -> bool {
        self.outcome == Outcome::Never
    }

    /// The most that this call's quota admits at once: [`CallQuota::limit`].
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.quota.limit()
    }

    /// The cost that this call's quota would still admit now, after this request.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.quota.rule().room(self.payload, self.at()) / self.quota.nanos(1)
    }

    /// How long until this request would be admitted with the same quota, if no other comes:
    /// refused one nanosecond earlier, admitted then. `None` when it was admitted or never will be.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        if self.outcome != Outcome::Denied {
            return None;
        }
        match self.refusal() {
            Refusal::Wait(nanos) => Some(Duration::from_nanos(nanos)),
            Refusal::Beyond(_) => None,
        }
    }

    /// How long until the key has its whole limit again, if no request comes: its TAT less the time
    /// of the call, under any quota.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(PerCallRule::debt(self.payload, self.at()))
    }

    /// What the request asked for.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }
}

impl fmt::Debug for CallDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallDecision")
            .field("outcome", &self.outcome)
            .field("quota", &self.quota)
            .field("cost", &self.cost)
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .finish_non_exhaustive()
    }
}

/// Why a call has no answer. Nothing was charged.
///
/// # Examples
///
/// ```
/// use tollgate::{CallError, CallQuota, PerCallLimiter, Rate};
///
/// let limiter = PerCallLimiter::<u64>::builder().max_keys(1).build()?;
/// // An hour's debt each, until there is no room for another.
/// let hourly = CallQuota::new(Rate::per_hour(1), 1)?;
/// let error = (0..).find_map(|key| limiter.check(&key, hourly, 1).err()).expect("it is finite");
/// assert!(matches!(error, CallError::Full { max_keys: 1, .. }));
/// assert!(error.to_string().ends_with("keys are in debt: raise max_keys, which is 1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// The key has no slot. Every slot that it could have belongs to a key with a debt of more than
    /// half of this call's tolerance; or the debt that the key would inherit leaves no room for the
    /// request; or other threads took the slot three times.
    ///
    /// A table sized by `max_keys` has room for all but up to eight keys in a thousand when
    /// `max_keys` keys are in debt.
    Full {
        /// About how many keys are in debt: judged by 32 buckets of the table.
        keys_in_debt: usize,
        /// How many the limiter was built for.
        max_keys: usize,
    },
    /// The cost times the quota's emission interval is more than `i64::MAX` nanoseconds.
    CostOutOfRange {
        /// The cost asked for.
        cost: u64,
        /// The largest that is accepted with this quota.
        max: u64,
    },
    /// The quota has room for the request, but the key's word has not: the request would leave a
    /// TAT more than 146 years after the clock's zero.
    TatOutOfRange {
        /// The TAT, in nanoseconds since the clock's zero.
        tat: u64,
        /// The largest that a word can hold.
        max: u64,
    },
}

impl CallError {
    pub(super) fn beyond(tat: u64) -> Self {
        Self::TatOutOfRange { tat, max: PerCallRule::LAST }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { keys_in_debt, max_keys } => write!(
                f,
                "the table has no room for another key, and about {keys_in_debt} keys are in debt: raise max_keys, which is {max_keys}"
            ),
            Self::CostOutOfRange { cost, max } => {
                write!(f, "the cost is {cost}, but must be at most {max} with this emission interval")
            }
            Self::TatOutOfRange { tat, max } => write!(
                f,
                "the key's TAT would be {tat} nanoseconds after the clock's zero, but must be at most {max}"
            ),
        }
    }
}

impl error::Error for CallError {}
