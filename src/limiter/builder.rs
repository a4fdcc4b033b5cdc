//! From a description to a limiter, or to the reason why not.

use std::fmt;
use std::marker::PhantomData;

use crate::algorithm::{Algorithm, Rule};
use crate::clock::{Clock, TscClock};
use crate::decision::Decision;
use crate::error::BuildError;
use crate::key::{Key, KeyHasher};
use crate::limiter::Limiter;
use crate::limiter::resets::Resets;
use crate::limiter::space::Space;
use crate::limiter::versions::Versions;
use crate::observe::{Observer, OnDecision};
use crate::table::WhenFull;
use crate::time::nanos;

/// Which tier a key belongs to.
pub(crate) type TierOf<K> = Box<dyn Fn(&K) -> usize + Send + Sync>;

/// The settings of a [`Limiter`]. Nothing is judged or reserved before [`build`](Self::build).
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Rate, TokenBucket, WhenFull};
///
/// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_minute(60)).burst(20))
///     .max_keys(100_000)
///     .when_full(WhenFull::Deny)
///     .build()?;
/// assert_eq!(limiter.check("alice").remaining(), 19);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<K: ?Sized, A, C> {
    pub(super) tiers: Vec<A>,
    tier_of: Option<TierOf<K>>,
    pub(super) space: Space,
    clock: Box<dyn FnOnce() -> C>,
    observer: Observer<OnDecision>,
    key: PhantomData<fn(&K)>,
}

impl<K: Key + ?Sized, A: Algorithm> Builder<K, A, TscClock> {
    pub(crate) fn new(quota: A) -> Self {
        Self {
            tiers: vec![quota],
            tier_of: None,
            space: Space::default(),
            clock: Box::new(TscClock::new),
            observer: Observer::NOBODY,
            key: PhantomData,
        }
    }
}

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Builder<K, A, C> {
    /// How many keys that owe something the limiter is to hold at once: from 1 to 2^36, by default 65,536.
    ///
    /// Keys that owe nothing take no room. Address space for all is reserved at once: 27 to 54 bytes a key, since the table
    /// has room for half as many again, rounded up to a power of two; at least 1 KiB. Of that a table begins with 16 KiB and
    /// grows in place, up to 76 bytes a key until it is full: buckets are split one by one as new keys need
    /// room, so no check waits for more than the split of its own. (A [sliding log](crate::SlidingLog) uses all of its table from the first, page by page as it
    /// is touched.)
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.space.max_keys = keys;
        self
    }

    /// How many bytes the limiter's table may come to take ([`memory`](Self::memory)); [`build`](Self::build) refuses to
    /// promise more. By default 1 GiB.
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.space.memory_budget = bytes;
        self
    }

    /// What happens to a new key whose bucket is full. By default, [`WhenFull::Share`].
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.space.when_full = when_full;
        self
    }

    /// Declares that no stranger chooses the keys, so that keys of more than 8 bytes may be named by the faster ahash.
    ///
    /// Do not use it for addresses, user names or API keys as they arrive: ahash's secret can be found by somebody who
    /// watches which keys share a limit.
    pub fn trusted_keys(mut self) -> Self {
        self.space.trusted_keys = true;
        self
    }

    /// Where the time comes from. By default, [`TscClock`].
    pub fn clock<D: Clock + 'static>(self, clock: D) -> Builder<K, A, D> {
        Builder {
            tiers: self.tiers,
            tier_of: self.tier_of,
            space: self.space,
            clock: Box::new(move || clock),
            observer: self.observer,
            key: PhantomData,
        }
    }

    /// Calls `on_decision` with every decision: exactly once for each check or reservation, after it was charged, on the
    /// thread that asked, before it is told. Looking ([`peek`](Limiter::peek)) decides nothing, nor does asking for a turn
    /// where there are none ([`NoTurns`](crate::ReserveError::NoTurns)). What a [lease](Limiter::lease) takes ahead is one
    /// admission of as many units; spending them is none.
    ///
    /// Without it a check takes no notice of this. What it panics with reaches the caller; the charge stays. For a
    /// count of the outcomes there are [`Counters`](crate::Counters).
    pub fn on_decision(mut self, on_decision: impl Fn(&Decision<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Observer::new(Box::new(on_decision));
        self
    }

    /// Adds a tier: another quota for some of the keys. The first added is tier 1; the builder's own quota is tier 0.
    ///
    /// Tiers share one table, so they have one algorithm, and window algorithms one period. The tier is chosen a call
    /// at a time by [`Limiter::tier`], or for each key by [`tier_by`](Self::tier_by). A key has one state, whichever
    /// tier it is checked under.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_second(10)))
    ///     .tier(TokenBucket::new(Rate::per_second(100)))
    ///     .tier_by(|key: &str| usize::from(key.starts_with("paid:")))
    ///     .build()?;
    /// assert_eq!(limiter.check("paid:alice").limit(), 100);
    /// assert_eq!(limiter.check("bob").limit(), 10);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn tier(mut self, quota: A) -> Self {
        self.tiers.push(quota);
        self
    }

    /// How a key's tier is found. A number that is no tier's means tier 0.
    pub fn tier_by(mut self, tier_of: impl Fn(&K) -> usize + Send + Sync + 'static) -> Self {
        self.tier_of = Some(Box::new(tier_of));
        self
    }

    /// The bytes that the table of [`build`](Self::build) can come to take, whatever the budget.
    ///
    /// # Errors
    ///
    /// What `build` would say of the quotas and of `max_keys`.
    pub fn memory(&self) -> Result<usize, BuildError> {
        Ok(self.space.size(self.ring_len()?)?.bytes())
    }

    /// Judges the settings, reserves the table, and starts the clock.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the setting, its value and what would be accepted. Nothing is reserved then.
    pub fn build(self) -> Result<Limiter<K, A, C>, BuildError> {
        let identity = self.space.identity();
        self.build_as(identity)
    }

    /// Builds the limiter that names its keys by `identity`.
    pub(super) fn build_as(self, identity: KeyHasher) -> Result<Limiter<K, A, C>, BuildError> {
        let table = self.space.table(self.space.size(self.ring_len()?)?)?;
        let clock = (self.clock)();
        let unix_at_zero = nanos(clock.unix_at_zero());
        let rules = A::compile(&self.tiers, unix_at_zero)?;
        Ok(Limiter {
            versions: Versions::new(self.tiers, rules, self.observer.is_somebody()),
            tier_of: self.tier_of,
            identity,
            table,
            clock,
            max_keys: self.space.max_keys,
            observer: self.observer,
            resets: Resets::new(),
            unix_at_zero,
            key: PhantomData,
        })
    }

    fn ring_len(&self) -> Result<u64, BuildError> {
        // The clock's origin moves windows, not sizes.
        Ok(A::compile(&self.tiers, 0)?.first().map_or(0, Rule::ring_len))
    }
}

impl<K: ?Sized, A: fmt::Debug, C> fmt::Debug for Builder<K, A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("tiers", &self.tiers)
            .field("max_keys", &self.space.max_keys)
            .field("memory_budget", &self.space.memory_budget)
            .field("when_full", &self.space.when_full)
            .field("trusted_keys", &self.space.trusted_keys)
            .finish_non_exhaustive()
    }
}
