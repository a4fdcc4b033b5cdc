//! What a lease needs of its limiter, and how one is had.

use std::borrow::Cow;

use crate::algorithm::{Algorithm, Rule};
use crate::clock::Clock;
use crate::decision::Decision;
use crate::key::Key;
use crate::limiter::{Books, GlobalLimiter, Lease, Limiter, Prepared, Tier};
use crate::observe::{Observer, OnDecision};
use crate::time::Timestamp;

/// What a [`Lease`] needs of its limiter: [`Limiter`] and [`GlobalLimiter`] have it, and nobody else can.
pub trait Lender: Books {
    /// The key of a lease.
    #[doc(hidden)]
    type Pin<'l>: Copy
    where
        Self: 'l;

    /// The largest cost that can be admitted at once.
    #[doc(hidden)]
    fn limit_of(&self, pin: Self::Pin<'_>) -> u64;

    /// Decides one request.
    #[doc(hidden)]
    fn decide<'l>(&'l self, pin: Self::Pin<'l>, cost: u64, time: impl Fn() -> Timestamp) -> Decision<'l>;

    /// Takes from 1 to the limit permits ahead of their requests; a refusal is not counted. `None` in a queue.
    #[doc(hidden)]
    fn take_ahead<'l>(
        &'l self,
        pin: Self::Pin<'l>,
        permits: u64,
        time: impl Fn() -> Timestamp,
    ) -> Option<Decision<'l>>;
}

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Lender for Limiter<K, A, C> {
    type Pin<'l>
        = Prepared<'l, K, A, C>
    where
        Self: 'l;

    fn limit_of(&self, pin: Prepared<'_, K, A, C>) -> u64 {
        self.versions.renewed(pin.named.compiled).rule.limit()
    }

    fn decide<'l>(
        &'l self,
        pin: Prepared<'l, K, A, C>,
        cost: u64,
        time: impl Fn() -> Timestamp,
    ) -> Decision<'l> {
        self.charge(pin.named, cost, &time)
    }

    fn take_ahead<'l>(
        &'l self,
        pin: Prepared<'l, K, A, C>,
        permits: u64,
        time: impl Fn() -> Timestamp,
    ) -> Option<Decision<'l>> {
        let take =
            self.charge_by(pin.named, |by| by.rule.ahead().map(Cow::Owned).ok_or(()), permits, time).ok()?;
        Some(take_told(&self.observer, take))
    }
}

impl<A: Algorithm, C: Clock> Lender for GlobalLimiter<A, C> {
    type Pin<'l>
        = ()
    where
        Self: 'l;

    fn limit_of(&self, (): ()) -> u64 {
        self.versions.current().default.rule.limit()
    }

    fn decide<'l>(&'l self, (): (), cost: u64, time: impl Fn() -> Timestamp) -> Decision<'l> {
        self.check_n_at(cost, time())
    }

    fn take_ahead<'l>(&'l self, (): (), permits: u64, time: impl Fn() -> Timestamp) -> Option<Decision<'l>> {
        let take = self.charge_by(|by| by.rule.ahead().map(Cow::Owned).ok_or(()), permits, time()).ok()?;
        Some(take_told(&self.observer, take))
    }
}

/// The take, told unless it found no room: that is no request's answer.
fn take_told<'l>(observer: &Observer<OnDecision>, take: Decision<'l>) -> Decision<'l> {
    if take.is_allowed() { observer.tell(take) } else { take }
}

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Takes permits of a hot key by the many and spends them one by one: for a key that every core hits.
    ///
    /// Each thread has a [`Lease`] of its own, which says what it promises and costs. Nothing is charged before its first
    /// check.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_hour(10_000))).build()?;
    /// std::thread::scope(|scope| {
    ///     for _ in 0..2 {
    ///         scope.spawn(|| {
    ///             let mut lease = limiter.lease("everybody");
    ///             assert!((0..2_000).all(|_| lease.check().is_allowed()));
    ///         });
    ///     }
    /// });
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn lease(&self, key: &K) -> Lease<'_, Self> {
        self.prepare(key).lease()
    }
}

impl<'l, K: Key + ?Sized, A: Algorithm, C: Clock> Prepared<'l, K, A, C> {
    /// [`Limiter::lease`] of this key.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_hour(10))).build()?;
    /// let key = limiter.prepare(&7);
    /// let mut lease = key.lease().permits(4);
    /// assert!(lease.check().is_allowed());
    /// assert_eq!(key.peek().remaining(), 5); // of ten: four are taken, and a request of 1 would take one more
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn lease(&self) -> Lease<'l, Limiter<K, A, C>> {
        Lease::new(self.limiter, *self)
    }
}

impl<'l, K: Key + ?Sized, A: Algorithm, C: Clock> Tier<'l, K, A, C> {
    /// [`Limiter::lease`] under this tier's quota.
    pub fn lease(&self, key: &K) -> Lease<'l, Limiter<K, A, C>> {
        self.prepare(key).lease()
    }
}

impl<A: Algorithm, C: Clock> GlobalLimiter<A, C> {
    /// Takes permits by the many and spends them one by one: see [`Limiter::lease`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{GlobalLimiter, Rate, TokenBucket};
    ///
    /// let limiter = GlobalLimiter::builder(TokenBucket::new(Rate::per_hour(100))).build()?;
    /// let mut lease = limiter.lease();
    /// assert_eq!((0..1_000).filter(|_| lease.check().is_allowed()).count(), 100);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn lease(&self) -> Lease<'_, Self> {
        Lease::new(self, ())
    }
}
