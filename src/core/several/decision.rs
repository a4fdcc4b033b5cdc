//! The answer to a request that several limits decide.

use std::fmt;
use std::time::Duration;

use crate::algorithm::{AnyRule, Booking, Numbers, Payload, Rule};
use crate::core::Answer;
use crate::core::several::asks::{Asks, OneKey};
use crate::core::several::tables::Tables;
use crate::core::version::Version;
use crate::decision::Outcome;
use crate::receipt::{Charged, MOST, Receipt, Set};
use crate::ring::Ring;
use crate::table::RingPlace;
use crate::table::basis::Basis;
use crate::table::ruling::Ruling;
use crate::time::{Timestamp, nanos};

/// The answer of several limits to one request: admitted by all, or refused for now or forever by
/// some.
///
/// The verdict is there at once; the numbers are worked out when they are asked for, as for a
/// [`Decision`](crate::Decision). Of a refused request the limits that would have admitted it show
/// what they hold without it.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{ManualClock, MultiLimiter, Rate, TokenBucket};
///
/// let rates = [Rate::per_second(10), Rate::per_minute(15)];
/// let builder = MultiLimiter::<str>::builder(rates.map(TokenBucket::new));
/// let limiter = builder.clock(ManualClock::new()).build()?;
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
///
/// It is neither `Copy` nor `Clone`, so that there is one [receipt](Self::receipt) of a request.
#[must_use = "a decision that is not looked at limits nothing"]
pub struct MultiDecision<'l, A = OneKey> {
    pub(super) tables: &'l Tables,
    /// The quotas that decided.
    pub(super) version: &'l Version<AnyRule>,
    pub(super) asks: A,
    pub(super) now: Timestamp,
    /// No later than the time of any of the charges.
    pub(super) since: Timestamp,
    pub(super) outcome: Outcome,
    /// Those that refuse. When the request can never be admitted, those that cannot ever.
    pub(super) refused: Set,
    /// Those that the request was charged to.
    pub(super) taken: Set,
    /// The limiter's resets before the request was charged.
    pub(super) resets: u32,
    /// For each limit the key's ring, and on what the limit decided.
    pub(super) places: [RingPlace; MOST],
    /// For each limit the key's payload after the request.
    pub(super) payloads: [Payload; MOST],
}

const _: () = assert!(size_of::<MultiDecision<'_>>() <= 128, "a larger one is moved by a call");

impl<'l, A: Asks> MultiDecision<'l, A> {
    /// Starts as admitted; [`set`](Self::set) adds each limit's answer.
    #[inline]
    pub(super) fn new(
        tables: &'l Tables,
        version: &'l Version<AnyRule>,
        asks: A,
        now: Timestamp,
        resets: u32,
    ) -> Self {
        Self {
            tables,
            version,
            asks,
            now,
            since: now,
            outcome: Outcome::Allowed,
            refused: Set::default(),
            taken: Set::default(),
            resets,
            places: [RingPlace::NONE; MOST],
            payloads: [Payload::UNSEEN; MOST],
        }
    }

    /// Sets what limit `index` said.
    pub(super) fn set(&mut self, index: usize, ruling: Ruling<'_>) {
        self.payloads[index] = ruling.payload;
        self.places[index] = self.tables[index].place_of(ruling.ring, ruling.basis);
        self.taken.add_if(ruling.allowed && ruling.basis.is_charged(), index);
    }

    /// Nanoseconds until the request may act. If it was refused: until its turn would come.
    pub(super) fn wait_for_turn(&self) -> u64 {
        let wait = |part: LimitDecision<'_>| match part.is_full() {
            true => nanos(part.retry_after().unwrap_or_default()),
            false => part.rule.wait(part.payload, part.now, part.cost),
        };
        match self.outcome {
            Outcome::Denied => self.parts().map(wait).max().unwrap_or(0),
            _ => nanos(self.delay()),
        }
    }

    /// Shows limit `index` without the request.
    pub(super) fn show_without_request(&mut self, index: usize) {
        let (rule, fingerprint) = (self.version.dated(index), self.asks.fingerprint(index));
        let (payload, place) = self.tables.probe(index, rule, fingerprint, self.now);
        (self.payloads[index], self.places[index]) = (payload, place);
    }

    /// The limits that do not refuse.
    pub(super) fn admitting(&self) -> impl Iterator<Item = usize> + use<A> {
        let (refused, limits) = (self.refused, self.tables.len());
        (0..limits).filter(move |&index| !refused.has(index))
    }

    /// Whether the request is admitted, refused, or can never be admitted.
    #[must_use]
    #[inline]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether every limit admits the request.
    #[must_use]
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.outcome == Outcome::Allowed
    }

    /// Whether the cost is above one of the limits, so that no wait will help. Such a request
    /// changed nothing.
    #[must_use]
    #[inline]
    pub fn is_never(&self) -> bool {
        self.outcome == Outcome::Never
    }

    /// Of the limits that refuse the request, the number of the one with the longest wait, as they
    /// were given to the builder, from 0; the first of those whose wait would never end. `None`
    /// when the request is admitted.
    #[must_use]
    pub fn refused_by(&self) -> Option<usize> {
        let wait = |part: &LimitDecision<'_>| std::cmp::Reverse(part.retry_after());
        self.parts().filter(LimitDecision::refuses).min_by_key(wait).map(|part| part.number())
    }

    /// How long until this request would be admitted, if no other request comes: the longest wait
    /// of the limits that refuse it. `None` when it was admitted or never will be.
    ///
    /// Exact as [`Decision::retry_after`](crate::Decision::retry_after) is, unless another limit is
    /// spent by then.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.parts().filter_map(|part| part.retry_after()).max()
    }

    /// What could still be admitted now, after this request: by the tightest limit.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.parts().map(|part| part.remaining()).min().unwrap_or(0)
    }

    /// How long until the key has the whole of every limit again, if no request comes.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.parts().map(|part| part.reset_after()).max().unwrap_or_default()
    }

    /// How long an admitted request is to wait before it acts: until the last of its departure
    /// times, when some limits are a [`LeakyBucket::queue`](crate::LeakyBucket::queue).
    #[must_use]
    pub fn delay(&self) -> Duration {
        let delay = |part: LimitDecision<'_>| part.rule.delay(part.payload, part.now, part.cost);
        let longest = || self.parts().map(delay).max().unwrap_or(0);
        if self.is_allowed() { Duration::from_nanos(longest()) } else { Duration::ZERO }
    }

    /// The time of the decision, by the limiter's clock: all waits count from it.
    #[must_use]
    pub fn decided_at(&self) -> Timestamp {
        self.now
    }

    /// What gives back what the request took of each limit: see
    /// [`Decision::receipt`](crate::Decision::receipt).
    pub fn receipt(mut self) -> Receipt<MOST> {
        if !self.is_allowed() {
            self.taken = Set::default();
        }
        self.receipt_of_taken()
    }

    /// What gives back what the limits have taken so far.
    pub(super) fn receipt_of_taken(&self) -> Receipt<MOST> {
        let charged = |index: usize| Charged {
            fingerprint: self.asks.fingerprint(index),
            payload: self.payloads[index],
            left: if self.taken.has(index) { self.asks.cost(index) } else { 0 },
        };
        let (limiter, since, resets) = (self.version.limiter, self.since, self.resets);
        Receipt {
            limiter,
            since,
            by: self.version.charged_by(),
            resets,
            charged: std::array::from_fn(charged),
        }
    }

    /// What each limit says, in the order in which they were given to the builder.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = LimitDecision<'_>> {
        let index = |number| self.tables.numbers.iter().position(|&other| other == number);
        (0..self.tables.len()).map(move |number| self.part(number, index(number).unwrap_or(number)))
    }

    /// What limit `index` says, which is of this number.
    fn part(&self, number: usize, index: usize) -> LimitDecision<'_> {
        let (fingerprint, cost) = (self.asks.fingerprint(index), self.asks.cost(index));
        let place = self.places[index];
        let (ring, basis) = (self.tables[index].ring_at(fingerprint, place), place.basis());
        LimitDecision {
            number,
            rule: self.version.rule(index),
            payload: self.payloads[index],
            ring: if basis == Basis::Foreseen { ring.foreseeing(cost) } else { ring },
            basis,
            cost,
            now: self.now,
            refuses: self.refused.has(index),
            is_never: self.is_never(),
        }
    }
}

impl MultiDecision<'_> {
    /// What the request asked for.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.asks.cost
    }
}

impl From<MultiDecision<'_>> for Receipt<MOST> {
    fn from(decision: MultiDecision<'_>) -> Self {
        decision.receipt()
    }
}

impl Answer for MultiDecision<'_> {
    fn outcome(&self) -> Outcome {
        self.outcome
    }

    fn cost(&self) -> u64 {
        self.cost()
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn remaining(&self) -> u64 {
        self.remaining()
    }

    fn limit(&self) -> u64 {
        self.version.all().map(|limit| limit.rule().limit()).min().unwrap_or(0)
    }
}

impl From<&MultiDecision<'_>> for Outcome {
    fn from(decision: &MultiDecision<'_>) -> Self {
        decision.outcome()
    }
}

/// What one of several limits says of a request: see [`MultiDecision::parts`].
#[derive(Clone, Copy)]
pub struct LimitDecision<'d> {
    number: usize,
    rule: &'d AnyRule,
    payload: Payload,
    ring: Ring<'d>,
    basis: Basis,
    cost: u64,
    now: Timestamp,
    refuses: bool,
    /// Whether the request can never be admitted, by this limit or another.
    is_never: bool,
}

impl LimitDecision<'_> {
    /// The number of the limit, as given to the builder, from 0.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Whether this limit refuses the request. When the request can
    /// [never](MultiDecision::is_never) be admitted: whether it is above this limit.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.refuses
    }

    /// Whether this limit refuses the request only because its [table is full](crate::WhenFull):
    /// the key has no slot there, and waits for one, or shares the debt of other keys. A refusal
    /// that [is counted](crate::CountPolicy::All) has taken a slot by then, and is none of these.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{MultiLimiter, Rate, TokenBucket};
    ///
    /// let quota = TokenBucket::new(Rate::per_hour(5));
    /// let full = MultiLimiter::<u64>::builder([quota]).max_keys(1).build()?;
    /// let is_refused_full = |key| full.check(&key).parts().any(|limit| limit.refuses_full());
    /// assert!((0..2_000).any(is_refused_full));
    ///
    /// let limiter = MultiLimiter::<u64>::builder([quota]).build()?;
    /// assert!(limiter.check_n(&1, 5).is_allowed());
    /// let refused = limiter.check(&1);
    /// assert!(!refused.is_allowed() && !refused.parts().any(|limit| limit.refuses_full()));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn refuses_full(&self) -> bool {
        self.refuses && !self.is_never && self.basis.refuses_full()
    }

    /// Whether the key's bucket has no room for it in this limit's table.
    fn is_full(&self) -> bool {
        self.basis == Basis::Full
    }

    /// The most that this limit can admit at once.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.rule.limit()
    }

    /// What this limit could still admit now: after the request if it was admitted, without it if
    /// not.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        if self.is_full() { 0 } else { self.rule.remaining(self.payload, self.ring, self.now) }
    }

    /// How long until this limit would admit the request. `None` when it does not refuse it, or
    /// always will.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let wait = || match self.is_full() {
            true => self.rule.vacant_after(self.payload, self.ring, self.now),
            false => self.rule.retry_after(self.payload, self.ring, self.now, self.cost),
        };
        (self.refuses && !self.is_never).then(|| Duration::from_nanos(wait().max(1)))
    }

    /// How long until this limit can admit more than [`remaining`](Self::remaining), if no request
    /// comes: see [`Decision::more_after`](crate::Decision::more_after).
    #[must_use]
    pub fn more_after(&self) -> Duration {
        let nanos = match self.is_full() {
            true => self.rule.vacant_after(self.payload, self.ring, self.now).max(1),
            false => self.rule.more_after(self.payload, self.ring, self.now),
        };
        Duration::from_nanos(nanos)
    }

    /// How long until the key has its whole limit again here, if no request comes.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.rule.reset_after(self.payload, self.ring, self.now))
    }
}

impl fmt::Debug for MultiDecision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiDecision")
            .field("outcome", &self.outcome)
            .field("cost", &self.cost())
            .field("refused_by", &self.refused_by())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .field("delay", &self.delay())
            .finish()
    }
}

impl fmt::Debug for LimitDecision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitDecision")
            .field("number", &self.number())
            .field("refuses", &self.refuses())
            .field("limit", &self.limit())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .finish()
    }
}
