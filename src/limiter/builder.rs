//! From a description to a limiter, or to the reason why not.

use std::fmt;
use std::io::Read;
use std::marker::PhantomData;

use crate::algorithm::Algorithm;
use crate::clock::{Clock, TscClock};
use crate::core::{Core, Keyed, Limits, OnDecision, Space};
use crate::error::BuildError;
use crate::key::Key;
use crate::limiter::time_and_tier::TierOf;
use crate::observe::Observer;
use crate::saved::RestoreError;
use crate::table::WhenFull;

/// The settings of a [`Limiter`](crate::Limiter), a [`MultiLimiter`](crate::MultiLimiter) or a
/// [`GlobalLimiter`](crate::GlobalLimiter). Nothing is judged or reserved before
/// [`build`](Self::build).
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, MultiLimiter, Rate, TokenBucket, WhenFull};
///
/// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_minute(60)).burst(20))
///     .max_keys(100_000)
///     .when_full(WhenFull::Deny)
///     .build()?;
/// assert_eq!(limiter.check("alice").remaining(), 19);
///
/// let rates = [Rate::per_second(10), Rate::per_day(1_000)];
/// let limiter = MultiLimiter::<str>::builder(rates.map(TokenBucket::new)).build()?;
/// assert_eq!(limiter.check("alice").remaining(), 9);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
///
/// A [`GlobalLimiter`](crate::GlobalLimiter) has no keys, and none of the settings of a table of
/// keys:
///
/// ```compile_fail,E0599
/// use tollgate::{GlobalLimiter, Rate, TokenBucket};
///
/// GlobalLimiter::builder(TokenBucket::new(Rate::per_second(1))).max_keys(10);
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<K: ?Sized, L: Limits, C> {
    quotas: Vec<L::Quota>,
    tier_of: Option<TierOf<K>>,
    space: Space,
    clock: Box<dyn FnOnce() -> C>,
    observer: Observer<OnDecision<L>>,
    key: PhantomData<fn(&K)>,
}

impl<K: ?Sized, L: Limits> Builder<K, L, TscClock> {
    pub(super) fn new(quotas: Vec<L::Quota>) -> Self {
        Self {
            quotas,
            tier_of: None,
            space: Space::default(),
            clock: Box::new(TscClock::new),
            observer: Observer::NONE,
            key: PhantomData,
        }
    }
}

/// The settings of tables, which a [`GlobalLimiter`](crate::GlobalLimiter) does not have.
impl<K: Key + ?Sized, L: Limits, C: Clock> Builder<K, L, C> {
    /// How many keys in debt the limiter is to hold at once: from 1 to 2^36, by default 65,536.
    /// Each of several limits has a table for as many.
    ///
    /// A key without debt takes no room. Address space for all is reserved at once: 27 to 54 bytes
    /// a key, since the table has room for half as many again, rounded up to a power of two; at
    /// least 1 KiB. Of that a table begins with 64 KiB and grows in place: buckets are split
    /// one by one as new keys need room, so no check waits for more than the split of its own.
    /// While keys come and none recovers, a key takes at most 52 bytes, from ten thousand keys on.
    /// (A [sliding log](crate::SlidingLog) uses all of its table from the first, page by page as it
    /// is touched.)
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.space.max_keys = keys;
        self
    }

    /// What happens to a new key whose bucket is full, in each table by itself. By default,
    /// [`WhenFull::Share`].
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.space.when_full = when_full;
        self
    }

    /// Declares that no stranger chooses the keys, so that keys of more than 8 bytes may be hashed
    /// by the faster ahash.
    ///
    /// Do not use it for addresses, user names or API keys as they arrive: an attacker who watches
    /// which keys share a limit can find ahash's secret.
    pub fn trusted_keys(mut self) -> Self {
        self.space.trusted_keys = true;
        self
    }
}

impl<K: ?Sized, L: Limits, C: Clock> Builder<K, L, C> {
    /// How many bytes all tables together may come to take ([`memory`](Self::memory));
    /// [`build`](Self::build) refuses to promise more. By default 1 GiB.
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.space.memory_budget = bytes;
        self
    }

    /// Where the time comes from. By default, [`TscClock`].
    pub fn clock<D: Clock + 'static>(self, clock: D) -> Builder<K, L, D> {
        let Self { quotas, tier_of, space, observer, .. } = self;
        Builder { quotas, tier_of, space, clock: Box::new(move || clock), observer, key: PhantomData }
    }

    /// Calls `on_decision` with every decision: exactly once for each check or reservation, after
    /// it was charged, on the thread that asked, before the caller has the answer. A
    /// [`peek`](crate::Limiter::peek) decides nothing, nor does a reservation where there are no
    /// turns ([`NoTurns`](crate::ReserveError::NoTurns)). What a [lease](crate::Prepared::lease)
    /// acquires is one admission of as many units; spending them is none.
    ///
    /// A panic of `on_decision` reaches the caller of the check, and the charge stays. A limiter
    /// without `on_decision` pays nothing for it. [`Counters`](crate::Counters) count the outcomes.
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
    pub fn on_decision(mut self, on_decision: impl Fn(&L::Decision<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Observer::new(Box::new(on_decision));
        self
    }

    /// The bytes that all tables of [`build`](Self::build) can come to take under any budget.
    ///
    /// # Errors
    ///
    /// What `build` would say of the quotas and of `max_keys`.
    pub fn memory(&self) -> Result<usize, BuildError> {
        // The clock's origin moves windows, not sizes.
        L::bytes(&self.space, &L::Quota::compile(&self.quotas, 0)?)
    }

    /// Judges the settings, reserves the tables, and starts the clock.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the setting, its value and what would be accepted. Nothing is reserved
    /// then.
    pub fn build(mut self) -> Result<L::Limiter, BuildError>
    where
        L: Face<K, C>,
    {
        let (tier_of, hasher) = (self.tier_of.take(), self.space.hasher());
        let core = Core::new(self.quotas, &[], &self.space, hasher, self.clock, self.observer)?;
        Ok(L::limiter(core, tier_of))
    }

    /// [`build`](Self::build) for a limiter that begins with the debts that
    /// [`Limiter::save`](crate::Limiter::save), [`MultiLimiter::save`](crate::MultiLimiter::save)
    /// or [`GlobalLimiter::save`](crate::GlobalLimiter::save) wrote down.
    ///
    /// The quotas must be those of the saved limiter, tier by tier or limit by limit, in the same
    /// order, and the keys of the same type; [`trusted_keys`](Self::trusted_keys) must be, too.
    /// Everything else may differ.
    ///
    /// **Guarantee.** Each key is answered as the saved limiter would answer it at the same Unix
    /// time, to within one [grain](crate::Resolution::grains), and no debt is forgiven, as long
    /// as the [clocks' Unix time](Clock::unix_now) is right at the save and now: the time
    /// between counts as passed. If Unix time has been set back in between, none counts: debts
    /// are as far away as they were at the save, and no further. Windows stay aligned to Unix
    /// time; if it was corrected by more than an eighth of a window, they end up to one window
    /// later.
    ///
    /// In a table of fewer buckets, keys that do not fit go the way of
    /// [`WhenFull::Share`](crate::WhenFull::Share): the keys without a slot share the largest
    /// of their debts. A table of as many buckets or more has room for all.
    ///
    /// **Cost.** Reads the input to the end of the saved limiter, and no further, in pieces of up
    /// to 64 KiB. It reserves as much as `build` does and one such piece, for any input.
    ///
    /// # Errors
    ///
    /// [`RestoreError`], and nothing is built: the input is no saved limiter, is damaged or ends
    /// too soon, was saved under other settings, or needs more room.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, RestoreError, TokenBucket};
    ///
    /// let mut file = Vec::new();
    /// Limiter::<str>::builder(TokenBucket::new(Rate::per_hour(5))).build()?.save(&mut file)?;
    ///
    /// let builder = Limiter::<str>::builder(TokenBucket::new(Rate::per_hour(6)));
    /// let error = builder.restore(&file[..]).unwrap_err();
    /// assert!(matches!(error, RestoreError::Differs { .. }));
    /// assert_eq!(error.to_string(), "rate.count is 6, but was 5 when the limiter was saved");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(mut self, input: impl Read) -> Result<L::Limiter, RestoreError>
    where
        L: Face<K, C>,
    {
        let tier_of = self.tier_of.take();
        let core = Core::restore(self.quotas, &self.space, self.clock, self.observer, input)?;
        Ok(L::limiter(core, tier_of))
    }
}

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Builder<K, Keyed<A>, C> {
    /// Adds a tier: another quota for some of the keys. The first added is tier 1; the builder's
    /// own quota is tier 0. There are at most 65,536.
    ///
    /// Tiers share one table, so they have one algorithm, and window algorithms one period. The
    /// tier is chosen a call at a time by [`Limiter::tier`](crate::Limiter::tier), or for each key
    /// by [`tier_by`](Self::tier_by). A key has one state, whichever tier it is checked under.
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
        self.quotas.push(quota);
        self
    }

    /// How a key's tier is found. A number that is no tier's means tier 0.
    pub fn tier_by(mut self, tier_of: impl Fn(&K) -> usize + Send + Sync + 'static) -> Self {
        self.tier_of = Some(Box::new(tier_of));
        self
    }
}

/// The limits that a [`Builder`] makes a limiter of, with the limiter that it makes.
///
/// Sealed.
pub trait Face<K: ?Sized, C>: Limits {
    /// The limiter.
    type Limiter;
    #[doc(hidden)]
    fn limiter(core: Core<Self, C>, tier_of: Option<TierOf<K>>) -> Self::Limiter;
}

impl<K: ?Sized, L: Limits, C> fmt::Debug for Builder<K, L, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("quotas", &self.quotas)
            .field("space", &self.space)
            .finish_non_exhaustive()
    }
}
