//! One limit for everything.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;

use crossbeam_utils::CachePadded;

use crate::algorithm::{Algorithm, Resolution, Rule, TokenBucket};
use crate::clock::{Clock, TscClock};
use crate::decision::Decision;
use crate::error::BuildError;
use crate::limiter::Compiled;
use crate::limiter::resets::Resets;
use crate::limiter::space::DEFAULT_BUDGET;
use crate::limiter::versions::Versions;
use crate::observe::{Observer, OnDecision};
use crate::ring::Ring;
use crate::sync::AtomicU64;
use crate::table::peek::foresee;
use crate::table::refunds::{Refunding, Refunds};
use crate::table::slot::{Ask, Ruling, Slot};
use crate::table::{Zeroed, zeroed_words};
use crate::time::{Timestamp, nanos};

/// One limit for everything, shared by all threads: the same algorithms and verbs as [`Limiter`](crate::Limiter),
/// without a key.
///
/// **Cost.** One load and one compare-exchange on one padded cache line when nobody interferes; a refusal writes
/// nothing. Never blocks, never allocates.
///
/// # Examples
///
/// ```
/// use tollgate::{GlobalLimiter, Rate, TokenBucket};
///
/// let limiter = GlobalLimiter::builder(TokenBucket::new(Rate::per_second(1_000))).build()?;
/// assert!(limiter.check_n(1_000).is_allowed());
/// assert!(!limiter.check().is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct GlobalLimiter<A: Algorithm = TokenBucket, C = TscClock> {
    pub(super) versions: Versions<A>,
    pub(super) slot: CachePadded<Slot>,
    ring: Zeroed<AtomicU64>,
    pub(super) refunds: Refunds,
    pub(super) unix_at_zero: u64,
    pub(super) clock: C,
    pub(super) observer: Observer<OnDecision>,
    pub(super) resets: Resets,
}

/// The one key of a global limiter.
pub(super) const NAME: u64 = 1;

impl<A: Algorithm> GlobalLimiter<A> {
    /// Begins to describe a limiter of this quota.
    pub fn builder(quota: A) -> GlobalBuilder<A, TscClock> {
        GlobalBuilder {
            quota,
            memory_budget: DEFAULT_BUDGET,
            clock: Box::new(TscClock::new),
            observer: Observer::NOBODY,
        }
    }
}

impl<A: Algorithm, C: Clock> GlobalLimiter<A, C> {
    /// Decides a request of cost 1, and charges it if it is admitted.
    #[inline]
    pub fn check(&self) -> Decision<'_> {
        self.check_n(1)
    }

    /// Decides a request of any cost, all or nothing, and charges it if it is admitted.
    ///
    /// Cost 0 is admitted and changes nothing. A cost above the limit [never](Decision::is_never) is, and changes
    /// nothing.
    #[inline]
    pub fn check_n(&self, cost: u64) -> Decision<'_> {
        self.check_n_at(cost, self.clock.now())
    }

    /// [`check`](Self::check) at a time that the caller already has: see [`now`](Self::now). A time earlier than the
    /// latest charge's counts as that one.
    #[inline]
    pub fn check_at(&self, now: Timestamp) -> Decision<'_> {
        self.check_n_at(1, now)
    }

    /// [`check_n`](Self::check_n) at a time that the caller already has.
    #[inline]
    pub fn check_n_at(&self, cost: u64, now: Timestamp) -> Decision<'_> {
        let compiled = &self.versions.first().default;
        if cost == 0 || cost > compiled.rule.limit() || !self.versions.is_plain() {
            return self.charge_any(cost, now);
        }
        let ask = Ask { rule: &compiled.rule, name: NAME, cost };
        let quickly = |at| self.slot.charge_quickly(self.slot.load(), ask, self.ring(), at);
        match compiled.rule.quick_moment(now).and_then(quickly) {
            Some(ruling) if ruling.allowed || self.versions.stands(compiled, now) => {
                Decision::of(ruling, &compiled.any, now, cost, NAME)
            }
            _ => self.charge_any(cost, now),
        }
    }

    /// The same for any cost and by any quota, and told to whoever is to be told.
    #[inline(never)]
    fn charge_any(&self, cost: u64, now: Timestamp) -> Decision<'_> {
        let Ok(decision) =
            self.charge_by(|compiled| Ok::<_, Infallible>(Cow::Borrowed(&compiled.rule)), cost, now);
        self.observer.tell(decision)
    }

    fn charge(&self, rule: &A::Rule, cost: u64, now: Timestamp) -> Ruling<'_> {
        let at = rule.moment(now);
        loop {
            let ask = Ask { rule, name: NAME, cost };
            if let Some(ruling) = self.slot.charge(self.slot.load(), ask, self.ring(), at, &mut 0) {
                return ruling;
            }
        }
    }

    /// Decides by the rule that `by` makes of the one in force, on the same word; nobody is told.
    pub(super) fn charge_by<E>(
        &self,
        by: impl Fn(&Compiled<A::Rule>) -> Result<Cow<'_, A::Rule>, E>,
        cost: u64,
        now: Timestamp,
    ) -> Result<Decision<'_>, E> {
        let mut compiled = &self.versions.current().default;
        loop {
            let rule = by(compiled)?;
            if cost == 0 || cost > compiled.rule.limit() {
                let decision = self.peek_n_at(cost, now);
                if cost == 0 || decision.is_never() {
                    return Ok(decision);
                }
                // A quota that came in between has room for it: it was looked at by that one, but not charged.
                compiled = &self.versions.current().default;
                continue;
            }
            let ruling = self.charge(&rule, cost, now);
            if !ruling.allowed
                && let Some(newer) = self.versions.after_all(compiled)
            {
                compiled = newer;
                continue;
            }
            return Ok(Decision::of(ruling, &compiled.any, now, cost, NAME));
        }
    }

    /// What [`check`](Self::check) would answer. Changes nothing and writes nothing.
    pub fn peek(&self) -> Decision<'_> {
        self.peek_n_at(1, self.clock.now())
    }

    /// What [`check_n_at`](Self::check_n_at) would answer. Changes nothing and writes nothing.
    pub fn peek_n_at(&self, cost: u64, now: Timestamp) -> Decision<'_> {
        let mut compiled = &self.versions.current().default;
        loop {
            let rule = &compiled.rule;
            let owed = self.slot.load().payload();
            let decision = if cost == 0 || cost > rule.limit() {
                Decision::trivial(owed, self.ring(), &compiled.any, now, cost)
            } else {
                let ruling = foresee(Ask { rule, name: NAME, cost }, owed, self.ring(), rule.moment(now));
                Decision::of(ruling, &compiled.any, now, cost, NAME)
            };
            match self.versions.after(compiled, now) {
                Some(newer) => compiled = newer,
                None => return decision,
            }
        }
    }

    /// Gives back what an admitted request took: see [`Limiter::refund`](crate::Limiter::refund).
    pub fn refund(&self, decision: Decision<'_>) -> u64 {
        self.refund_by(&decision, u64::MAX, || self.clock.now())
    }

    /// [`refund`](Self::refund) at a time that the caller already has.
    pub fn refund_at(&self, decision: Decision<'_>, now: Timestamp) -> u64 {
        self.refund_by(&decision, u64::MAX, || now)
    }

    /// Gives back `units` of the request only: see [`Limiter::refund_n`](crate::Limiter::refund_n).
    pub fn refund_n(&self, decision: Decision<'_>, units: u64) -> u64 {
        self.refund_by(&decision, units, || self.clock.now())
    }

    /// [`refund_n`](Self::refund_n) at a time that the caller already has.
    pub fn refund_n_at(&self, decision: Decision<'_>, units: u64, now: Timestamp) -> u64 {
        self.refund_by(&decision, units, || now)
    }

    pub(super) fn refund_by(
        &self,
        decision: &Decision<'_>,
        units: u64,
        clock: impl Fn() -> Timestamp,
    ) -> u64 {
        let Some(taken) = decision.taken(units) else { return 0 };
        let mut refunding = Refunding::new(&self.refunds, NAME, taken, clock);
        loop {
            let less = |payload| refunding.less(decision.rule, payload);
            if let Some(units) = self.slot.refund(self.slot.load(), NAME, less) {
                return units;
            }
        }
    }

    /// Forgives what is owed, as if nothing had ever been admitted. Permits that [leases](Self::lease) hold end with it.
    pub fn reset(&self) {
        let mut by = &self.versions.current().default;
        loop {
            let now = self.clock.now();
            let (seen, at) = (self.slot.load(), by.rule.moment(now));
            let reset = by.rule.erase(seen.payload(), self.ring(), || self.slot.is_still(seen))
                && self.slot.settle(seen, by.rule.forgive(seen.payload(), at));
            // By an older quota than the word is of, nothing is forgiven.
            match self.versions.after(by, now) {
                Some(newer) => by = newer,
                None if reset => return self.resets.forgave(),
                None => {}
            }
        }
    }

    /// The limiter's time.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// How finely the limiter counts.
    #[must_use]
    pub fn resolution(&self) -> Resolution {
        self.versions.current().default.any.resolution()
    }

    #[inline]
    pub(super) fn ring(&self) -> Ring<'_> {
        if <A::Rule as Rule>::RINGED { Ring::new(&self.ring) } else { Ring::NONE }
    }
}

impl<A: Algorithm, C> fmt::Debug for GlobalLimiter<A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobalLimiter")
            .field("rule", &self.versions.current().default.any)
            .finish_non_exhaustive()
    }
}

/// The settings of a [`GlobalLimiter`].
#[must_use = "a builder does nothing until it is built"]
pub struct GlobalBuilder<A, C> {
    pub(super) quota: A,
    memory_budget: usize,
    clock: Box<dyn FnOnce() -> C>,
    observer: Observer<OnDecision>,
}

impl<A: Algorithm, C: Clock> GlobalBuilder<A, C> {
    /// Where the time comes from. By default, [`TscClock`].
    pub fn clock<D: Clock + 'static>(self, clock: D) -> GlobalBuilder<A, D> {
        let Self { quota, memory_budget, observer, .. } = self;
        GlobalBuilder { quota, memory_budget, clock: Box::new(move || clock), observer }
    }

    /// How many bytes the limiter may reserve; only a [`SlidingLog`](crate::SlidingLog) takes more than a few. By
    /// default 1 GiB.
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.memory_budget = bytes;
        self
    }

    /// Calls `on_decision` with every decision: see [`Builder::on_decision`](crate::Builder::on_decision).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{Counters, GlobalLimiter, Rate, TokenBucket};
    ///
    /// let counters = Arc::new(Counters::new());
    /// let counted = counters.clone();
    /// let limiter = GlobalLimiter::builder(TokenBucket::new(Rate::per_hour(2)))
    ///     .on_decision(move |decision| counted.count(decision))
    ///     .build()?;
    /// let _ = (limiter.check(), limiter.check_n(2), limiter.check_n(3));
    /// let counts = counters.counts();
    /// assert_eq!((counts.allowed, counts.denied, counts.never), (1, 1, 1));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn on_decision(mut self, on_decision: impl Fn(&Decision<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Observer::new(Box::new(on_decision));
        self
    }

    /// The bytes that [`build`](Self::build) would reserve, whatever the budget.
    ///
    /// # Errors
    ///
    /// What `build` would say of the quota.
    pub fn memory(&self) -> Result<usize, BuildError> {
        let entries = A::compile(&[self.quota], 0)?.first().map_or(0, Rule::ring_len);
        Ok(usize::try_from(entries).unwrap_or(usize::MAX).saturating_mul(size_of::<AtomicU64>()))
    }

    /// Judges the quota and starts the clock.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the setting, its value and what would be accepted.
    pub fn build(self) -> Result<GlobalLimiter<A, C>, BuildError> {
        let needed = self.memory()?;
        if needed > self.memory_budget {
            return Err(BuildError::OverBudget { needed, budget: self.memory_budget });
        }
        let clock = (self.clock)();
        let unix_at_zero = nanos(clock.unix_at_zero());
        let rules = A::compile(&[self.quota], unix_at_zero)?;
        let ring = zeroed_words(needed / size_of::<AtomicU64>())?;
        let slot = CachePadded::new(Slot::new(NAME));
        let (refunds, resets) = (Refunds::new(1)?, Resets::new());
        Ok(GlobalLimiter {
            versions: Versions::new(vec![self.quota], rules, self.observer.is_somebody()),
            slot,
            ring,
            unix_at_zero,
            refunds,
            clock,
            observer: self.observer,
            resets,
        })
    }
}

impl<A: fmt::Debug, C> fmt::Debug for GlobalBuilder<A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobalBuilder").field("quota", &self.quota).finish_non_exhaustive()
    }
}
