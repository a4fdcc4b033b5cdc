//! A key that is named before it is checked.
//!
//! What a check does first is to name the key and to wait for the line of its slot. Both depend on the key alone, so a
//! server that knows the key when it begins to parse a request can have them done by when it decides.
//!
//! What is kept is the *name*, never the place of a slot: slots change owners, and a check finds the key's own, or a
//! new one, by its name.

use std::fmt;

use crate::algorithm::Algorithm;
use crate::clock::Clock;
use crate::decision::Decision;
use crate::key::Key;
use crate::limiter::{Compiled, Limiter, Tier};
use crate::time::Timestamp;

/// What a check has to know of a key.
pub(super) struct Named<'l, R> {
    pub(super) name: u64,
    /// The rule of its tier in the first version of the quota: the check finds the one in force.
    pub(super) compiled: &'l Compiled<R>,
}

impl<R> Clone for Named<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Named<'_, R> {}

/// One key of a [`Limiter`], ready to be checked: see [`Limiter::prepare`].
///
/// A few words, `Copy`, and good for as long as the limiter: use it once for a request whose key is known early, or
/// keep it for a key that comes often, which is then never hashed again.
///
/// **Guarantee.** It decides as the limiter does for the key, under the tier that was the key's when it was prepared,
/// by the quota that is [in force](Limiter::reconfigure), and from the same state: it makes no difference who checks, nor whether the key was [reset](Limiter::reset),
/// forgotten or moved to another slot in between. It holds nothing in the table: an idle key is forgotten with or
/// without it.
///
/// **Cost.** As the limiter's, without hashing. Preparing allocates nothing and writes nothing to the table.
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Rate, TokenBucket};
///
/// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_second(2))).build()?;
///
/// let alice = limiter.prepare("alice"); // the client is known
/// // ... parse the request, while the processor fetches alice's slot ...
/// assert!(alice.check().is_allowed());
///
/// assert!(limiter.check("alice").is_allowed());
/// assert!(!alice.check().is_allowed(), "one limit, whoever asks");
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a prepared key is charged when it is checked"]
pub struct Prepared<'l, K: ?Sized, A: Algorithm, C> {
    pub(super) limiter: &'l Limiter<K, A, C>,
    pub(super) named: Named<'l, A::Rule>,
}

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Hashes the key and asks the processor for its slot's cache line, so that a check soon after waits for neither.
    ///
    /// Changes nothing: the key is charged when the result is [checked](Prepared::check). The key itself is not needed
    /// any more.
    ///
    /// **Cost.** One hash, one look for the key's tier where there is [`tier_by`](crate::Builder::tier_by), and one
    /// prefetch, which nothing waits for. No load from the table, no allocation. The fetched line is the right one for
    /// about three keys in four; the others wait for another, as in any check.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_second(100))).build()?;
    /// let client = limiter.prepare("198.51.100.7");
    /// // ... parse the rest of the request ...
    /// assert!(client.check_n(10).is_allowed());
    /// assert_eq!(client.peek().remaining(), 89);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn prepare(&self, key: &K) -> Prepared<'_, K, A, C> {
        Prepared::new(self, self.named(key))
    }
}

impl<'l, K: Key + ?Sized, A: Algorithm, C: Clock> Tier<'l, K, A, C> {
    /// [`Limiter::prepare`] under this tier's quota.
    #[inline]
    pub fn prepare(&self, key: &K) -> Prepared<'l, K, A, C> {
        Prepared::new(self.limiter, self.named(key))
    }
}

impl<'l, K: Key + ?Sized, A: Algorithm, C: Clock> Prepared<'l, K, A, C> {
    #[inline]
    fn new(limiter: &'l Limiter<K, A, C>, named: Named<'l, A::Rule>) -> Self {
        limiter.prefetch(named.name);
        Self { limiter, named }
    }

    /// [`Limiter::check`] of this key.
    ///
    /// **Cost.** A few loads and one compare-exchange, as there; a refusal writes nothing. Nothing is hashed or
    /// allocated.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_second(1))).build()?;
    /// let key = limiter.prepare(&7);
    /// assert!(key.check().is_allowed());
    /// assert!(!key.check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check(&self) -> Decision<'l> {
        self.check_n(1)
    }

    /// [`Limiter::check_n`] of this key: a request of any cost, all or nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_second(10))).build()?;
    /// let key = limiter.prepare(&7);
    /// assert!(key.check_n(10).is_allowed());
    /// assert!(key.check_n(11).is_never());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check_n(&self, cost: u64) -> Decision<'l> {
        self.limiter.charge(self.named, cost, move || self.limiter.clock.now())
    }

    /// [`Limiter::check_at`] of this key: at a time that the caller already has, and no clock is read.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_second(1))).build()?;
    /// let (key, now) = (limiter.prepare(&7), limiter.now());
    /// assert!(key.check_at(now).is_allowed());
    /// assert!(!key.check_at(now).is_allowed());
    /// assert!(key.check_at(now + Duration::from_secs(1)).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check_at(&self, now: Timestamp) -> Decision<'l> {
        self.check_n_at(1, now)
    }

    /// [`Limiter::check_n_at`] of this key: any cost, at a time that the caller already has.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_second(10))).build()?;
    /// let (key, now) = (limiter.prepare(&7), limiter.now());
    /// assert_eq!(key.check_n_at(4, now).remaining(), 6);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check_n_at(&self, cost: u64, now: Timestamp) -> Decision<'l> {
        self.limiter.charge(self.named, cost, move || now)
    }

    /// [`Limiter::peek`] at this key: what [`check`](Self::check) would answer. Writes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_second(1))).build()?;
    /// let key = limiter.prepare(&7);
    /// assert!(key.peek().is_allowed());
    /// assert!(key.check().is_allowed(), "to peek charged nothing");
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn peek(&self) -> Decision<'l> {
        self.peek_n_at(1, self.limiter.clock.now())
    }

    /// [`Limiter::peek_n_at`] at this key: what [`check_n_at`](Self::check_n_at) would answer. Writes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_second(10))).build()?;
    /// let key = limiter.prepare(&7);
    /// assert!(key.peek_n_at(11, limiter.now()).is_never());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn peek_n_at(&self, cost: u64, now: Timestamp) -> Decision<'l> {
        self.limiter.look(self.named, cost, now)
    }
}

impl<K: ?Sized, A: Algorithm, C> Clone for Prepared<'_, K, A, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized, A: Algorithm, C> Copy for Prepared<'_, K, A, C> {}

/// Shows the rule and not the name, which tells where the limiter keeps the key.
impl<K: ?Sized, A: Algorithm, C> fmt::Debug for Prepared<'_, K, A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("rule", &self.limiter.versions.renewed(self.named.compiled).any)
            .finish_non_exhaustive()
    }
}
