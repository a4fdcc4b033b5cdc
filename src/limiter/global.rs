//! One limit for everything.

use std::fmt;
use std::io::{self, Write};

use crate::algorithm::{Algorithm, Inherit, Resolution, TokenBucket};
use crate::clock::{Clock, TscClock};
use crate::core::{Asked, Core, Global, Limits};
use crate::decision::Decision;
use crate::error::BuildError;
use crate::limiter::time_and_tier::TierOf;
use crate::limiter::{Builder, ByClock, Face, Prepared};
use crate::table::Fingerprint;
use crate::time::Timestamp;

/// One limit for everything, shared by all threads: the same algorithms and verbs as
/// [`Limiter`](crate::Limiter), without a key.
///
/// **Cost.** A few loads and one compare-exchange on one cache line when no other thread
/// interferes; a refusal writes nothing. Never blocks, never allocates.
///
/// # Examples
///
/// ```
/// use tollgate::{GlobalLimiter, Rate, TokenBucket};
///
/// let limiter = GlobalLimiter::builder(TokenBucket::new(Rate::per_second(1_000))).build()?;
/// assert!(limiter.check_n(1_000).is_allowed());
/// assert!(!limiter.check().is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct GlobalLimiter<A: Algorithm = TokenBucket, C = TscClock> {
    pub(super) core: Core<Global<A>, C>,
}

impl<A: Algorithm> GlobalLimiter<A> {
    /// Begins to describe a limiter of this quota.
    pub fn builder(quota: A) -> Builder<(), Global<A>, TscClock> {
        Builder::new(vec![quota])
    }
}

impl<A: Algorithm, C: Clock> GlobalLimiter<A, C> {
    /// Decides a request of cost 1, and charges it if it is admitted.
    #[inline]
    pub fn check(&self) -> Decision<'_> {
        self.prepare().check()
    }

    /// Decides a request of any cost, all or nothing, and charges it if it is admitted.
    ///
    /// Cost 0 is admitted and changes nothing. A cost above the limit [never](Decision::is_never)
    /// is, and changes nothing.
    #[inline]
    pub fn check_n(&self, cost: u64) -> Decision<'_> {
        self.prepare().check_n(cost)
    }

    /// What [`check`](Self::check) would answer. Changes nothing and writes nothing.
    pub fn peek(&self) -> Decision<'_> {
        self.prepare().peek()
    }

    /// The limiter at a time that the caller already has: see [`now`](Self::now). A time earlier
    /// than the latest charge counts as the time of that charge.
    #[inline]
    pub fn at(&self, now: Timestamp) -> Prepared<'_, Global<A>, C, Timestamp> {
        self.prepare().at(now)
    }

    /// The one key of the limiter, with all verbs: [`refund`](Prepared::refund),
    /// [`reserve`](Prepared::reserve), [`lease`](Prepared::lease) and others. It costs nothing.
    #[inline]
    pub fn prepare(&self) -> Prepared<'_, Global<A>, C> {
        let tier = Global::<A>::default_tier(&self.core.versions);
        Prepared { core: &self.core, asked: Asked { fingerprint: Fingerprint::ONLY, tier }, time: ByClock }
    }

    /// Makes another quota current: see [`Limiter::reconfigure`](crate::Limiter::reconfigure).
    ///
    /// # Errors
    ///
    /// As there. The old quota stays current then.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Inherit, GlobalLimiter, Rate, TokenBucket};
    ///
    /// let limiter = GlobalLimiter::builder(TokenBucket::new(Rate::per_second(500))).build()?;
    /// limiter.reconfigure(TokenBucket::new(Rate::per_second(200)), Inherit::AsIs)?;
    /// assert_eq!(limiter.prepare().peek_n(0).remaining(), 200);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn reconfigure(&self, quota: A, inherit: Inherit) -> Result<(), BuildError> {
        self.core.change_first(quota, inherit)
    }

    /// Writes down the debt, for [`Builder::restore`](crate::Builder::restore) in the next
    /// process.
    ///
    /// **Guarantee.** As [`Limiter::save`](crate::Limiter::save). There is no secret in it.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn save(&self, out: impl Write) -> io::Result<()> {
        self.core.save(out).map(|_| ())
    }

    /// The limiter's time.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.core.clock.now()
    }

    /// How finely the limiter counts.
    #[must_use]
    pub fn resolution(&self) -> Resolution {
        self.core.resolution()
    }
}

impl<A: Algorithm, C: Clock> Face<(), C> for Global<A> {
    type Limiter = GlobalLimiter<A, C>;

    fn limiter(core: Core<Self, C>, _: Option<TierOf<()>>) -> GlobalLimiter<A, C> {
        GlobalLimiter { core }
    }
}

impl<A: Algorithm, C> fmt::Debug for GlobalLimiter<A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobalLimiter").field("rules", &self.core.rules()).finish_non_exhaustive()
    }
}
