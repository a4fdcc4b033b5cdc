//! A limiter at a given time, or under a given tier.

use std::borrow::Borrow;
use std::fmt;

use crate::clock::Clock;
use crate::core::{Asked, Core, Limits};
use crate::key::Key;
use crate::limiter::time_and_tier::{ByClock, TierOf, Time};
use crate::limiter::{Batch, Prepared};
use crate::table::Fingerprint;
use crate::time::Timestamp;

/// A [`Limiter`](crate::Limiter) or [`MultiLimiter`](crate::MultiLimiter) at a time that the caller
/// has ([`at`](crate::Limiter::at)), under one of its tiers ([`tier`](crate::Limiter::tier)), or
/// both.
///
/// A few words, `Copy`. It decides as the limiter does, from the same state.
///
/// **Cost.** As the limiter's. At a given time no clock is read.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, Rate, TokenBucket};
///
/// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_second(1)))
///     .tier(TokenBucket::new(Rate::per_second(10)))
///     .build()?;
/// let now = limiter.now();
/// assert!(limiter.at(now).check("alice").is_allowed());
/// assert!(!limiter.at(now).check("alice").is_allowed());
/// assert!(limiter.at(now + Duration::from_secs(1)).check("alice").is_allowed());
///
/// let paid = limiter.tier(1).expect("there are two tiers");
/// assert_eq!(paid.at(now).check("bob").remaining(), 9);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a view decides when it is checked"]
pub struct View<'l, K: ?Sized, L: Limits, C, T = ByClock> {
    pub(super) core: &'l Core<L, C>,
    pub(super) tier_of: Option<&'l TierOf<K>>,
    pub(super) tier: Option<L::Tier<'l>>,
    pub(super) time: T,
}

impl<K: ?Sized, L: Limits, C, T: Copy> Clone for View<'_, K, L, C, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized, L: Limits, C, T: Copy> Copy for View<'_, K, L, C, T> {}

impl<'l, K: Key + ?Sized, L: Limits, C: Clock, T: Time> View<'l, K, L, C, T> {
    /// Decides a request of cost 1, and charges it if it is admitted.
    #[inline(always)]
    pub fn check(&self, key: &K) -> L::Decision<'l> {
        self.check_n(key, 1)
    }

    /// Decides a request of any cost, all or nothing, and charges it if it is admitted: see
    /// [`Limiter::check_n`](crate::Limiter::check_n).
    #[inline(always)]
    pub fn check_n(&self, key: &K, cost: u64) -> L::Decision<'l> {
        let (core, time) = (self.core, self.time);
        core.check(self.asked(key), cost, move || time.now(&core.clock))
    }

    /// What [`check`](Self::check) would answer. Changes nothing and writes nothing.
    pub fn peek(&self, key: &K) -> L::Decision<'l> {
        self.peek_n(key, 1)
    }

    /// What [`check_n`](Self::check_n) would answer. Changes nothing and writes nothing.
    pub fn peek_n(&self, key: &K, cost: u64) -> L::Decision<'l> {
        self.core.peek(self.asked(key), cost, self.time.now(&self.core.clock))
    }

    /// The same view at a time that the caller has: see [`Limiter::at`](crate::Limiter::at).
    #[inline(always)]
    pub fn at(&self, now: Timestamp) -> View<'l, K, L, C, Timestamp> {
        let Self { core, tier_of, tier, .. } = *self;
        View { core, tier_of, tier, time: now }
    }

    /// Hashes the key ahead of its checks: see [`Limiter::prepare`](crate::Limiter::prepare).
    #[inline]
    pub fn prepare(&self, key: &K) -> Prepared<'l, L, C, T> {
        let asked = self.asked(key);
        self.core.prefetch(asked.fingerprint);
        Prepared { core: self.core, asked, time: self.time }
    }

    /// Checks many keys, in their order, at one time: see
    /// [`Limiter::check_many`](crate::Limiter::check_many).
    #[inline]
    pub fn check_many<I>(&self, keys: I) -> Batch<'l, K, L, C, I::IntoIter>
    where
        I: IntoIterator<Item: Borrow<K>>,
    {
        Batch::new(self.at(self.time.now(&self.core.clock)), keys.into_iter())
    }

    /// Gives back what an admitted request took: see [`Limiter::refund`](crate::Limiter::refund).
    pub fn refund(&self, charge: impl Into<L::Receipt>) -> u64 {
        self.refund_part(&mut charge.into(), u64::MAX)
    }

    /// Gives back up to `units` of what an admitted request took: see
    /// [`Limiter::refund_part`](crate::Limiter::refund_part).
    pub fn refund_part(&self, receipt: &mut L::Receipt, units: u64) -> u64 {
        let Self { core, time, .. } = *self;
        L::give_back(core, receipt, units, || time.now(&core.clock))
    }

    /// The key as the core asks for it, under its tier.
    #[inline(always)]
    pub(super) fn asked(&self, key: &K) -> Asked<'l, L> {
        // The tier first: hashed before a call that may find the tier, a key has the hasher's six
        // words loaded ahead of it, into a register each, on every check.
        let versions = &self.core.versions;
        let tier = match (self.tier, self.tier_of) {
            (Some(tier), _) => tier,
            (None, None) => L::default_tier(versions),
            (None, Some(tier_of)) => {
                L::tier(versions, tier_of(key)).unwrap_or_else(|| L::default_tier(versions))
            }
        };
        Asked { fingerprint: Fingerprint::from_bits(key.fingerprint(&self.core.hasher)), tier }
    }
}

impl<K: ?Sized, L: Limits, C: Clock, T> fmt::Debug for View<'_, K, L, C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("rules", &self.core.rules()).finish_non_exhaustive()
    }
}
