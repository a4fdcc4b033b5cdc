//! From a description to a limiter, or to the reason why not.

use std::fmt;
use std::marker::PhantomData;

use crate::algorithm::{Algorithm, Rule};
use crate::clock::{Clock, TscClock};
use crate::error::Error;
use crate::key::{Identity, Key};
use crate::limiter::{Compiled, Limiter};
use crate::table::{Size, Table, WhenFull};
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
/// # Ok::<(), tollgate::Error>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<K: ?Sized, A, C> {
    pub(super) tiers: Vec<A>,
    tier_of: Option<TierOf<K>>,
    pub(super) max_keys: usize,
    memory_budget: usize,
    when_full: WhenFull,
    pub(super) trusted_keys: bool,
    clock: Box<dyn FnOnce() -> C>,
    key: PhantomData<fn(&K)>,
}

/// Keys a table is made for unless told otherwise: 2 MiB of address space, touched as keys come.
const DEFAULT_KEYS: usize = 1 << 16;

/// Bytes a limiter may reserve unless told otherwise.
pub(crate) const DEFAULT_BUDGET: usize = 1 << 30;

impl<K: Key + ?Sized, A: Algorithm> Builder<K, A, TscClock> {
    pub(crate) fn new(quota: A) -> Self {
        Self {
            tiers: vec![quota],
            tier_of: None,
            max_keys: DEFAULT_KEYS,
            memory_budget: DEFAULT_BUDGET,
            when_full: WhenFull::default(),
            trusted_keys: false,
            clock: Box::new(TscClock::new),
            key: PhantomData,
        }
    }
}

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Builder<K, A, C> {
    /// How many keys that owe something the limiter is to hold at once: from 1 to 2^36, by default 65,536.
    ///
    /// Keys that owe nothing take no room. The table takes 31 to 62 bytes a key, and at least 512 bytes (it has room for nearly twice as many,
    /// rounded up to a power of two), reserved at once and committed by the operating system as it is touched.
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.max_keys = keys;
        self
    }

    /// How many bytes the limiter may reserve; [`build`](Self::build) refuses to take more. By default 1 GiB.
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.memory_budget = bytes;
        self
    }

    /// What happens to a new key whose bucket is full. By default, [`WhenFull::Share`].
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Declares that no stranger chooses the keys, so that keys of more than 8 bytes may be named by the faster ahash.
    ///
    /// Do not use it for addresses, user names or API keys as they arrive: ahash's secret can be found by somebody who
    /// watches which keys share a limit.
    pub fn trusted_keys(mut self) -> Self {
        self.trusted_keys = true;
        self
    }

    /// Where the time comes from. By default, [`TscClock`].
    pub fn clock<D: Clock + 'static>(self, clock: D) -> Builder<K, A, D> {
        Builder {
            tiers: self.tiers,
            tier_of: self.tier_of,
            max_keys: self.max_keys,
            memory_budget: self.memory_budget,
            when_full: self.when_full,
            trusted_keys: self.trusted_keys,
            clock: Box::new(move || clock),
            key: PhantomData,
        }
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
    /// # Ok::<(), tollgate::Error>(())
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

    /// The bytes of the table that [`build`](Self::build) would reserve, whatever the budget.
    ///
    /// # Errors
    ///
    /// What `build` would say of the quotas and of `max_keys`.
    pub fn memory(&self) -> Result<usize, Error> {
        // The clock's origin moves windows, not sizes.
        Ok(self.size(&A::compile(&self.tiers, 0)?)?.bytes())
    }

    /// Judges the settings, reserves the table, and starts the clock.
    ///
    /// # Errors
    ///
    /// [`Error`] names the setting, its value and what would be accepted. Nothing is reserved then.
    pub fn build(self) -> Result<Limiter<K, A, C>, Error> {
        let identity = Identity::random(self.trusted_keys);
        self.build_as(identity)
    }

    /// Builds the limiter that names its keys by `identity`.
    pub(super) fn build_as(self, identity: Identity) -> Result<Limiter<K, A, C>, Error> {
        let needed = self.memory()?;
        if needed > self.memory_budget {
            return Err(Error::OverBudget { needed, budget: self.memory_budget });
        }
        let clock = (self.clock)();
        let unix_at_zero = nanos(clock.unix_at_zero());
        let rules = A::compile(&self.tiers, unix_at_zero)?;
        let size = Size::for_keys(self.max_keys, ring_len(&rules))?;
        let mut tiers = rules.into_iter().map(Compiled::new);
        let Some(default) = tiers.next() else { unreachable!("a builder has at least its own quota") };
        Ok(Limiter {
            default,
            tiers: tiers.collect(),
            tier_of: self.tier_of,
            identity,
            table: Table::new(size, self.when_full)?,
            clock,
            max_keys: self.max_keys,
            quotas: self.tiers.into(),
            unix_at_zero,
            key: PhantomData,
        })
    }

    fn size(&self, rules: &[A::Rule]) -> Result<Size, Error> {
        Size::for_keys(self.max_keys, ring_len(rules))
    }
}

fn ring_len<R: Rule>(rules: &[R]) -> u64 {
    rules.first().map_or(0, Rule::ring_len)
}

impl<K: ?Sized, A: fmt::Debug, C> fmt::Debug for Builder<K, A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("tiers", &self.tiers)
            .field("max_keys", &self.max_keys)
            .field("memory_budget", &self.memory_budget)
            .field("when_full", &self.when_full)
            .field("trusted_keys", &self.trusted_keys)
            .finish_non_exhaustive()
    }
}
