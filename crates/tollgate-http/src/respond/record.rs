//! A refusal without its request.

use std::time::Duration;

use tollgate::{Decision, Outcome};

use crate::{LimitState, RefusalReason};

/// Why a request was refused, and by which limits. [`Refusal`](crate::Refusal) is a view of it,
/// with the request and the names.
///
/// Its fields are public, because limits of another process decide otherwise than
/// [`of`](Self::of).
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Rate, TokenBucket};
/// use tollgate_http::{RefusalReason, RefusalRecord};
///
/// let quota = TokenBucket::new(Rate::per_second(10));
/// let limiter = Limiter::builder(quota).per::<str>().build()?;
/// let record = RefusalRecord::of(&limiter.check_n("alice", 11), 11);
/// assert_eq!(record.reason, RefusalReason::CostAboveLimit);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalRecord {
    /// Why the request was refused.
    pub reason: RefusalReason,
    /// The cost of the request.
    pub cost: u64,
    /// The state of the limit with the longest wait. `None` if no limit refused the request.
    pub state: Option<LimitState>,
    /// The time until the rule would admit the request. `None` if a later retry would be refused
    /// too, or if the time is not known.
    pub retry_after: Option<Duration>,
    /// The number of the limit with the longest wait. `None` if no limit of this process refused
    /// the request.
    pub slowest: Option<usize>,
    /// A bit for each limit of this process that refuses, by its number.
    pub refusing: u64,
}

impl RefusalRecord {
    /// Describes a decision that refuses a request of this cost.
    #[must_use]
    pub fn of<const N: usize>(decision: &Decision<'_, N>, cost: u64) -> Self {
        let (reason, retry_after) = match decision.outcome() {
            Outcome::Never => (RefusalReason::CostAboveLimit, None),
            _ => (RefusalReason::Limited, decision.retry_after()),
        };
        let slowest = decision.refused_by().unwrap_or(0);
        let state = decision.parts().nth(slowest).map(|limit| LimitState::from(&limit));
        let bit = |refuses: bool, number| u64::from(refuses) << number;
        let refusing = decision.parts().fold(0, |mask, limit| mask | bit(limit.refuses(), limit.number()));
        Self { reason, cost, state, retry_after, slowest: Some(slowest), refusing }
    }

    /// Describes a refusal by no limit: the request has no key, or a backend failed.
    #[must_use]
    pub fn without_limit(reason: RefusalReason, cost: u64) -> Self {
        Self { reason, cost, state: None, retry_after: None, slowest: None, refusing: 0 }
    }
}
