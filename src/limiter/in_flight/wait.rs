//! Waiting for units of a key.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use crate::algorithm::{InFlightRule, Rule};
use crate::key::Key;
use crate::limiter::in_flight::waiters::Place;
use crate::limiter::in_flight::{AcquireError, InFlight, InFlightLimiter, Keys, OwnedInFlight};
use crate::table::Fingerprint;
use crate::table::hold::{Holding, hold_or_mark, whole, whole_in};
use crate::table::ruling::Ask;
use crate::table::slot::Slot;
use crate::table::word::Word;

impl<K: ?Sized> InFlightLimiter<K> {
    /// Takes one unit of the key as soon as there is room: see [`acquire_n`](Self::acquire_n).
    ///
    /// # Errors
    ///
    /// [`AcquireError::Busy`], for want of a slot only; nothing is taken then.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::{pin::pin, task::{Context, Poll, Waker}};
    /// use tollgate::InFlightLimiter;
    ///
    /// let uploads = InFlightLimiter::builder(1).per::<str>().build()?;
    /// let first = uploads.try_acquire("alice")?;
    /// let mut second = pin!(uploads.acquire("alice")); // for `.await`
    /// # let mut context = Context::from_waker(Waker::noop());
    /// # assert!(second.as_mut().poll(&mut context).is_pending());
    /// drop(first);
    /// # let Poll::Ready(guard) = second.as_mut().poll(&mut context) else { panic!() };
    /// # assert_eq!(guard?.units(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn acquire(&self, key: impl Key<K>) -> Result<InFlight<'_>, AcquireError> {
        self.acquire_n(key, 1).await
    }

    /// Takes any number of units of the key as soon as there is room for all of them: for a request
    /// that would rather wait for others to end than be refused.
    ///
    /// It waits for as long as it takes; a timeout of the runtime around it bounds that. Dropped
    /// before it completes, it takes nothing and leaves its place to the next.
    ///
    /// **Guarantee.** As of [`try_acquire_n`](Self::try_acquire_n). Of those that wait for a key,
    /// the first is woken when something comes back, and the next when the first has got what it
    /// waits for, or gave up: no wake-up is lost. One that is woken and not polled holds up those
    /// behind it. A request that comes meanwhile is granted if there is room.
    ///
    /// **Cost.** If there is room, that of `try_acquire_n`. To wait: a lock that some of the keys
    /// share, and an entry in a map. A guard of a key that futures wait for takes that lock, too,
    /// when it gives back. No timer, no thread. Bound how many wait where requests come in.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Never`], also when the limit is [lowered](Self::set_limit) meanwhile.
    /// [`AcquireError::Busy`] only where other keys have something in flight in every slot that the
    /// key could have. Nothing is taken then.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::{pin::pin, task::{Context, Waker}};
    /// use tollgate::{AcquireError, InFlightLimiter};
    ///
    /// let limiter = InFlightLimiter::builder(10).per::<str>().build()?;
    /// let _import = limiter.try_acquire_n("alice", 8)?;
    /// let mut export = pin!(limiter.acquire_n("alice", 3)); // for `.await`
    /// # let mut context = Context::from_waker(Waker::noop());
    /// # assert!(export.as_mut().poll(&mut context).is_pending());
    /// # limiter.set_limit(2)?;
    /// # let poll = export.as_mut().poll(&mut context).map(Result::unwrap_err);
    /// # assert_eq!(poll, std::task::Poll::Ready(AcquireError::Never { units: 3, limit: 2 }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn acquire_n(&self, key: impl Key<K>, units: u64) -> Result<InFlight<'_>, AcquireError> {
        let fingerprint = self.fingerprint(key);
        let taken = self.try_take(fingerprint, units);
        if !matches!(taken, Err(AcquireError::Busy)) {
            return taken;
        }
        let place = Place::join(&self.keys.waiters, whole(&self.keys.table, fingerprint));
        poll_fn(|context| {
            // Before it looks: who gives back after that wakes it.
            place.keep(context.waker());
            self.by_current_limit(|rule| self.take_or_wait(rule, fingerprint, units))
        })
        .await
    }

    /// Takes units by this rule, or has those that hold them wake the first of the line.
    fn take_or_wait(
        &self,
        rule: InFlightRule,
        fingerprint: Fingerprint,
        units: u64,
    ) -> Poll<Result<InFlight<'_>, AcquireError>> {
        if units > rule.limit() {
            return Poll::Ready(Err(AcquireError::Never { units, limit: rule.limit() }));
        }
        let ask = Ask { rule: self.by_ref(&rule), fingerprint, cost: units };
        let awaited = |payload| InFlightRule::awaited(payload, true);
        match hold_or_mark(&self.keys.table, ask, awaited) {
            Holding::Held(slot) => Poll::Ready(Ok(InFlight { keys: &self.keys, slot: Some(slot), units })),
            Holding::Marked => Poll::Pending,
            Holding::Full => Poll::Ready(Err(AcquireError::Busy)),
        }
    }

    /// [`acquire`](Self::acquire) with a guard that borrows nothing.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Busy`], for want of a slot only; nothing is taken then.
    pub async fn acquire_owned(self: &Arc<Self>, key: impl Key<K>) -> Result<OwnedInFlight<K>, AcquireError> {
        self.acquire_n_owned(key, 1).await
    }

    /// [`acquire_n`](Self::acquire_n) with a guard that borrows nothing: for tasks.
    ///
    /// # Errors
    ///
    /// As of `acquire_n`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::task::{Context, Poll, Waker};
    /// use std::sync::Arc;
    /// use tollgate::InFlightLimiter;
    ///
    /// let limiter = Arc::new(InFlightLimiter::builder(2).per::<str>().build()?);
    /// let task = async move {
    ///     let export = limiter.acquire_n_owned("alice", 2).await?;
    ///     // ... what may be spawned, and outlives this function ...
    ///     Ok::<u64, tollgate::AcquireError>(export.units())
    /// };
    /// # let poll = std::pin::pin!(task).poll(&mut Context::from_waker(Waker::noop()));
    /// # assert_eq!(poll, Poll::Ready(Ok(2)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub async fn acquire_n_owned(
        self: &Arc<Self>,
        key: impl Key<K>,
        units: u64,
    ) -> Result<OwnedInFlight<K>, AcquireError> {
        Ok(self.own(self.acquire_n(key, units).await?))
    }
}

impl Keys {
    /// Wakes the first that waits for the key that stored this, whose slot had `left` after its
    /// units came back.
    #[cold]
    pub(super) fn wake(&self, slot: &Slot, stored: Fingerprint, left: Word) {
        let unmark = || {
            let unmarked = InFlightRule::awaited(left.payload(), false);
            // Where it fails, the word has changed: the next to give back looks again.
            slot.charge_seen(left, unmarked, stored);
        };
        self.waiters.wake_first(whole_in(&self.table, slot, stored), unmark);
    }
}
