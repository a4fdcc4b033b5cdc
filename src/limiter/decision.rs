//! The answer to one request.

use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

use crate::algorithm::{AnyRule, Payload, Rule};
use crate::limiter::part::{Part, read_at};
use crate::limiter::tables::Tables;
use crate::outcome::Outcome;
use crate::receipt::{Charged, ChargedBy, MOST_LIMITS, Receipt, Set};
use crate::table::{DecidedOn, Fingerprint};
use crate::time::{Timestamp, nanos};

/// The answer of `N` limits to one request: admitted by all, or refused for now or forever by some.
///
/// The verdict is there at once; the numbers are worked out when they are asked for, from what the
/// check saw. (For the sliding log they are read from the log itself: ask before the key is checked
/// again.) Of several limits, the numbers of the decision are those of the limit that matters, and
/// [`parts`](Self::parts) has those of each. Of a refused request the limits that would have
/// admitted it show what they hold without it.
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
/// let limiter = Limiter::builder(quota).per::<str>().clock(ManualClock::new()).build()?;
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
///
/// Of several limits:
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, Rate, TokenBucket};
///
/// let quotas = [Rate::per_second(10), Rate::per_minute(15)].map(TokenBucket::new);
/// let limiter = Limiter::builder(quotas).per::<str>().clock(ManualClock::new()).build()?;
/// let decision = limiter.check_n("alice", 8);
/// assert_eq!((decision.is_allowed(), decision.remaining()), (true, 2));
///
/// // The first bucket lacks six tokens, the second one:
/// let decision = limiter.check_n("alice", 8);
/// assert_eq!(decision.refused_by(), Some(1));
/// assert_eq!(decision.retry_after(), Some(Duration::from_secs(4)));
/// let waits: Vec<_> = decision.parts().map(|part| part.retry_after()).collect();
/// assert_eq!(waits, [Some(Duration::from_millis(600)), Some(Duration::from_secs(4))]);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a decision that is not looked at limits nothing"]
pub struct Decision<'l, const N: usize = 1> {
    pub(super) tables: &'l Tables<N>,
    /// The rules that decided.
    pub(super) by: &'l [DecidedBy; N],
    /// The key's fingerprint.
    pub(super) fingerprint: Fingerprint,
    pub(super) cost: u64,
    pub(super) now: Timestamp,
    /// No later than the time of any of the charges.
    pub(super) since: Timestamp,
    /// The limiter's resets before the request was charged.
    pub(super) resets: u32,
    pub(super) outcome: Outcome,
    /// The limits that refuse the request.
    pub(super) refused: Set,
    /// For each limit the key's ring, and on what the limit decided.
    pub(super) decided_on: [DecidedOn; N],
    /// For each limit the key's payload: after the request, or without it if it is refused.
    pub(super) payloads: [Payload; N],
}

const _: () = assert!(size_of::<Decision<'_, MOST_LIMITS>>() <= 128, "a larger one is moved by a call");

/// What a decision shows of a rule that made it.
#[derive(Debug)]
pub(crate) struct DecidedBy {
    pub(crate) any: AnyRule,
    /// The number of the version of its limiter's quotas; `LENT`: it came with a call.
    pub(crate) version: u32,
    /// Which rule of the version.
    pub(crate) index: u16,
}

impl DecidedBy {
    /// No version has this number.
    pub(crate) const LENT: u32 = u32::MAX;

    /// By which quota a request was charged that the rule admitted, the first of several.
    pub(crate) fn charged_by(&self) -> ChargedBy {
        match (self.version, &self.any) {
            (Self::LENT, AnyRule::Gcra(rule)) => ChargedBy::Call { emission: rule.price },
            (number, _) => ChargedBy::Version { number, rule: self.index },
        }
    }
}

impl<const N: usize> Decision<'_, N> {
    /// The same, field by field: returned as it is, the decision would live in memory on every
    /// check.
    #[inline(always)]
    pub(super) fn by_fields(self) -> Self {
        let Self {
            tables,
            by,
            fingerprint,
            cost,
            now,
            since,
            resets,
            outcome,
            refused,
            decided_on,
            payloads,
        } = self;
        Self { tables, by, fingerprint, cost, now, since, resets, outcome, refused, decided_on, payloads }
    }

    /// Nanoseconds until the request may act. If it was refused: until its turn would come, or
    /// until a full queue has room.
    pub(super) fn wait_for_turn(&self) -> u64 {
        match self.outcome {
            Outcome::Denied => self.parts().map(|part| part.wait_for_turn()).max().unwrap_or(0),
            _ => nanos(self.delay()),
        }
    }

    /// Whether the limit that is charged at this place refuses the request.
    #[inline]
    pub(super) fn refuses(&self, place: usize) -> bool {
        if N == 1 { self.outcome != Outcome::Allowed } else { self.refused.has(place) }
    }

    /// Whether this limit was charged the request, if that was admitted.
    pub(super) fn is_charged(&self, place: usize) -> bool {
        place < self.tables.limits() && self.decided_on[place].basis().is_charged()
    }

    /// The numbers of the only limit.
    #[inline(always)]
    fn only(&self) -> Part<'_> {
        self.part(0, 0)
    }

    /// What the limit of this number says, which is charged at `place`.
    #[inline(always)]
    fn part(&self, number: usize, place: usize) -> Part<'_> {
        let (at, cost) = (self.decided_on[place], self.cost);
        let (ring, basis) = read_at(&self.tables[place], self.fingerprint, at, cost);
        Part {
            number,
            rule: &self.by[place].any,
            payload: self.payloads[place],
            ring,
            basis,
            cost,
            now: self.now,
            refuses: self.refuses(place),
            outcome: self.outcome,
        }
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
    /// let quota = TokenBucket::new(Rate::per_hour(1_000));
    /// let limiter = Limiter::builder(quota).per::<str>().build()?;
    /// let mut receipt = limiter.check_n("alice", 400).receipt();
    /// // The receipt borrows nothing: it may be sent to the thread that learns the real cost.
    /// assert_eq!(limiter.refund_part(&mut receipt, 150), 150);
    /// assert_eq!(receipt.left(), 250);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn receipt(self) -> Receipt<N> {
        self.receipt_of(|place| self.is_allowed() && self.is_charged(place))
    }

    /// What gives back what those limits took that `have_taken` it.
    pub(super) fn receipt_of(&self, have_taken: impl Fn(usize) -> bool) -> Receipt<N> {
        let left = |place| if have_taken(place) { self.cost } else { 0 };
        Receipt {
            limiter: self.tables.limiter,
            since: self.since,
            by: self.by[0].charged_by(),
            place: 0,
            resets: self.resets,
            fingerprint: self.fingerprint,
            charged: std::array::from_fn(|place| Charged {
                payload: self.payloads[place],
                left: left(place),
            }),
        }
    }

    /// Whether the request is admitted, refused, or can never be admitted.
    #[must_use]
    #[inline]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether the request is admitted, by every limit.
    #[must_use]
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.outcome == Outcome::Allowed
    }

    /// Whether the cost is above a limit, so that no wait will help. Such a request changed
    /// nothing.
    #[must_use]
    #[inline]
    pub fn is_never(&self) -> bool {
        self.outcome == Outcome::Never
    }

    /// Whether the table of a limit had no room for the key: it has no slot there, its bucket is
    /// full of keys in debt (see [`WhenFull`](crate::WhenFull)), and the limit refused the request
    /// for that, and not for the key's own debt. [`Stats`](crate::Stats) count such refusals. A
    /// larger [`max_keys`](crate::Builder::max_keys) would have had room.
    ///
    /// A request of cost 0, which is not refused, is told so too, when it finds no slot that its
    /// key may have.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket, WhenFull};
    ///
    /// let builder = Limiter::builder(TokenBucket::new(Rate::per_hour(1))).per::<u64>();
    /// let limiter = builder.max_keys(1).when_full(WhenFull::Deny).build()?;
    /// assert!(limiter.check(0).is_allowed());
    /// assert!(!limiter.check(0).is_full(), "its own debt refuses it");
    /// assert!((1..1_000_u64).any(|key| limiter.check(key).is_full()));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn is_full(&self) -> bool {
        let is_full = |part: Part<'_>| part.waits_for_slot() || part.refuses_full();
        if N == 1 { is_full(self.only()) } else { self.parts().any(is_full) }
    }

    /// Of the limits that refuse the request, the number of the one with the longest wait, as they
    /// were given to the builder, from 0; the first of those whose wait would never end. `None`
    /// when the request is admitted.
    #[must_use]
    pub fn refused_by(&self) -> Option<usize> {
        let wait = |part: &Part<'_>| Reverse(part.retry_after());
        self.parts().filter(Part::refuses).min_by_key(wait).map(|part| part.number())
    }

    /// The most that can be admitted at once: burst, capacity, or the window's limit; of several
    /// limits the least.
    #[must_use]
    pub fn limit(&self) -> u64 {
        if N == 1 {
            return self.by[0].any.limit();
        }
        self.parts().map(|part| part.limit()).min().unwrap_or(0)
    }

    /// What could still be admitted now, after this request: by the tightest limit.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        if N == 1 {
            return self.only().remaining();
        }
        self.parts().map(|part| part.remaining()).min().unwrap_or(0)
    }

    /// How long until this request would be admitted, if no other request comes: refused one
    /// nanosecond earlier, admitted then. `None` when it was admitted or never will be. Of several
    /// limits that refuse it, the longest wait: exact unless another limit is spent by then.
    ///
    /// A request that was refused because its bucket was full (see [`WhenFull`](crate::WhenFull))
    /// is told when the first slot of the bucket is vacant; where new keys share an allowance,
    /// when that has room for the request, or the slot that it may inherit first. At the end of the
    /// clock's time, beyond ten years, it is 584 years.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        if N == 1 {
            return self.only().retry_after();
        }
        self.parts().filter_map(|part| part.retry_after()).max()
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
    /// let limiter = Limiter::builder(quota).per::<str>().clock(ManualClock::new()).build()?;
    /// let decision = limiter.check_n("alice", 10);
    /// assert_eq!(decision.more_after(), Duration::from_secs(6));
    /// assert_eq!(decision.reset_after(), Duration::from_secs(60));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn more_after(&self) -> Duration {
        if N == 1 {
            return self.only().more_after();
        }
        // More can be admitted once every limit admits more than the least of them has left.
        let least = self.remaining();
        let tightest = self.parts().filter(|part| part.remaining() == least);
        tightest.map(|part| part.more_after()).max().unwrap_or_default()
    }

    /// How long until the key has the whole of every limit again, if no request comes: buckets
    /// full, windows empty.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        if N == 1 {
            return self.only().reset_after();
        }
        self.parts().map(|part| part.reset_after()).max().unwrap_or_default()
    }

    /// How long an admitted request is to wait before it acts: until its last departure time in a
    /// [`LeakyBucket::queue`](crate::LeakyBucket::queue), zero for every other check.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.parts().map(|part| part.delay()).max().unwrap_or_default()
    }

    /// What the request asked for.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// The time of the decision, by the limiter's clock: all waits count from it.
    #[must_use]
    pub fn decided_at(&self) -> Timestamp {
        self.now
    }

    /// What each limit says, in the order in which they were given to the builder.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = Part<'_>> {
        self.tables.as_given().enumerate().map(|(number, place)| self.part(number, place))
    }
}

impl<const N: usize> From<Decision<'_, N>> for Receipt<N> {
    fn from(decision: Decision<'_, N>) -> Self {
        decision.receipt()
    }
}

impl<const N: usize> From<&Decision<'_, N>> for Outcome {
    fn from(decision: &Decision<'_, N>) -> Self {
        decision.outcome()
    }
}

impl<const N: usize> fmt::Debug for Decision<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Decision");
        debug.field("outcome", &self.outcome).field("cost", &self.cost).field("limit", &self.limit());
        if self.tables.limits() > 1 {
            debug.field("refused_by", &self.refused_by());
        }
        debug
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .field("delay", &self.delay())
            .finish()
    }
}
