//! How much of each key is in flight at once.

mod limit;
mod owned;
mod wait;
mod waiters;

use std::error;
use std::fmt;
use std::marker::PhantomData;

use crate::algorithm::{InFlightRule, Ringed, Rule};
use crate::error::BuildError;
use crate::key::{Key, KeyHasher};
use crate::limiter::core::Usage;
use crate::limiter::space::Space;
use crate::table::hold::hold;
use crate::table::ruling::Ask;
use crate::table::slot::Slot;
use crate::table::validity::Validity;
use crate::table::versioned::VersionedRef;
use crate::table::{Fingerprint, Stats, Table, WhenFull};
use crate::time::Timestamp;
use limit::CurrentLimit;
use waiters::Waiters;

pub use owned::OwnedInFlight;

/// A concurrency limit for each of many keys, shared by all threads: at most so many requests of a
/// key at once, however fast they come and go. Also known as a bulkhead, or a semaphore for each
/// key.
///
/// [`try_acquire`](Self::try_acquire) hands out a guard or refuses; [`acquire`](Self::acquire)
/// waits for one. Dropping the guard gives back what it holds. There is no clock: a request that
/// hangs keeps its place until it ends, so give requests a deadline of their own.
///
/// **Guarantee.** At no time do the guards of a key hold more than the limit, from any number of
/// threads (after a [change](Self::set_limit) to a lower one, no more than they held by then);
/// and what a holder did before it gave back is visible to the next holder. A request that cannot
/// be counted is refused: a key that finds its bucket full of keys with something in flight waits
/// until one of them has nothing left. That is [`WhenFull::Deny`]; the other choices make no sense
/// here. To *allow* would be no limit, and units that were *shared* or handed over would be given
/// back by a guard of another key. It concerns up to eight keys in a thousand when `max_keys` keys
/// have something in flight, and is counted in [`Stats::refused_full`].
///
/// It is never saved: requests in flight end with the process, and a count restored in the next one
/// would have no guard to give it back.
///
/// **Cost.** To acquire: a few loads and one compare-exchange on one cache line when no other
/// thread interferes, retried when another thread took or gave back units of the same key
/// meanwhile; three compare-exchanges for a key with nothing in flight that has lost its slot to
/// others. A refusal of a key that the table knows writes nothing. To give back: one
/// atomic subtraction, which never fails and never retries. Nothing blocks, allocates or frees, or
/// enters the operating system (but to have a page of the table committed the first time that it is
/// touched), unless futures wait for the key. A key takes memory only while units of it are in
/// flight.
///
/// # Examples
///
/// ```
/// use tollgate::{AcquireError, InFlightLimiter};
///
/// let limiter = InFlightLimiter::builder(2).per::<str>().build()?;
///
/// let first = limiter.try_acquire("alice")?;
/// let second = limiter.try_acquire("alice")?;
/// assert_eq!(limiter.try_acquire("alice").unwrap_err(), AcquireError::Busy);
/// assert!(limiter.try_acquire("bob").is_ok());
///
/// drop(first);
/// assert!(limiter.try_acquire("alice").is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A guard borrows the limiter. One that outlives the function that took it, as in a task, is
/// [owned](Self::try_acquire_n_owned), or borrows a limiter that is there for ever:
///
/// ```
/// use std::sync::LazyLock;
/// use tollgate::InFlightLimiter;
///
/// static UPLOADS: LazyLock<InFlightLimiter<u64>> =
///     LazyLock::new(|| InFlightLimiter::builder(4).per().build().expect("four is a limit"));
///
/// let guard = UPLOADS.try_acquire(7).expect("no other upload runs");
/// let task = std::thread::spawn(move || drop(guard));
/// task.join().expect("the upload does not panic");
/// assert_eq!(UPLOADS.in_flight(7), 0);
/// ```
pub struct InFlightLimiter<K: ?Sized> {
    limit: CurrentLimit,
    /// The rule has no versions.
    validity: Validity,
    hasher: KeyHasher,
    keys: Keys,
    max_keys: usize,
    key: PhantomData<fn(&K)>,
}

/// The units in flight of each key, and the futures that wait for them.
struct Keys {
    table: Table,
    waiters: Waiters,
}

impl InFlightLimiter<()> {
    /// Begins to describe a limiter that lets `limit` units be in flight: from 1 to 1,048,575, for
    /// everything together, or for each key that [`InFlightBuilder::per`] says.
    pub fn builder(limit: u64) -> InFlightBuilder<()> {
        InFlightBuilder { limit, space: Space { has_keys: false, ..Space::default() }, key: PhantomData }
    }
}

impl<K: ?Sized> InFlightLimiter<K> {
    /// Takes one unit of the key.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Busy`]; nothing is taken then.
    #[inline]
    pub fn try_acquire(&self, key: impl Key<K>) -> Result<InFlight<'_>, AcquireError> {
        self.try_acquire_n(key, 1)
    }

    /// Takes any number of units of the key at once, all or nothing: for requests that weigh more
    /// than others.
    ///
    /// None at all is always granted, and changes nothing.
    ///
    /// # Errors
    ///
    /// [`AcquireError`]; nothing is taken then.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{AcquireError, InFlightLimiter};
    ///
    /// let limiter = InFlightLimiter::builder(10).per::<str>().build()?;
    /// let export = limiter.try_acquire_n("alice", 8)?;
    /// assert_eq!(limiter.try_acquire_n("alice", 3).unwrap_err(), AcquireError::Busy);
    /// let too_many = limiter.try_acquire_n("alice", 11).unwrap_err();
    /// assert_eq!(too_many, AcquireError::Never { units: 11, limit: 10 });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn try_acquire_n(&self, key: impl Key<K>, units: u64) -> Result<InFlight<'_>, AcquireError> {
        self.try_take(self.fingerprint(key), units)
    }

    #[inline]
    fn try_take(&self, fingerprint: Fingerprint, units: u64) -> Result<InFlight<'_>, AcquireError> {
        if units == 0 {
            return Ok(InFlight { keys: &self.keys, slot: None, units });
        }
        self.by_current_limit(|rule| self.take(rule, fingerprint, units))
    }

    /// Decides by the limit that is current meanwhile: again when it is changed.
    #[inline]
    fn by_current_limit<T>(&self, decide: impl Fn(InFlightRule) -> T) -> T {
        loop {
            let seen = self.limit.read();
            let decided = decide(seen.rule());
            if self.limit.is_still(seen) {
                return decided;
            }
        }
    }

    #[inline]
    fn fingerprint(&self, key: impl Key<K>) -> Fingerprint {
        Fingerprint::from_bits(key.fingerprint(&self.hasher))
    }

    /// Takes units by this rule.
    #[inline]
    fn take(
        &self,
        rule: InFlightRule,
        fingerprint: Fingerprint,
        units: u64,
    ) -> Result<InFlight<'_>, AcquireError> {
        if units > rule.limit() {
            return Err(AcquireError::Never { units, limit: rule.limit() });
        }
        let ask = Ask { rule: self.by_ref(&rule), fingerprint, cost: units };
        let slot = hold(&self.keys.table, ask).ok_or(AcquireError::Busy)?;
        Ok(InFlight { keys: &self.keys, slot: Some(slot), units })
    }

    /// The rule as the table is handed it.
    #[inline]
    fn by_ref<'r>(&'r self, rule: &'r InFlightRule) -> VersionedRef<'r, InFlightRule> {
        VersionedRef { pure: rule, validity: &self.validity }
    }

    /// Makes another limit current, for all keys at one instant: from 1 to 1,048,575.
    ///
    /// **Guarantee.** A request after `set_limit` has returned is decided by the new limit, and a
    /// call that goes on meanwhile wholly by the old one, as if it had come before, or wholly
    /// by the new one; [`AcquireError::Never`], too. Guards that are out stay valid and hold
    /// what they took. Under a higher limit there is room at once. Under a lower one a key that
    /// holds more than that gets nothing before so much has come back that the request fits.
    ///
    /// A call that is overtaken by the change while it takes its units gives them back and is
    /// decided anew. Until then another may find them taken and be refused, as by a guard that
    /// is dropped shortly after.
    ///
    /// **Cost.** One compare-exchange, tried again when others change the limit too. No call waits:
    /// one that was overtaken starts again. Every [waiting](Self::acquire_n) future is woken.
    ///
    /// # Errors
    ///
    /// [`BuildError::OutOfRange`]; the old limit stays current then.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{AcquireError, InFlightLimiter};
    ///
    /// let limiter = InFlightLimiter::builder(2).per::<str>().build()?;
    /// let (first, second) = (limiter.try_acquire("alice")?, limiter.try_acquire("alice")?);
    ///
    /// limiter.set_limit(1)?; // the server is busy
    /// drop(first);
    /// assert_eq!(limiter.try_acquire("alice").unwrap_err(), AcquireError::Busy);
    /// drop(second);
    /// assert!(limiter.try_acquire("alice").is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_limit(&self, limit: u64) -> Result<(), BuildError> {
        self.limit.put(InFlightRule::new(limit)?);
        self.keys.waiters.wake_all();
        Ok(())
    }

    /// How many units of the key are in flight. Writes nothing.
    #[must_use]
    pub fn in_flight(&self, key: impl Key<K>) -> u64 {
        let (fingerprint, rule) = (self.fingerprint(key), self.limit.read().rule());
        let look =
            self.keys.table.look(Ask { rule: self.by_ref(&rule), fingerprint, cost: 1 }, Timestamp::ZERO);
        // A key for which there is no room has nothing in flight.
        if look.has_room() { InFlightRule::count(look.before) } else { 0 }
    }

    /// The current limit: the most units that a key may have in flight.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit.read().rule().limit()
    }

    /// How many keys have something in flight, and how much memory they take. Reads the whole
    /// table.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let rule = self.limit.read().rule();
        let at = rule.moment(Timestamp::ZERO);
        Usage {
            live_keys: self.keys.table.views().map(|view| view.in_debt(self.by_ref(&rule), at).count()).sum(),
            max_keys: self.max_keys,
            memory_in_use: self.keys.table.bytes(),
        }
    }

    /// How often keys came, went, and found no room.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.keys.table.stats()
    }
}

impl<K: ?Sized> fmt::Debug for InFlightLimiter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightLimiter")
            .field("limit", &self.limit.read().rule().limit())
            .field("max_keys", &self.max_keys)
            .finish_non_exhaustive()
    }
}

/// Units of a key that are in flight: dropping it gives them back, also while a panic unwinds.
///
/// It may be sent to another thread and dropped there. Not dropping it, as by [`std::mem::forget`],
/// keeps its units taken for as long as the limiter lives, and nothing takes them back: the key's
/// limit is that much lower from then on, and its slot in the table is never free again.
#[must_use = "units in flight are given back as soon as their guard is dropped"]
pub struct InFlight<'l> {
    keys: &'l Keys,
    /// The key's slot, which stays the key's while this is there. `None` when nothing was taken.
    slot: Option<&'l Slot>,
    units: u64,
}

impl InFlight<'_> {
    /// How many units are held.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.units
    }
}

impl Drop for InFlight<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(slot) = self.slot else { return };
        // Before: afterwards the slot may be another key's.
        let stored = slot.fingerprint();
        let before = slot.give_back(InFlightRule::weight(self.units));
        if InFlightRule::is_awaited(before.payload()) {
            self.keys.wake(slot, stored, before.less(InFlightRule::weight(self.units)));
        }
    }
}

impl fmt::Debug for InFlight<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight").field("units", &self.units).finish_non_exhaustive()
    }
}

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireError {
    /// Not now: as much of the key is in flight as leaves no room for the request, or other keys
    /// have something in flight in every slot that the key could have (counted in
    /// [`Stats::refused_full`]).
    Busy,
    /// More was asked for than the limit: waiting will not help.
    Never {
        /// The units asked for.
        units: u64,
        /// The most that can be in flight at once.
        limit: u64,
    },
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => write!(f, "too much is in flight: try again when something has come back"),
            Self::Never { units, limit } => {
                write!(f, "{units} units were asked for, but must be at most {limit}: no wait will help")
            }
        }
    }
}

impl error::Error for AcquireError {}

/// The settings of an [`InFlightLimiter`]. Nothing is judged or reserved before
/// [`build`](Self::build).
///
/// # Examples
///
/// ```
/// use tollgate::InFlightLimiter;
///
/// let builder = InFlightLimiter::builder(8).per::<u64>().max_keys(100_000);
/// assert_eq!(builder.memory()?, 4 << 20);
/// assert_eq!(builder.build()?.usage().max_keys, 100_000);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct InFlightBuilder<K: ?Sized> {
    limit: u64,
    space: Space,
    key: PhantomData<fn(&K)>,
}

impl<K: ?Sized> InFlightBuilder<K> {
    /// A limit for each key of this kind: see [`Builder::per`](crate::Builder::per).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::InFlightLimiter;
    ///
    /// let of_tenant = InFlightLimiter::builder(2).per::<(u32, String)>().build()?;
    /// let of_all = InFlightLimiter::builder(3).build()?;
    /// let places = (of_tenant.try_acquire((7, "alice"))?, of_all.try_acquire(())?);
    /// assert_eq!((of_tenant.in_flight((7, "alice")), of_all.in_flight(())), (1, 1));
    /// # drop(places);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn per<L: ?Sized>(self) -> InFlightBuilder<L> {
        let space = Space { has_keys: true, ..self.space };
        InFlightBuilder { limit: self.limit, space, key: PhantomData }
    }

    /// How many keys may have something in flight at once: see
    /// [`Builder::max_keys`](crate::Builder::max_keys). Keys with nothing in flight take no
    /// room. A guard holds its slot, so no key moves, and this table does not grow: it has its full
    /// size from the start, and memory is used page by page as it is touched.
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.space.max_keys = keys;
        self
    }

    /// How many bytes the limiter may reserve; [`build`](Self::build) refuses to take more. By
    /// default 1 GiB.
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

    /// The bytes of the table that [`build`](Self::build) would reserve under any budget.
    ///
    /// # Errors
    ///
    /// What `build` would say of the limit and of `max_keys`.
    pub fn memory(&self) -> Result<usize, BuildError> {
        let rule = InFlightRule::new(self.limit)?;
        Ok(self.space.size(rule.ring_len())?.bytes())
    }

    /// Judges the settings and reserves the table.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the setting, its value and what would be accepted. Nothing is reserved
    /// then.
    pub fn build(self) -> Result<InFlightLimiter<K>, BuildError> {
        let rule = InFlightRule::new(self.limit)?;
        let space = Space { when_full: WhenFull::Deny, ..self.space };
        space.judge()?;
        Ok(InFlightLimiter {
            limit: CurrentLimit::new(rule),
            validity: Validity::endless(u64::MAX),
            hasher: space.hasher(),
            // A guard holds its slot, so no key may move.
            keys: Keys { table: space.table(space.size(rule.ring_len())?.fixed())?, waiters: Waiters::new() },
            max_keys: space.keys(),
            key: PhantomData,
        })
    }
}

impl<K: ?Sized> fmt::Debug for InFlightBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightBuilder")
            .field("limit", &self.limit)
            .field("max_keys", &self.space.max_keys)
            .field("memory_budget", &self.space.memory_budget)
            .field("trusted_keys", &self.space.trusted_keys)
            .finish_non_exhaustive()
    }
}
