//! The answer to one request.

use std::fmt;
use std::time::Duration;

use crate::algorithm::{AnyRule, Booking, Numbers, Payload, Rule};
use crate::receipt::{Charged, ChargedBy, Receipt};
use crate::ring::Ring;
use crate::table::Fingerprint;
use crate::table::basis::Basis;
use crate::table::ruling::{Ruling, Standing};
use crate::time::{Timestamp, nanos};

/// The answer to one request: admitted, refused for now, or never to be admitted.
///
/// The verdict is there at once; the numbers are worked out when they are asked for, from what the
/// check saw. (For the sliding log they are read from the log itself: ask before the key is checked
/// again.)
///
/// It borrows from its limiter. What has to live longer is its [`Receipt`]: by that, an admitted
/// request gives back what it took. A decision is neither `Copy` nor `Clone`, so that there is one
/// receipt of a request.
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
/// // A third of a second, rounded up:
/// assert_eq!(decision.retry_after(), Some(Duration::from_nanos(333_333_334)));
///
/// assert!(limiter.check_n("alice", 4).is_never());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a decision that is not looked at limits nothing"]
pub struct Decision<'l> {
    pub(crate) verdict: Outcome,
    basis: Basis,
    /// The limiter's resets before the request was charged.
    resets: u32,
    pub(crate) payload: Payload,
    pub(crate) cost: u64,
    pub(crate) now: Timestamp,
    by: &'l Shown,
    /// The limiter's number among all of this process.
    limiter: u64,
    ring: Ring<'l>,
    /// The key's fingerprint.
    fingerprint: Fingerprint,
}

/// What a decision shows of the rule that made it.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) any: AnyRule,
    /// The number of the version of its limiter's quotas; `LENT`: it came with a call.
    pub(crate) version: u32,
    /// Which rule of the version.
    pub(crate) index: u16,
}

impl Shown {
    /// No version has this number.
    pub(crate) const LENT: u32 = u32::MAX;

    /// By which quota a request was charged that the rule admitted.
    pub(crate) fn charged_by(&self) -> ChargedBy {
        match (self.version, &self.any) {
            (Self::LENT, AnyRule::Gcra(rule)) => ChargedBy::Call { emission: rule.price },
            (number, _) => ChargedBy::Version { number, rule: self.index },
        }
    }
}

/// The outcome of a request.
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
    #[inline(always)]
    pub(crate) fn of(
        ruling: Ruling<'l>,
        (by, limiter): (&'l Shown, u64),
        now: Timestamp,
        cost: u64,
        fingerprint: Fingerprint,
        resets: u32,
    ) -> Self {
        let Ruling { allowed, payload, ring, basis } = ruling;
        let verdict = if allowed { Outcome::Allowed } else { Outcome::Denied };
        Self { verdict, basis, resets, payload, cost, now, by, limiter, ring, fingerprint }
    }

    /// The answer to a request that changes nothing: of cost 0, or of more than the limit.
    pub(crate) fn trivial(standing: Standing<'l>, by: &'l Shown, now: Timestamp, cost: u64) -> Self {
        let Standing { payload, ring, basis } = standing;
        let verdict = if cost == 0 { Outcome::Allowed } else { Outcome::Never };
        let (limiter, resets, fingerprint) = (0, 0, Fingerprint::UNTOUCHED);
        Self { verdict, basis, resets, payload, cost, now, by, limiter, ring, fingerprint }
    }

    /// The same, field by field: returned as it is, the decision would live in memory on every
    /// check.
    #[inline(always)]
    pub(crate) fn by_fields(self) -> Self {
        let Self { verdict, basis, resets, payload, cost, now, by, limiter, ring, fingerprint } = self;
        Self { verdict, basis, resets, payload, cost, now, by, limiter, ring, fingerprint }
    }

    /// Nanoseconds until the request may act. If it was refused: until its turn would come, or
    /// until a full queue has room.
    pub(crate) fn wait_for_turn(&self) -> u64 {
        match self.verdict {
            // The turn of a key whose bucket is full begins when a slot is vacant.
            Outcome::Denied if self.waits_for_slot() => self.until_vacant(),
            Outcome::Denied => self.by.any.wait(self.payload, self.now, self.cost),
            _ => nanos(self.delay()),
        }
    }

    /// Whether the key has no slot and may inherit none, so that it waits until one is vacant.
    fn waits_for_slot(&self) -> bool {
        self.basis == Basis::Full
    }

    /// The ring at the head of the payload.
    fn ring(&self) -> Ring<'l> {
        if self.basis == Basis::Foreseen { self.ring.foreseeing(self.cost) } else { self.ring }
    }

    /// Nanoseconds until the first slot of a full bucket is vacant.
    fn until_vacant(&self) -> u64 {
        self.by.any.vacant_after(self.payload, self.ring, self.now).max(1)
    }

    /// What gives back what the request took: see [`Limiter::refund`](crate::Limiter::refund).
    /// Nothing is [left](Receipt::left) on the receipt of a request that took nothing: it was
    /// refused, peeked at, of cost 0, or admitted uncounted.
    ///
    /// **Cost.** None: it copies a few words. No allocation.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_hour(1_000))).build()?;
    /// let mut receipt = limiter.check_n("alice", 400).receipt();
    /// // The receipt borrows nothing: it may be sent to the thread that learns the real cost.
    /// assert_eq!(limiter.refund_part(&mut receipt, 150), 150);
    /// assert_eq!(receipt.left(), 250);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn receipt(self) -> Receipt {
        let took = self.is_allowed() && self.basis.is_charged();
        let left = if took { self.cost } else { 0 };
        Receipt {
            limiter: self.limiter,
            since: self.now,
            by: self.by.charged_by(),
            resets: self.resets,
            charged: [Charged { fingerprint: self.fingerprint, payload: self.payload, left }],
        }
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

    /// Whether the cost is above the limit, so that no wait will help. Such a request changed
    /// nothing.
    #[must_use]
    #[inline]
    pub fn is_never(&self) -> bool {
        self.verdict == Outcome::Never
    }

    /// Whether the table had no room for the key: it has no slot, its bucket is full of keys in
    /// debt (see [`WhenFull`](crate::WhenFull)), and the request was refused for that, and not by
    /// the key's own debt. [`Stats`](crate::Stats) count such refusals. A larger
    /// [`max_keys`](crate::Builder::max_keys) would have had room.
    ///
    /// A request of cost 0, which is not refused, is told so too, when it finds no slot that its
    /// key may have.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket, WhenFull};
    ///
    /// let quota = TokenBucket::new(Rate::per_hour(1));
    /// let limiter = Limiter::<u64>::builder(quota).max_keys(1).when_full(WhenFull::Deny).build()?;
    /// assert!(limiter.check(&0).is_allowed());
    /// assert!(!limiter.check(&0).is_full(), "its own debt refuses it");
    /// assert!((1..1_000).any(|key| limiter.check(&key).is_full()));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.waits_for_slot() || self.verdict == Outcome::Denied && self.basis.refuses_full()
    }

    /// The most that can be admitted at once: burst, capacity, or the window's limit.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.by.any.limit()
    }

    /// What could still be admitted now, after this request.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        if self.waits_for_slot() { 0 } else { self.by.any.remaining(self.payload, self.ring(), self.now) }
    }

    /// How long until this request would be admitted, if no other request comes: refused one
    /// nanosecond earlier, admitted then. `None` when it was admitted or never will be.
    ///
    /// A request that was refused because its bucket was full (see [`WhenFull`](crate::WhenFull))
    /// is told when the first slot of the bucket is vacant; where new keys share an allowance,
    /// when that has room for the request, or the slot that it may inherit first. At the end of the
    /// clock's time, beyond ten years, it is 584 years.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let wait = || match self.waits_for_slot() {
            true => self.until_vacant(),
            false => self.by.any.retry_after(self.payload, self.ring(), self.now, self.cost),
        };
        (self.verdict == Outcome::Denied).then(|| Duration::from_nanos(wait().max(1)))
    }

    /// How long until more than [`remaining`](Self::remaining) can be admitted, if no request
    /// comes: not one nanosecond earlier. Zero if all of the limit is available. An estimate when
    /// the key's bucket is full.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Rate, TokenBucket};
    ///
    /// let quota = TokenBucket::new(Rate::per_minute(10));
    /// let limiter = Limiter::<str>::builder(quota).clock(ManualClock::new()).build()?;
    /// let decision = limiter.check_n("alice", 10);
    /// assert_eq!(decision.more_after(), Duration::from_secs(6));
    /// assert_eq!(decision.reset_after(), Duration::from_secs(60));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn more_after(&self) -> Duration {
        let nanos = match self.waits_for_slot() {
            true => self.until_vacant(),
            false => self.by.any.more_after(self.payload, self.ring(), self.now),
        };
        Duration::from_nanos(nanos)
    }

    /// How long until the key has its whole limit again, if no request comes: the bucket full, the
    /// windows empty.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.by.any.reset_after(self.payload, self.ring(), self.now))
    }

    /// How long an admitted request is to wait before it acts: its departure time in a
    /// [`LeakyBucket::queue`](crate::LeakyBucket::queue), zero for every other check.
    #[must_use]
    pub fn delay(&self) -> Duration {
        let delay = || self.by.any.delay(self.payload, self.now, self.cost);
        if self.is_allowed() { Duration::from_nanos(delay()) } else { Duration::ZERO }
    }

    /// What the request asked for.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }
}

impl From<Decision<'_>> for Receipt {
    fn from(decision: Decision<'_>) -> Self {
        decision.receipt()
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
