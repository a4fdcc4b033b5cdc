//! The answer to one request.

use std::fmt;
use std::time::Duration;

use crate::algorithm::{AnyRule, Numbers, Rule, Taken};
use crate::ring::Ring;
use crate::table::slot::Ruling;
use crate::time::Timestamp;

/// The answer to one request: admitted, refused for now, or never to be admitted.
///
/// The verdict is there at once; the numbers are worked out when they are asked for, from what the check saw. (For the
/// sliding log they are read from the log itself: ask before the key is checked again.)
///
/// It is neither `Copy` nor `Clone`, so that what it took can be [refunded](crate::Limiter::refund) once only.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, Rate, TokenBucket};
///
/// let quota = TokenBucket::new(Rate::per_second(3));
/// let limiter = Limiter::<str>::builder(quota).clock(ManualClock::new()).build()?;
/// let decision = limiter.check_n("alice", 2);
/// assert!(decision.is_allowed());
/// assert_eq!((decision.limit(), decision.remaining()), (3, 1));
///
/// let decision = limiter.check_n("alice", 2);
/// assert!(!decision.is_allowed());
/// assert_eq!(decision.retry_after(), Some(Duration::from_nanos(333_333_334))); // a third of a second, rounded up
///
/// assert!(limiter.check_n("alice", 4).is_never());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a decision that nobody looks at limits nothing"]
pub struct Decision<'l> {
    pub(crate) verdict: Outcome,
    pub(crate) payload: u64,
    pub(crate) cost: u64,
    pub(crate) now: Timestamp,
    pub(crate) rule: &'l AnyRule,
    pub(crate) ring: Ring<'l>,
    /// The name of the key that was asked for.
    pub(crate) name: u64,
}

/// What a request was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It may go ahead, after [`Decision::delay`].
    Allowed,
    /// It may try again after [`Decision::retry_after`].
    Denied,
    /// Its cost is above the limit: no wait will help.
    Never,
}

impl From<&Decision<'_>> for Outcome {
    fn from(decision: &Decision<'_>) -> Self {
        decision.outcome()
    }
}

impl<'l> Decision<'l> {
    pub(crate) fn of(ruling: Ruling<'l>, rule: &'l AnyRule, now: Timestamp, cost: u64, name: u64) -> Self {
        let verdict = if ruling.allowed { Outcome::Allowed } else { Outcome::Denied };
        Self { verdict, payload: ruling.payload, cost, now, rule, ring: ruling.ring, name }
    }

    /// The answer to a request that changes nothing whatever is owed: of cost 0, or of more than the limit.
    pub(crate) fn trivial(owed: u64, ring: Ring<'l>, rule: &'l AnyRule, now: Timestamp, cost: u64) -> Self {
        let verdict = if cost == 0 { Outcome::Allowed } else { Outcome::Never };
        Self { verdict, payload: owed, cost, now, rule, ring, name: 0 }
    }

    /// The last `units` of what the request took; `None` when that is nothing: it was refused, only looked at, of cost 0,
    /// or uncounted.
    pub(crate) fn taken(&self, units: u64) -> Option<Taken> {
        let cost = units.min(self.cost);
        let took = self.is_allowed() && cost > 0 && self.ring.unstaged() == 0;
        took.then(|| Taken { charged: self.payload, since: self.rule.moment(self.now), cost })
    }

    /// Whether the request is admitted, refused, or can never be admitted.
    #[must_use]
    #[inline]
    pub fn outcome(&self) -> Outcome {
        self.verdict
    }

    /// Whether the request is admitted.
    #[must_use]
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.verdict == Outcome::Allowed
    }

    /// Whether the cost is above the limit, so that no wait will help. Such a request changed nothing.
    #[must_use]
    #[inline]
    pub fn is_never(&self) -> bool {
        self.verdict == Outcome::Never
    }

    /// The most that can be admitted at once: burst, capacity, or the window's limit.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.rule.limit()
    }

    /// What could still be admitted at this moment, after this request.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.rule.remaining(self.payload, self.ring, self.now)
    }

    /// How long until this request would be admitted, if nobody else comes: refused one nanosecond earlier, admitted
    /// then. `None` when it was admitted or never will be.
    ///
    /// A request that was refused because its bucket was full (see [`WhenFull`](crate::WhenFull)) gets an estimate. At
    /// the end of the clock's time, beyond ten years, it is 584 years.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let wait = || self.rule.retry_after(self.payload, self.ring, self.now, self.cost);
        (self.verdict == Outcome::Denied).then(|| Duration::from_nanos(wait().max(1)))
    }

    /// How long until the key is as good as new, if nobody comes: the bucket full, the windows empty.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.rule.reset_after(self.payload, self.ring, self.now))
    }

    /// How long an admitted request is to wait before it acts: its departure time in a
    /// [`LeakyBucket::queue`](crate::LeakyBucket::queue), zero for every other check.
    #[must_use]
    pub fn delay(&self) -> Duration {
        let delay = || self.rule.delay(self.payload, self.now, self.cost);
        if self.is_allowed() { Duration::from_nanos(delay()) } else { Duration::ZERO }
    }

    /// What the request asked for.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }
}

impl fmt::Debug for Decision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("outcome", &self.verdict)
            .field("cost", &self.cost)
            .field("limit", &self.limit())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .field("delay", &self.delay())
            .finish()
    }
}
