//! From a description to a limiter, or to the reason why not.

use std::fmt;
use std::io::Read;
use std::marker::PhantomData;

use crate::algorithm::{Algorithm, Inherit, Quota};
use crate::clock::{Clock, TscClock};
use crate::error::BuildError;
use crate::limiter::Limiter;
use crate::limiter::core::{Core, Given, OnDecision};
use crate::limiter::decision::Decision;
use crate::limiter::restore::Changed;
use crate::limiter::space::Space;
use crate::observe::Observer;
use crate::receipt::MOST_LIMITS;
use crate::saved::{Format, Reader, RestoreError};
use crate::table::WhenFull;

/// What a limiter is built from: a quota, an array of quotas, or a list of at most [`MOST_LIMITS`],
/// whose length the compiler does not know. All quotas of an array or list are limits of each key,
/// all or nothing.
///
/// `N` is the number of limits; of a list, how many there may be.
///
/// Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no quota, and no list of quotas",
    label = "expected a quota such as `TokenBucket` or `Quota`, an array of them, or a `Vec<Quota>`",
    note = "several limits of different algorithms: `[Quota::from(a), Quota::from(b)]`"
)]
pub trait Quotas<A, const N: usize>: IntoList<A> {}

/// What [`Quotas`] do. Without a public name, so only the engine implements it.
pub trait IntoList<A> {
    /// The quotas in the order given.
    fn into_list(self) -> Vec<A>;
}

impl<A: Algorithm> Quotas<A, 1> for A {}

impl<A: Algorithm> IntoList<A> for A {
    fn into_list(self) -> Vec<A> {
        vec![self]
    }
}

impl<A: Algorithm, const N: usize> Quotas<A, N> for [A; N] {}

impl<A: Algorithm, const N: usize> IntoList<A> for [A; N] {
    fn into_list(self) -> Vec<A> {
        self.into()
    }
}

impl Quotas<Quota, MOST_LIMITS> for Vec<Quota> {}

impl IntoList<Quota> for Vec<Quota> {
    fn into_list(self) -> Vec<Quota> {
        self
    }
}

/// The settings of a [`Limiter`]. Nothing is judged or reserved before [`build`](Self::build).
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Rate, TokenBucket, WhenFull};
///
/// let limiter = Limiter::builder(TokenBucket::new(Rate::per_minute(60)).burst(20))
///     .per::<str>()
///     .max_keys(100_000)
///     .when_full(WhenFull::Deny)
///     .build()?;
/// assert_eq!(limiter.check("alice").remaining(), 19);
///
/// let quotas = [Rate::per_second(10), Rate::per_day(1_000)].map(TokenBucket::new);
/// let limiter = Limiter::builder(quotas).per::<str>().build()?;
/// assert_eq!(limiter.check("alice").remaining(), 9);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<K: ?Sized, A: Algorithm, const N: usize = 1, C = TscClock> {
    quotas: Given<A>,
    space: Space,
    clock: ClockToBe<C>,
    observer: Observer<OnDecision<N>>,
    key: PhantomData<fn(&K)>,
}

/// The clock of a limiter that is not built yet.
enum ClockToBe<C> {
    Given(C),
    /// It starts when the limiter is built.
    Made(fn() -> C),
}

impl<C> ClockToBe<C> {
    fn get(self) -> C {
        match self {
            Self::Given(clock) => clock,
            Self::Made(clock) => clock(),
        }
    }
}

impl<A: Algorithm, const N: usize> Builder<(), A, N> {
    pub(super) fn new(quotas: Vec<A>) -> Self {
        Self {
            quotas: Given::new(quotas),
            space: Space { has_keys: false, ..Space::default() },
            clock: ClockToBe::Made(TscClock::new),
            observer: Observer::NONE,
            key: PhantomData,
        }
    }
}

impl<K: ?Sized, A: Algorithm, const N: usize, C: Clock> Builder<K, A, N, C> {
    /// A limit for each key of this kind, as in `per::<str>()`; where a field or a static says the
    /// kind, `per()`. What names a key of the kind says [`Key`](crate::Key).
    pub fn per<L: ?Sized>(self) -> Builder<L, A, N, C> {
        let Self { quotas, space, clock, observer, .. } = self;
        let space = Space { has_keys: true, ..space };
        Builder { quotas, space, clock, observer, key: PhantomData }
    }

    /// Adds a tier: other quotas for some of the keys. The first added is tier 1; the builder's own
    /// quotas are tier 0. There are at most 65,536, and fewer of several limits.
    ///
    /// The tiers of a limit share one table, so they have one algorithm, and window algorithms one
    /// period. The tier is chosen a call at a time, by [`Account::tier`](crate::Account::tier). A
    /// key has one state, whichever tier it is checked under.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::builder(TokenBucket::new(Rate::per_second(10)))
    ///     .tier(TokenBucket::new(Rate::per_second(100)))
    ///     .per::<str>()
    ///     .build()?;
    /// let account = |key: &str| limiter.account(key).tier(usize::from(key.starts_with("paid:")));
    /// assert_eq!(account("paid:alice").expect("there are two").check().limit(), 100);
    /// assert_eq!(account("bob").expect("there are two").check().limit(), 10);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn tier(mut self, quotas: impl Quotas<A, N>) -> Self {
        self.quotas.add_tier(quotas.into_list());
        self
    }

    /// How many keys in debt the limiter is to hold at once: from 1 to 2^36, by default 65,536.
    /// Each of several limits has a table for as many.
    ///
    /// A key without debt takes no room. Address space for all is reserved at once: 27 to 54 bytes
    /// a key, since the table has room for half as many again, rounded up to a power of two; at
    /// least 1 KiB. Of that a table begins with 64 KiB and grows in place: buckets are split
    /// one by one as new keys need room, so no check waits for more than the split of its own.
    /// While keys come and none recovers, a key takes at most 56 bytes, from ten thousand keys on.
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

    /// How many bytes all tables together may come to take ([`memory`](Self::memory));
    /// [`build`](Self::build) refuses to promise more. By default 1 GiB.
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.space.memory_budget = bytes;
        self
    }

    /// Where the time comes from. By default, [`TscClock`].
    pub fn clock<D: Clock>(self, clock: D) -> Builder<K, A, N, D> {
        let Self { quotas, space, observer, .. } = self;
        Builder { quotas, space, clock: ClockToBe::Given(clock), observer, key: PhantomData }
    }

    /// Calls `on_decision` with every decision: exactly once for each check or reservation, after
    /// it was charged, on the thread that asked, before the caller has the answer. A
    /// [`peek`](crate::Limiter::peek) decides nothing, nor does a reservation where there are no
    /// turns ([`NoTurns`](crate::ReserveError::NoTurns)). What a [lease](crate::Account::lease)
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
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// // How many requests the daily limit refused.
    /// let refused = Arc::new(AtomicU64::new(0));
    /// let counted = refused.clone();
    /// let rates = [Rate::per_second(10), Rate::per_day(15)];
    /// let limiter = Limiter::builder(rates.map(TokenBucket::new))
    ///     .per::<str>()
    ///     .on_decision(move |decision| {
    ///         counted.fetch_add(u64::from(decision.refused_by() == Some(1)), Relaxed);
    ///     })
    ///     .build()?;
    /// let _ = (limiter.check_n("alice", 8), limiter.check_n("alice", 8));
    /// assert_eq!(refused.load(Relaxed), 1);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn on_decision(mut self, on_decision: impl Fn(&Decision<'_, N>) + Send + Sync + 'static) -> Self {
        self.observer = Observer::new(Box::new(on_decision));
        self
    }

    /// The bytes that all tables of [`build`](Self::build) can come to take under any budget.
    ///
    /// # Errors
    ///
    /// What `build` would say of the quotas and of `max_keys`.
    pub fn memory(&self) -> Result<usize, BuildError> {
        self.space.judge()?;
        self.quotas.bytes(&self.space)
    }

    /// Judges the settings, reserves the tables, and starts the clock.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the setting, its value and what would be accepted. Nothing is reserved
    /// then.
    pub fn build(self) -> Result<Limiter<K, A, N, C>, BuildError> {
        let Self { quotas, space, clock, observer, .. } = self;
        let core = Core::new(&quotas, &[], space, space.hasher(), || clock.get(), observer)?;
        Ok(Limiter { core, key: PhantomData })
    }

    /// [`build`](Self::build) for a limiter that begins with the debts that
    /// [`Limiter::save`] wrote down.
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
    /// let five = TokenBucket::new(Rate::per_hour(5));
    /// Limiter::builder(five).per::<str>().build()?.save(&mut file)?;
    ///
    /// let six = TokenBucket::new(Rate::per_hour(6));
    /// let error = Limiter::builder(six).per::<str>().restore(&file[..]).unwrap_err();
    /// assert!(matches!(error, RestoreError::Differs { .. }));
    /// assert_eq!(
    ///     error.to_string(),
    ///     "the quota is token-bucket:6/h,burst=6, but was token-bucket:5/h,burst=5 when the \
    ///      limiter was saved"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(self, input: impl Read) -> Result<Limiter<K, A, N, C>, RestoreError> {
        self.resume_file(None, input)
    }

    /// [`restore`](Self::restore) under other quotas than the saved ones, as many of them: the
    /// limiter begins as it was saved, and is [changed](Limiter::change) at once.
    ///
    /// When would I want this? When limits are in a file or in the code, and a new one comes with a
    /// restart. No key gets a new day by that.
    ///
    /// **Guarantee.** That of `restore`, and then that of [`change`](Limiter::change): a key has
    /// what [`Inherit`] says of what it had available. A quota that is the same keeps its debts.
    ///
    /// **Cost.** That of both. The table is the saved quotas': a log has a ring of their limit.
    ///
    /// # Errors
    ///
    /// As `restore`; [`RestoreError::Build`] where the change is none that a running limiter could
    /// make: then begin without the debts.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Inherit, Limiter, Rate, TokenBucket};
    ///
    /// let mut file = Vec::new();
    /// let limiter = Limiter::builder(TokenBucket::new(Rate::per_hour(5))).per::<str>().build()?;
    /// assert!(limiter.check_n("alice", 4).is_allowed());
    /// limiter.save(&mut file)?;
    ///
    /// let six = Limiter::builder(TokenBucket::new(Rate::per_hour(6))).per::<str>();
    /// let limiter = six.restore_changed(&file[..], Inherit::Additive)?;
    /// assert_eq!(limiter.check("alice").remaining(), 1); // the debt of 4 remains, and this one
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore_changed(
        self,
        input: impl Read,
        inherit: Inherit,
    ) -> Result<Limiter<K, A, N, C>, RestoreError>
    where
        A: TryFrom<Quota>,
    {
        self.resume_file(Some(Changed::to(inherit)), input)
    }

    /// [`restore`](Self::restore) from a file of several: what [`Limiter::save_in`] wrote there.
    /// The example is at [`saved`](crate::saved).
    ///
    /// # Errors
    ///
    /// As `restore`. If the file is [damaged](RestoreError::is_damage), it cannot be read on; else
    /// it goes on behind the limiter.
    pub fn restore_from(self, input: &mut Reader<impl Read>) -> Result<Limiter<K, A, N, C>, RestoreError> {
        self.resume(None, input)
    }

    /// [`restore_changed`](Self::restore_changed) from a file of several, with the errors of
    /// [`restore_from`](Self::restore_from).
    pub fn restore_changed_from(
        self,
        input: &mut Reader<impl Read>,
        inherit: Inherit,
    ) -> Result<Limiter<K, A, N, C>, RestoreError>
    where
        A: TryFrom<Quota>,
    {
        self.resume(Some(Changed::to(inherit)), input)
    }

    fn resume_file(
        self,
        changed: Option<Changed<A>>,
        input: impl Read,
    ) -> Result<Limiter<K, A, N, C>, RestoreError> {
        let mut input = Reader::begin(input, Format::LIMITER)?;
        let resumed = self.resume(changed, &mut input);
        if !resumed.as_ref().is_err_and(RestoreError::is_damage) {
            input.finish()?;
        }
        resumed
    }

    fn resume(
        self,
        changed: Option<Changed<A>>,
        input: &mut Reader<impl Read>,
    ) -> Result<Limiter<K, A, N, C>, RestoreError> {
        let Self { quotas, space, clock, observer, .. } = self;
        let core = Core::restore(&quotas, changed, space, || clock.get(), observer, input)?;
        Ok(Limiter { core, key: PhantomData })
    }
}

impl<K: ?Sized, A: Algorithm, const N: usize, C> fmt::Debug for Builder<K, A, N, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("quotas", &self.quotas.all)
            .field("space", &self.space)
            .finish_non_exhaustive()
    }
}
