//! From the settings to a limiter whose quota comes with each call.

use std::fmt;
use std::marker::PhantomData;

use crate::clock::{Clock, TscClock};
use crate::core::Space;
use crate::error::BuildError;
use crate::key::{Key, KeyHasher};
use crate::limiter::per_call::{PerCallLimiter, State};
use crate::sync::{AtomicU64, Tally, TallyOrdering};
use crate::table::WhenFull;
use crate::table::term::Term;

/// The settings of a [`PerCallLimiter`]. Nothing is judged or reserved before
/// [`build`](Self::build).
///
/// # Examples
///
/// ```
/// use tollgate::PerCallLimiter;
///
/// let builder = PerCallLimiter::<str>::builder().max_keys(100_000);
/// assert_eq!(builder.memory()?, 4 << 20);
/// assert_eq!(builder.build()?.usage().max_keys, 100_000);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct PerCallBuilder<K: ?Sized, C> {
    pub(super) space: Space,
    clock: Box<dyn FnOnce() -> C>,
    key: PhantomData<fn(&K)>,
}

impl<K: ?Sized> PerCallBuilder<K, TscClock> {
    pub(super) fn new() -> Self {
        Self { space: Space::default(), clock: Box::new(TscClock::new), key: PhantomData }
    }
}

impl<K: Key + ?Sized, C: Clock> PerCallBuilder<K, C> {
    /// How many keys in debt the limiter is to hold at once: from 1 to 2^36, by default 65,536. See
    /// [`Builder::max_keys`](crate::Builder::max_keys).
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.space.max_keys = keys;
        self
    }

    /// How many bytes the table may come to take; [`build`](Self::build) refuses to promise more.
    /// By default 1 GiB.
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.space.memory_budget = bytes;
        self
    }

    /// Declares that no stranger chooses the keys: see
    /// [`Builder::trusted_keys`](crate::Builder::trusted_keys).
    pub fn trusted_keys(mut self) -> Self {
        self.space.trusted_keys = true;
        self
    }

    /// Where the time comes from. By default, [`TscClock`].
    pub fn clock<D: Clock + 'static>(self, clock: D) -> PerCallBuilder<K, D> {
        PerCallBuilder { space: self.space, clock: Box::new(move || clock), key: PhantomData }
    }

    /// The bytes that the table of [`build`](Self::build) can come to take under any budget.
    ///
    /// # Errors
    ///
    /// What `build` would say of `max_keys`.
    pub fn memory(&self) -> Result<usize, BuildError> {
        Ok(self.space.size(0)?.bytes())
    }

    /// Judges the settings, reserves the table, and starts the clock.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the setting, its value and what would be accepted. Nothing is reserved
    /// then.
    pub fn build(self) -> Result<PerCallLimiter<K, C>, BuildError> {
        let hasher = self.space.hasher();
        self.hashing_by(hasher)
    }

    /// A limiter that names its keys by this hasher.
    pub(super) fn hashing_by(self, hasher: KeyHasher) -> Result<PerCallLimiter<K, C>, BuildError> {
        static LIMITERS: Tally = Tally::new(0);
        // A slot is inherited, or the table is full: the rule shares no overflow word.
        let space = Space { when_full: WhenFull::Share, ..self.space };
        let state = State {
            table: space.table(space.size(0)?)?,
            term: Term::endless(),
            hasher,
            clock: (self.clock)(),
            resets: AtomicU64::new(0),
            number: LIMITERS.fetch_add(1, TallyOrdering::Relaxed),
            max_keys: space.max_keys,
        };
        Ok(PerCallLimiter { state, key: PhantomData })
    }
}

impl<K: ?Sized, C> fmt::Debug for PerCallBuilder<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerCallBuilder").field("space", &self.space).finish_non_exhaustive()
    }
}
