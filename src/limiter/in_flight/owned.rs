//! Units in flight that are held by a value of its own, and by no borrow.

use std::fmt;
use std::mem;
use std::sync::Arc;

use crate::key::Key;
use crate::limiter::in_flight::{AcquireError, InFlight, InFlightLimiter};
use crate::table::hold::SlotNumber;

impl<K: ?Sized> InFlightLimiter<K> {
    /// Takes one unit of the key, by a guard that borrows nothing: see
    /// [`try_acquire_n_owned`](Self::try_acquire_n_owned).
    ///
    /// # Errors
    ///
    /// [`AcquireError::Busy`]; nothing is taken then.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::InFlightLimiter;
    ///
    /// let uploads = Arc::new(InFlightLimiter::builder(1).build()?);
    /// let upload = uploads.try_acquire_owned(())?;
    /// std::thread::spawn(move || drop(upload)).join().expect("the upload does not panic");
    /// assert!(uploads.try_acquire_owned(()).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn try_acquire_owned(self: &Arc<Self>, key: impl Key<K>) -> Result<OwnedInFlight<K>, AcquireError> {
        self.try_acquire_n_owned(key, 1)
    }

    /// [`try_acquire_n`](Self::try_acquire_n) with a guard that borrows nothing: it keeps the
    /// limiter alive instead. For tasks, and for values that outlive the function that acquires.
    ///
    /// **Cost.** Besides, one atomic increment of the `Arc`, and one decrement when the guard is
    /// dropped. A refusal touches neither.
    ///
    /// # Errors
    ///
    /// [`AcquireError`]; nothing is taken then.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::InFlightLimiter;
    ///
    /// let limiter = Arc::new(InFlightLimiter::builder(2).per::<str>().build()?);
    /// let export = limiter.try_acquire_n_owned("alice", 2)?;
    /// let task = std::thread::spawn(move || drop(export));
    /// task.join().expect("the export does not panic");
    /// assert_eq!(limiter.in_flight("alice"), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn try_acquire_n_owned(
        self: &Arc<Self>,
        key: impl Key<K>,
        units: u64,
    ) -> Result<OwnedInFlight<K>, AcquireError> {
        Ok(self.own(self.try_acquire_n(key, units)?))
    }

    /// The same guard, which borrows nothing.
    pub(super) fn own(self: &Arc<Self>, borrowed: InFlight<'_>) -> OwnedInFlight<K> {
        let slot = borrowed.slot.map(|slot| SlotNumber::of(&self.keys.table, slot));
        let owned = OwnedInFlight { limiter: Arc::clone(self), slot, units: borrowed.units };
        // The owned guard gives back in its place.
        mem::forget(borrowed);
        owned
    }
}

/// An [`InFlight`] that borrows nothing: see
/// [`try_acquire_n_owned`](InFlightLimiter::try_acquire_n_owned). It keeps its limiter alive.
#[must_use = "units in flight are given back as soon as their guard is dropped"]
pub struct OwnedInFlight<K: ?Sized> {
    limiter: Arc<InFlightLimiter<K>>,
    /// The key's slot, which stays the key's while this is there. `None` when nothing was taken.
    slot: Option<SlotNumber>,
    units: u64,
}

impl<K: ?Sized> OwnedInFlight<K> {
    /// How many units are held.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.units
    }
}

impl<K: ?Sized> Drop for OwnedInFlight<K> {
    #[inline]
    fn drop(&mut self) {
        let keys = &self.limiter.keys;
        drop(InFlight { keys, slot: self.slot.map(|number| number.slot(&keys.table)), units: self.units });
    }
}

impl<K: ?Sized> fmt::Debug for OwnedInFlight<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedInFlight").field("units", &self.units).finish_non_exhaustive()
    }
}
