//! From a description of several limits to their limiter, or to the reason why not.

use std::fmt;
use std::marker::PhantomData;

use crate::algorithm::{Algorithm, AnyRule, Each, Quota, Rule};
use crate::clock::{Clock, TscClock};
use crate::error::{BuildError, within};
use crate::key::{Key, KeyHasher};
use crate::limiter::several::{Limit, Limits, MOST, MultiDecision, MultiLimiter, OnMultiDecision};
use crate::limiter::space::Space;
use crate::limiter::versions::Versions;
use crate::observe::Observer;
use crate::table::WhenFull;
use crate::time::nanos;

/// The settings of a [`MultiLimiter`]. Nothing is judged or reserved before [`build`](Self::build).
///
/// # Examples
///
/// ```
/// use tollgate::{MultiLimiter, Rate, TokenBucket, WhenFull};
///
/// let rates = [Rate::per_second(10), Rate::per_day(1_000)];
/// let limiter = MultiLimiter::<str>::builder(rates.map(TokenBucket::new))
///     .max_keys(100_000)
///     .when_full(WhenFull::Deny)
///     .build()?;
/// assert_eq!(limiter.check("alice").remaining(), 9);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct MultiBuilder<K: ?Sized, C> {
    pub(super) quotas: Vec<Quota>,
    pub(super) space: Space,
    clock: Box<dyn FnOnce() -> C>,
    observer: Observer<OnMultiDecision>,
    key: PhantomData<fn(&K)>,
}

impl<K: Key + ?Sized> MultiBuilder<K, TscClock> {
    pub(super) fn new(quotas: Vec<Quota>) -> Self {
        Self {
            quotas,
            space: Space::default(),
            clock: Box::new(TscClock::new),
            observer: Observer::NOBODY,
            key: PhantomData,
        }
    }
}

impl<K: Key + ?Sized, C: Clock> MultiBuilder<K, C> {
    /// How many keys that owe something the limiter is to hold at once, in a table for each limit: see
    /// [`Builder::max_keys`](crate::Builder::max_keys).
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.space.max_keys = keys;
        self
    }

    /// How many bytes all tables together may reserve; [`build`](Self::build) refuses to take more. By default 1 GiB.
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.space.memory_budget = bytes;
        self
    }

    /// What happens to a new key whose bucket is full, in each table by itself. By default, [`WhenFull::Share`].
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.space.when_full = when_full;
        self
    }

    /// Declares that no stranger chooses the keys: see [`Builder::trusted_keys`](crate::Builder::trusted_keys).
    pub fn trusted_keys(mut self) -> Self {
        self.space.trusted_keys = true;
        self
    }

    /// Where the time comes from. By default, [`TscClock`].
    pub fn clock<D: Clock + 'static>(self, clock: D) -> MultiBuilder<K, D> {
        let Self { quotas, space, observer, .. } = self;
        MultiBuilder { quotas, space, clock: Box::new(move || clock), observer, key: PhantomData }
    }

    /// Calls `on_decision` with every decision of all limits together: see
    /// [`Builder::on_decision`](crate::Builder::on_decision).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// use tollgate::{MultiLimiter, Rate, TokenBucket};
    ///
    /// // How many requests the daily limit refused.
    /// let refused = Arc::new(AtomicU64::new(0));
    /// let counted = refused.clone();
    /// let rates = [Rate::per_second(10), Rate::per_day(15)];
    /// let limiter = MultiLimiter::<str>::builder(rates.map(TokenBucket::new))
    ///     .on_decision(move |decision| {
    ///         counted.fetch_add(u64::from(decision.refused_by() == Some(1)), Relaxed);
    ///     })
    ///     .build()?;
    /// let _ = (limiter.check_n("alice", 8), limiter.check_n("alice", 8));
    /// assert_eq!(refused.load(Relaxed), 1);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn on_decision(mut self, on_decision: impl Fn(&MultiDecision<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Observer::new(Box::new(on_decision));
        self
    }

    /// The bytes of all the tables that [`build`](Self::build) would reserve, whatever the budget.
    ///
    /// # Errors
    ///
    /// What `build` would say of the quotas and of `max_keys`.
    pub fn memory(&self) -> Result<usize, BuildError> {
        // The clock's origin moves windows, not sizes.
        within("limits", self.quotas.len() as u64, 1_u64, MOST as u64)?;
        let limits: Vec<_> = self.quotas.iter().copied().map(Each).collect();
        let bytes = |rule: &AnyRule| Ok(self.space.size(rule.ring_len())?.bytes());
        let add = |sum: usize, bytes: Result<usize, BuildError>| Ok(sum.saturating_add(bytes?));
        Each::compile(&limits, 0)?.iter().map(bytes).try_fold(0, add)
    }

    /// Judges the settings, reserves the tables, and starts the clock.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the setting, its value and what would be accepted. Nothing is reserved then.
    pub fn build(self) -> Result<MultiLimiter<K, C>, BuildError> {
        let identity = self.space.identity();
        self.build_as(identity)
    }

    /// Builds the limiter that names its keys by `identity`.
    pub(super) fn build_as(self, identity: KeyHasher) -> Result<MultiLimiter<K, C>, BuildError> {
        let (needed, budget) = (self.memory()?, self.space.memory_budget);
        if needed > budget {
            return Err(BuildError::OverBudget { needed, budget });
        }
        let clock = (self.clock)();
        let unix_at_zero = nanos(clock.unix_at_zero());
        let mut given: Vec<_> = self.quotas.into_iter().map(Each).enumerate().collect();
        given.sort_by_key(|(_, limit)| reluctance(limit.0));
        let (numbers, quotas): (Vec<_>, Vec<_>) = given.into_iter().unzip();
        let rules = Each::compile(&quotas, unix_at_zero)?;
        let limit = |(number, rule): (usize, &AnyRule)| {
            Ok(Limit { number, table: self.space.table(self.space.size(rule.ring_len())?)? })
        };
        let limits: Box<[Limit]> =
            numbers.into_iter().zip(&rules).map(limit).collect::<Result<_, BuildError>>()?;
        let is_brief = rules.iter().all(AnyRule::is_brief) && !self.observer.is_somebody();
        let brief = if is_brief { limits.len() } else { 0 };
        Ok(MultiLimiter {
            limits: Limits { limits, brief },
            versions: Versions::new(quotas, rules, self.observer.is_somebody()),
            identity,
            clock,
            observer: self.observer,
            max_keys: self.space.max_keys,
            unix_at_zero,
            key: PhantomData,
        })
    }
}

/// How much of a charge may have to stay when somebody else was charged since; the least is charged first.
/// Buckets and windows can undo any charge; a queue and a log the newest only, and a log forgets who that was when a
/// refused request was counted.
fn reluctance(limit: Quota) -> u8 {
    match limit {
        Quota::SlidingLog(_) => 2,
        limit => u8::from(limit.is_queue()),
    }
}

impl<K: ?Sized, C> fmt::Debug for MultiBuilder<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiBuilder")
            .field("quotas", &self.quotas)
            .field("space", &self.space)
            .finish_non_exhaustive()
    }
}
