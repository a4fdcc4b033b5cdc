//! Deciding Envoy's calls.
//!
//! ```text
//!   call -> find a limit for each descriptor -> leave out the replaced -> count, and compare
//! ```
//!
//! | file | what |
//! |------|------|
//! | `call`, `answer` | what a call asks; what it is answered, and the buffers of a call |
//! | `counter` | the hits of each key of one limit |
//! | `counted` | a configuration with its counts, and what it takes over of the one before |
//! | `decide` | how a call is decided |
//! | `hits` | how many hits each limit had, for metrics |
//! | `saved` | the counts for the next process |
//! | `stored` | limits whose counts a store keeps |
//!
//! The configuration in force is an `Arc` behind a mutex, and a number tells whether a handle's
//! copy is still the newest. Counters know no limits, and both configurations share them: so no
//! number changes under a call, and a call that a reload overtakes need not be decided anew, as one
//! by `LiveRules` is. The number carries nothing, and is relaxed: what it announces is fetched
//! under the mutex.

mod answer;
mod call;
mod counted;
mod counter;
mod decide;
mod hits;
mod saved;
mod stored;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate::{Clock, TscClock};

use super::trie::EnvoyConfig;
pub use answer::{EnvoyAnswer, EnvoyCode, EnvoyStatus};
pub use call::{EnvoyCallError, EnvoyDescriptor};
use counted::Counted;
pub use counter::EnvoyCount;
pub use hits::EnvoyHits;
pub use stored::EnvoyAsk;
use tollgate_rules::SetError;

/// What a call is charged if one of its descriptors is over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EnvoyCharge {
    /// All of it, as in envoyproxy/ratelimit: each descriptor is decided by itself. A client that
    /// one limit refuses uses up the others, too.
    Each,
    /// The descriptors that are over the limit, and no others: a client that one limit refuses
    /// leaves the others alone. A shadow limit refuses nothing, and is charged always.
    Together,
}

/// Decides the calls of Envoy's rate limit service by the configuration of envoyproxy/ratelimit.
///
/// A call has a domain and descriptors, each of which asks the limit that
/// [`EnvoyConfig::find`] finds, or one that it [brings](EnvoyDescriptor::limit). Each limit counts
/// the hits of each key in windows aligned to Unix time: also those that it refuses. A descriptor
/// is over the limit if the count with its hits is above it. Its hits are its own
/// [`hits_addend`](EnvoyDescriptor::hits_addend), where 0 only looks, or else the call's, at least
/// 1. The call is over the limit if any descriptor is; of limits with `quota_mode`, if all are.
///
/// | a descriptor | its status |
/// |---|---|
/// | without a limit, of an unknown domain, or replaced | OK, nothing remaining |
/// | whose limit is "unlimited" | OK, [`u32::MAX`] remaining |
/// | over a shadow limit | OK, nothing remaining |
/// | over a limit | over limit, nothing remaining |
/// | of a limit of 0, also if it only looks | over limit, nothing remaining |
///
/// Clones share all. Each thread decides calls by an [`EnvoyHandle`] of its own.
///
/// **Guarantee.** From any number of threads at once, a key is never admitted more hits in a window
/// than its limit. With [`EnvoyCharge::Each`] every status is exact. With
/// [`EnvoyCharge::Together`] it is, too, when no other thread interferes; a call that passes all
/// limits at first, and is refused then because another thread was faster, was charged for a short
/// time, in which another call may be refused.
///
/// **Reload.** All limits change at one instant: a call is decided wholly by the old configuration
/// or wholly by the new one. Counts are kept of every limit whose unit, domain, keys and values
/// stay, also with other numbers, flags and names; a new limit begins at 0. A call that is
/// decided by the old configuration meanwhile counts for the new one, too.
///
/// **Memory** is bounded: each limit whose files leave values open has room for `max_keys` keys
/// with hits in the current window, 27 to 56 bytes each as they come; the limits that calls bring
/// share such room for each of the seven units. Beyond it a new key inherits the count of the one
/// that had the fewest hits: it may be refused too early, and never admitted too much.
///
/// # Examples
///
/// ```
/// use tollgate::ManualClock;
/// use tollgate_rules_file::{
///     EnvoyAnswer, EnvoyCharge, EnvoyCode, EnvoyConfig, EnvoySet, Memory, SameDomain,
/// };
///
/// let yaml = "\
/// domain: messaging
/// descriptors:
///   - key: to_number
///     rate_limit: { unit: day, requests_per_unit: 2 }
/// ";
/// let source = Memory::new("messaging.yaml", yaml);
/// let config = |source| EnvoyConfig::read(&["messaging.yaml"], SameDomain::Refuse, source);
/// let config = config(&source).into_rules().unwrap();
/// let set = EnvoySet::new(config, EnvoyCharge::Each, 65_536, ManualClock::new())?;
///
/// let (mut handle, mut answer) = (set.handle(), EnvoyAnswer::default()); // of each thread
/// let descriptors = [&[("to_number", "2061234567")][..], &[("from_number", "2065550100")]];
/// let code = handle.decide("messaging", &descriptors, 2, &mut answer)?;
/// assert_eq!(code, EnvoyCode::Ok);
/// let [to, from] = answer.statuses() else { panic!("one for each descriptor") };
/// assert_eq!((to.remaining, to.until_reset.as_secs()), (0, 86_400));
/// assert_eq!((to.current_limit.unwrap().0, from.current_limit), (2, None));
///
/// assert_eq!(handle.decide("messaging", &descriptors, 1, &mut answer)?, EnvoyCode::OverLimit);
/// let limit = answer.statuses()[0].limit.unwrap();
/// assert_eq!(&*handle.config().limits()[limit].composite, "messaging.to_number");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EnvoySet<C = TscClock> {
    inner: Arc<Inner<C>>,
}

struct Inner<C> {
    /// The number of the configuration in force. It is written under `current`.
    number: AtomicU64,
    current: Mutex<Arc<Counted<C>>>,
    /// Held from the first look at the old configuration until the new one is in force.
    reload: Mutex<()>,
    charge: EnvoyCharge,
    max_keys: usize,
}

impl<C: Clock + Clone + 'static> EnvoySet<C> {
    /// Puts the first configuration in force. `max_keys`, from 1 to 2^36, is the room of each limit
    /// for keys with hits in the current window.
    ///
    /// # Errors
    ///
    /// [`SetError::Limit`], with the limit's composite key: `max_keys` is out of range, or there
    /// is no memory.
    pub fn new(
        config: EnvoyConfig,
        charge: EnvoyCharge,
        max_keys: usize,
        clock: C,
    ) -> Result<Self, SetError> {
        let counted = Counted::new(config, None, max_keys, &clock)?;
        Ok(Self::of(counted, charge, max_keys))
    }

    fn of(counted: Counted<C>, charge: EnvoyCharge, max_keys: usize) -> Self {
        let current = Mutex::new(Arc::new(counted));
        let inner = Inner { number: AtomicU64::new(1), current, reload: Mutex::default(), charge, max_keys };
        Self { inner: Arc::new(inner) }
    }

    /// Puts another configuration in force, which takes over the counts of the old one. Calls that
    /// begin after it has returned are decided by it.
    ///
    /// **Cost.** New counters are built before any call notices; a call waits for a copy of an
    /// `Arc` at most. Handles keep the old configuration in memory until their next call.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); the old configuration stays in force then.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules_file::{
    ///     EnvoyAnswer, EnvoyCharge, EnvoyConfig, EnvoySet, Memory, SameDomain,
    /// };
    ///
    /// let config = |count: u32| {
    ///     let limit = format!("{{ unit: day, requests_per_unit: {count} }}");
    ///     let yaml = format!("domain: d\ndescriptors: [{{ key: k, rate_limit: {limit} }}]");
    ///     let source = Memory::new("d.yaml", yaml);
    ///     EnvoyConfig::read(&["d.yaml"], SameDomain::Refuse, &source).into_rules().unwrap()
    /// };
    /// let set = EnvoySet::new(config(5), EnvoyCharge::Each, 1_000, ManualClock::new())?;
    /// let (mut handle, mut answer) = (set.handle(), EnvoyAnswer::default());
    /// handle.decide("d", &[&[("k", "v")][..]], 3, &mut answer)?;
    ///
    /// set.reload(config(10))?;
    /// handle.decide("d", &[&[("k", "v")][..]], 1, &mut answer)?;
    /// assert_eq!(answer.statuses()[0].remaining, 6); // of 10, after 3 and 1
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reload(&self, config: EnvoyConfig) -> Result<(), SetError> {
        let _one_at_a_time = self.inner.reloading();
        let old = Arc::clone(&self.inner.current());
        let counted = Arc::new(Counted::new(config, Some(&*old), self.inner.max_keys, &old.clock)?);
        let mut current = self.inner.current();
        *current = counted;
        self.inner.number.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Aligns the windows of all limits to another Unix time: that of the clock's zero is now known
    /// to be this.
    ///
    /// When would I want this? When the system's clock is set meanwhile: see
    /// [`LiveRules::realign`](tollgate_rules::LiveRules::realign).
    ///
    /// # Errors
    ///
    /// [`SetError::Limit`] of the first limit that was changed too often for now. It keeps its
    /// windows, and all others are realigned. Call it again later.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::ManualClock;
    /// use tollgate_rules_file::{
    ///     EnvoyAnswer, EnvoyCharge, EnvoyConfig, EnvoySet, Memory, SameDomain,
    /// };
    ///
    /// const HOUR: Duration = Duration::from_secs(3_600);
    /// let limit = "{ unit: day, requests_per_unit: 5 }";
    /// let yaml = format!("domain: d\ndescriptors: [{{ key: k, rate_limit: {limit} }}]");
    /// let source = Memory::new("d.yaml", yaml);
    /// let config = EnvoyConfig::read(&["d.yaml"], SameDomain::Refuse, &source);
    /// let (config, clock) = (config.into_rules().unwrap(), ManualClock::starting_at(10 * HOUR));
    /// let set = EnvoySet::new(config, EnvoyCharge::Each, 1_000, clock)?;
    /// set.realign(9 * HOUR)?;
    /// let mut answer = EnvoyAnswer::default();
    /// set.handle().decide("d", &[&[("k", "v")][..]], 1, &mut answer)?;
    /// assert_eq!(answer.statuses()[0].until_reset, 15 * HOUR);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn realign(&self, unix_at_zero: Duration) -> Result<(), SetError> {
        let _no_reload = self.inner.reloading();
        let counted = Arc::clone(&self.inner.current());
        counted.realign(unix_at_zero)
    }

    /// The number of the configuration in force: 1 for the first, one more after each
    /// [`reload`](Self::reload).
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.inner.number.load(Relaxed)
    }

    /// A handle for one thread.
    #[must_use]
    pub fn handle(&self) -> EnvoyHandle<C> {
        let current = self.inner.current();
        let number = self.inner.number.load(Relaxed);
        EnvoyHandle { counted: Arc::clone(&current), inner: Arc::clone(&self.inner), number }
    }
}

impl<C> Inner<C> {
    fn reloading(&self) -> MutexGuard<'_, ()> {
        self.reload.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> MutexGuard<'_, Arc<Counted<C>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thread's access to an [`EnvoySet`].
///
/// **Cost.** A call loads one word, which stays in the thread's cache between reloads; after a
/// reload it takes a mutex once. It costs what finding its limits costs, and for each limit a check
/// of a [`Limiter`](tollgate::Limiter); if several are charged [together](EnvoyCharge::Together), a
/// peek of each before. It allocates nothing once the answer's buffers have grown.
///
/// # Examples
///
/// See [`EnvoySet`].
pub struct EnvoyHandle<C = TscClock> {
    counted: Arc<Counted<C>>,
    inner: Arc<Inner<C>>,
    /// The number of `counted`.
    number: u64,
}

impl<C: Clock> EnvoyHandle<C> {
    /// Decides a call by the configuration in force: its overall code. `answer` has one status for
    /// each descriptor then.
    ///
    /// # Errors
    ///
    /// [`EnvoyCallError`]: the call means nothing. Nothing is counted then.
    pub fn decide<D: EnvoyDescriptor>(
        &mut self,
        domain: &str,
        descriptors: &[D],
        hits_addend: u32,
        answer: &mut EnvoyAnswer,
    ) -> Result<EnvoyCode, EnvoyCallError> {
        self.refresh();
        self.counted.decide((domain, descriptors, hits_addend), self.inner.charge, answer)
    }

    /// The configuration by which the last call was decided.
    #[must_use]
    pub fn config(&self) -> &EnvoyConfig {
        &self.counted.config
    }

    /// The hits that a limit of this [`config`](Self::config) has had. Those of calls that bring
    /// their own limit are not among them.
    ///
    /// # Panics
    ///
    /// If there is no limit of this number.
    #[must_use]
    pub fn hits(&self, limit: usize) -> EnvoyHits {
        self.counted.limits[limit].hits.hits()
    }

    /// Takes the configuration in force.
    fn refresh(&mut self) {
        if self.inner.number.load(Relaxed) != self.number {
            self.fetch();
        }
    }

    #[cold]
    #[inline(never)]
    fn fetch(&mut self) {
        let current = self.inner.current();
        self.counted = Arc::clone(&current);
        self.number = self.inner.number.load(Relaxed);
    }
}

impl<C> Clone for EnvoySet<C> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<C> Clone for EnvoyHandle<C> {
    fn clone(&self) -> Self {
        Self { counted: Arc::clone(&self.counted), inner: Arc::clone(&self.inner), number: self.number }
    }
}

impl<C> fmt::Debug for EnvoySet<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.inner.current().limits.len();
        f.debug_struct("EnvoySet").field("limits", &limits).finish_non_exhaustive()
    }
}

impl<C> fmt::Debug for EnvoyHandle<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvoyHandle").field("number", &self.number).finish_non_exhaustive()
    }
}
