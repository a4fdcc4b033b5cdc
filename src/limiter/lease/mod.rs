//! Permits acquired in bulk and spent one at a time, by one thread.
//!
//! ```text
//!   limiter:  charge k                  charge k'      give back
//!                |                         |               |
//!   lease:       s s s s s s (k in all)    s s s ......... (ttl, or drop)
//! ```
//!
//! Every permit is charged before it is spent, so leases never spend more than the limiter has
//! charged. What a lease adds is that a permit may be spent later than it was charged, by less than
//! the ttl. That is all of the argument for its bound.

mod pace;

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use crate::algorithm::{Algorithm, Rule};
use crate::clock::Clock;
use crate::limiter::charge::Charging;
use crate::limiter::core::Core;
use crate::limiter::decision::Decision;
use crate::limiter::version::Tier;
use crate::receipt::Receipt;
use crate::table::Fingerprint;
use crate::time::{Timestamp, nanos};
use pace::Pace;

/// What a lease's ttl is unless told otherwise, in nanoseconds: long enough for a thousand checks
/// of 100 ns each and shorter than what a scheduler takes away at once, and it adds a thousandth of
/// a second's rate to the bound.
const TTL: u64 = 1_000_000;

/// One thread's permits of one key: acquired in bulk by one compare-exchange, spent one at a time
/// without any.
///
/// For a key that every core hits. There plain checks pass one cache line around, and more cores
/// get less done; leases meet only when they acquire. Each thread has its own
/// ([`Account::lease`](crate::Account::lease)); it may move to another thread, and is not shared.
///
/// **Guarantee.** Each permit is charged to the key when it is taken, so *the total never exceeds
/// the limit*, also beside other threads' checks. A permit is spent less than [`ttl`](Self::ttl)
/// after it was charged, by the limiter's clock, or not at all. So all permits spent in `[t, t +
/// W]` were charged in `(t - ttl, t + W]`: the promise that the [algorithm](crate::Algorithm) makes
/// of an interval of length `W + ttl` holds for the permits spent in one of length `W`: for a
/// bucket
///
/// ```text
///   spent in any interval of length W   <=   burst + rate * (W + ttl)
/// ```
///
/// It is also at most the sum of the permits charged in `W` and those that leases held when it
/// began; and a permit taken in one window of a window algorithm may be spent in the next. A lease
/// without permits refuses nothing that a check would admit then: when there is no room for many it
/// asks for fewer, and last for the request alone.
///
/// **What comes back.** Unspent permits are given back when the lease is dropped or
/// [released](Self::release), and at its first check after their ttl: as many as mints nothing, all
/// of them at the same time ([`refund_part`](crate::Limiter::refund_part)). A thread that keeps a
/// lease and comes back neither to check nor to drop it keeps up to its last take from the others,
/// until the algorithm has forgotten it. A [`reset`](crate::Account::reset) of any key of the
/// limiter ends all permits: none is spent after it, and none comes back.
///
/// **How many at once.** As long as [`permits`](Self::permits) does not fix it: 1 at first; twice
/// as many as the last time when those were spent within a quarter of the ttl, up to an eighth of
/// the current limit and 1,024; half as many, and no more than were spent, when the ttl ended
/// first; what there was room for when there was less; and 1 after a refusal. So a key that is used
/// now and then is charged as by plain checks, and near the limit no lease hoards.
///
/// In a [queue](crate::LeakyBucket::queue) each request has a departure of its own: there a lease
/// takes none ahead, and each of its checks is a plain one. Where refused requests count
/// ([`CountPolicy::All`](crate::CountPolicy::All)), a take that finds no room is not counted, and
/// the request that is refused in the end counts as itself.
///
/// **Cost.** Spending a permit: one reading of the limiter's clock, which the ttl is kept by, and
/// one load of a word that only a reset and a [change](crate::Limiter::change) of the quota
/// write; no atomic write, no hash. With [`CoarseClock`](crate::CoarseClock) the clock costs one
/// load.
/// Taking: a check's compare-exchange. Never blocks, never allocates.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, Rate, TokenBucket};
///
/// let quota = TokenBucket::new(Rate::per_second(100)).burst(10);
/// let limiter = Limiter::builder(quota).per::<str>().clock(ManualClock::new()).build()?;
///
/// let mut lease = limiter.account("everybody").lease().permits(4).ttl(Duration::from_micros(500));
/// assert!(lease.check().is_allowed()); // takes four, and spends one
/// assert!(lease.check().is_allowed()); // spends one
/// assert_eq!(lease.held(), 2);
/// assert_eq!(limiter.check("everybody").remaining(), 5);
///
/// drop(lease); // gives two back
/// assert_eq!(limiter.check("everybody").remaining(), 6);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a lease takes nothing before it is checked"]
pub struct Lease<'l, A: Algorithm, const N: usize, C: Clock> {
    core: &'l Core<A, N, C>,
    tier: &'l Tier<A::Rule, N>,
    fingerprint: Fingerprint,
    ttl: u64,
    pace: Pace,
    /// Permits that are charged and not spent. All were acquired at once.
    left: u64,
    /// When they were charged.
    acquired: Timestamp,
    /// The limiter's resets before they were charged: they are good while that stays the same.
    resets: u32,
    /// How many permits were last acquired; 0 when that was refused, or nothing has been spent
    /// since they were given back.
    size: u64,
    /// What gives back the permits that are left.
    receipt: Option<Receipt<N>>,
}

/// The answer of a [`Lease`] to one request.
#[derive(Debug)]
#[must_use = "an answer that is not looked at limits nothing"]
#[non_exhaustive]
pub enum Leased<'l, const N: usize = 1> {
    /// Admitted: the lease has spent permits on it.
    Permit,
    /// The limiter's own decision on this request alone: a refusal, with the time to wait, or what
    /// a plain check would have been told. Its receipt can be
    /// [refunded](crate::Limiter::refund).
    Decided(Decision<'l, N>),
}

impl<'l, const N: usize> Leased<'l, N> {
    /// Whether the request is admitted.
    #[must_use]
    #[inline]
    pub fn is_allowed(&self) -> bool {
        match self {
            Self::Permit => true,
            Self::Decided(decision) => decision.is_allowed(),
        }
    }

    /// The limiter's decision, when it was asked: always when the request is refused.
    #[must_use]
    pub fn decision(self) -> Option<Decision<'l, N>> {
        match self {
            Self::Permit => None,
            Self::Decided(decision) => Some(decision),
        }
    }
}

impl<'l, A: Algorithm, const N: usize, C: Clock> Lease<'l, A, N, C> {
    pub(super) fn new(core: &'l Core<A, N, C>, tier: &'l Tier<A::Rule, N>, fingerprint: Fingerprint) -> Self {
        Self {
            core,
            tier,
            fingerprint,
            ttl: TTL,
            pace: Pace::adaptive(),
            left: 0,
            acquired: Timestamp::ZERO,
            resets: 0,
            size: 0,
            receipt: None,
        }
    }

    /// How long after they were taken permits may be spent; 1 ms unless told otherwise. What a
    /// longer one saves, and what it adds to the bound, see [`Lease`]. With none, nothing is
    /// taken ahead.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = nanos(ttl);
        self
    }

    /// Takes this many permits at once, or as many as there is room for: at least 1, and no more
    /// than the limit.
    pub fn permits(mut self, permits: u64) -> Self {
        self.pace = Pace::fixed(permits);
        self
    }

    /// How many permits are taken and not spent. Those that are older than their ttl are counted
    /// until the next check.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.left
    }

    /// Decides a request of cost 1.
    #[inline]
    pub fn check(&mut self) -> Leased<'l, N> {
        self.check_n(1)
    }

    /// Decides a request of any cost, all or nothing: by the permits held and, when those are too
    /// few, by the limiter.
    #[inline]
    pub fn check_n(&mut self, cost: u64) -> Leased<'l, N> {
        let (core, now) = (self.core, self.core.clock.now());
        if self.spends(cost, now) { Leased::Permit } else { self.ask(cost, now, || core.clock.now()) }
    }

    /// [`check_n`](Self::check_n) at a time that the caller already has: see
    /// [`Limiter::now`](crate::Limiter::now).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{GlobalLimiter, Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::builder(TokenBucket::new(Rate::per_second(100))).per().build()?;
    /// let mut lease = limiter.account(()).lease();
    /// let now = limiter.now();
    /// assert!((0..100).all(|_| lease.check_n_at(1, now).is_allowed()));
    /// assert!(!lease.check_n_at(1, now).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check_n_at(&mut self, cost: u64, now: Timestamp) -> Leased<'l, N> {
        if self.spends(cost, now) { Leased::Permit } else { self.ask(cost, now, move || now) }
    }

    /// Gives back the permits that are not spent, as dropping the lease does: how many came back,
    /// as [`refund_part`](crate::Limiter::refund_part) counts them. For a thread that will be
    /// elsewhere for a while.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{GlobalLimiter, Limiter, ManualClock, Rate, TokenBucket};
    ///
    /// let quota = TokenBucket::new(Rate::per_second(100));
    /// let limiter = Limiter::builder(quota).clock(ManualClock::new()).build()?;
    /// let mut lease = limiter.account(()).lease().permits(10);
    /// assert!(lease.check().is_allowed());
    /// assert_eq!(lease.release(), 9);
    /// assert_eq!(limiter.check(()).remaining(), 98);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn release(&mut self) -> u64 {
        let core = self.core;
        if self.left == 0 { 0 } else { self.give_back(|| core.clock.now()) }
    }

    /// The most that all limits admit at once.
    fn limit(&self) -> u64 {
        let tier = self.core.versions.renewed(self.tier);
        tier.rules.iter().map(|rule| rule.pure.limit()).min().unwrap_or(0)
    }

    /// Spends held permits on the request, if they are enough and still good.
    #[inline]
    fn spends(&mut self, cost: u64, now: Timestamp) -> bool {
        let spends = cost <= self.left && self.is_good(now);
        if spends {
            self.left -= cost;
        }
        spends
    }

    /// Nanoseconds since permits were acquired. A clock that stepped back behind that makes them
    /// very old.
    #[inline]
    fn age(&self, now: Timestamp) -> u64 {
        now.as_nanos().wrapping_sub(self.acquired.as_nanos())
    }

    /// Whether the permits may be spent.
    #[inline]
    fn is_good(&self, now: Timestamp) -> bool {
        self.age(now) < self.ttl && self.core.versions.state().resets() == self.resets
    }

    /// Acquires permits for the request and others to come, or lets the limiter decide it alone.
    #[inline(never)]
    fn ask(&mut self, cost: u64, now: Timestamp, later: impl Fn() -> Timestamp) -> Leased<'l, N> {
        let (core, tier, fingerprint, later) = (self.core, self.tier, self.fingerprint, &later);
        // The time is `now`, which was read for this; a key that is new has it read again.
        let first = Cell::new(Some(now));
        let time = || first.take().unwrap_or_else(later);
        let limit = self.limit();
        if cost == 0 || cost > limit {
            return Leased::Decided(core.check(tier, fingerprint, cost, time));
        }
        let resets = core.versions.state().resets();
        if self.size > 0 && self.is_good(now) {
            self.pace.spent(self.age(now), self.ttl);
        } else if self.size > 0 {
            self.give_back(later);
        }
        // All permits that are left are spent on the request, so those left afterwards were
        // acquired at once.
        let need = cost - self.left;
        let most = if self.ttl > 0 { self.pace.size(limit) } else { 1 };
        let mut permits = most.max(need);
        while permits > need || self.left > 0 {
            first.set(Some(now));
            let acquired = core.charge(tier, fingerprint, permits, Some(Charging::Ahead), &time);
            let Some(acquired) = acquired else { break };
            if acquired.is_allowed() {
                return self.took(core.observer.tell(acquired), need, resets);
            }
            if permits == need {
                break;
            }
            // Half of what there is room for: other threads acquire, too.
            permits = (permits.min(acquired.remaining()) / 2).max(need);
        }
        if self.left > 0 {
            self.give_back(later);
        }
        first.set(Some(now));
        let decision = core.check(tier, fingerprint, cost, time);
        let size = if decision.is_allowed() { cost } else { 0 };
        (self.size, self.acquired, self.resets) = (size, decision.decided_at(), resets);
        self.pace.granted(self.size);
        Leased::Decided(decision)
    }

    /// Spends `need` of the permits that were `acquired` and keeps the rest.
    fn took(&mut self, acquired: Decision<'l, N>, need: u64, resets: u32) -> Leased<'l, N> {
        let size = acquired.cost();
        self.pace.granted(size);
        (self.left, self.acquired, self.resets, self.size) =
            (size - need, acquired.decided_at(), resets, size);
        self.receipt = Some(acquired.receipt());
        Leased::Permit
    }

    /// Ends the permits. Those that are left go back, if no reset has forgiven them.
    fn give_back(&mut self, time: impl Fn() -> Timestamp) -> u64 {
        let (left, size) = (std::mem::take(&mut self.left), std::mem::take(&mut self.size));
        self.pace.returned(size - left);
        match self.receipt.take() {
            // A clock that stepped back behind the charge says nothing of what has been refilled.
            Some(mut receipt) if left > 0 && time() >= self.acquired => {
                self.core.give_back(&mut receipt, left, time)
            }
            _ => 0,
        }
    }
}

/// Gives back the permits that are not spent.
impl<A: Algorithm, const N: usize, C: Clock> Drop for Lease<'_, A, N, C> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<A: Algorithm, const N: usize, C: Clock> fmt::Debug for Lease<'_, A, N, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("held", &self.left)
            .field("acquired", &self.acquired)
            .field("ttl", &Duration::from_nanos(self.ttl))
            .field("next", &self.pace.size(self.limit()))
            .finish_non_exhaustive()
    }
}
