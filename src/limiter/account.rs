//! One key of a limiter, hashed, and every verb.
//!
//! What a check does first is to hash the key and to wait for the line of its slot. Both depend on
//! the key alone, so a server that knows the key when it begins to parse a request can have them
//! done by when it decides.
//!
//! The fingerprint is kept, never a slot index: slots change owners, and a check finds the key's
//! own, or a new one.

use std::fmt;
use std::time::Duration;

use crate::algorithm::{Algorithm, TokenBucket};
use crate::clock::{Clock, TscClock};
use crate::limiter::as_much::DebitError;
use crate::limiter::core::Core;
use crate::limiter::decision::Decision;
use crate::limiter::lease::Lease;
use crate::limiter::reserve::{Reservation, ReserveError};
use crate::limiter::settle::Settled;
use crate::limiter::time_of::{ByClock, Time};
use crate::limiter::version::Tier;
use crate::receipt::Receipt;
use crate::table::Fingerprint;
use crate::time::Timestamp;
use crate::timer::Timer;

/// One key's account with a limiter: every verb. See [`Limiter::account`](crate::Limiter::account).
///
/// A few words, `Copy`, and good for as long as the limiter: use it once, or keep it for a key that
/// comes often, which is then never hashed again.
///
/// **Guarantee.** It decides as the limiter does for the key, under its [tier](Self::tier), by the
/// [current](crate::Limiter::change) quotas, and from the same state. It holds nothing in the
/// table: an idle key is forgotten with or without it.
///
/// **Cost.** As the limiter's, without hashing.
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Rate, TokenBucket};
///
/// let limiter = Limiter::builder(TokenBucket::new(Rate::per_second(2))).per::<str>().build()?;
///
/// let alice = limiter.account("alice").prefetch(); // the client is known
/// // ... parse the request, while the processor fetches alice's slot ...
/// assert!(alice.check().is_allowed());
///
/// assert!(limiter.check("alice").is_allowed());
/// assert!(!alice.check().is_allowed(), "it is one limit");
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "an account is charged when it is checked"]
pub struct Account<'l, A: Algorithm = TokenBucket, const N: usize = 1, C = TscClock, T = ByClock> {
    pub(super) core: &'l Core<A, N, C>,
    pub(super) tier: &'l Tier<A::Rule, N>,
    pub(super) fingerprint: Fingerprint,
    pub(super) time: T,
}

impl<A: Algorithm, const N: usize, C, T: Copy> Clone for Account<'_, A, N, C, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: Algorithm, const N: usize, C, T: Copy> Copy for Account<'_, A, N, C, T> {}

impl<'l, A: Algorithm, const N: usize, C: Clock, T: Time> Account<'l, A, N, C, T> {
    /// The same account under another of the limiter's tiers: tier 0 is the builder's own quotas.
    /// `None` for a number that is no tier's.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::builder(TokenBucket::new(Rate::per_second(1)))
    ///     .tier(TokenBucket::new(Rate::per_second(10)))
    ///     .per::<u64>()
    ///     .build()?;
    /// let paid = limiter.account(7).tier(1).expect("there are two tiers");
    /// assert_eq!(paid.check().remaining(), 9);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn tier(self, number: usize) -> Option<Self> {
        Some(Self { tier: self.core.versions.first().tier(number)?, ..self })
    }

    /// Prefetches the cache lines that a check looks at first, so that a check soon after does not
    /// wait for them.
    ///
    /// **Cost.** One prefetch for each limit, which nothing waits for. No load from the table. The
    /// fetched line is the right one for about three keys in four; the others wait for another, as
    /// in any check.
    #[inline]
    pub fn prefetch(self) -> Self {
        self.core.prefetch(self.fingerprint);
        self
    }

    /// Decides a request of cost 1, and charges it if it is admitted: see
    /// [`check_n`](Self::check_n).
    #[inline(always)]
    pub fn check(&self) -> Decision<'l, N> {
        self.check_n(1)
    }

    /// Decides a request of any cost, all or nothing, and charges it if it is admitted: see
    /// [`Limiter::check_n`](crate::Limiter::check_n).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let quota = TokenBucket::new(Rate::per_second(10));
    /// let limiter = Limiter::builder(quota).per::<u64>().build()?;
    /// let key = limiter.account(&7);
    /// assert!(key.check_n(9).is_allowed() && key.check().is_allowed());
    /// assert!(!key.check().is_allowed());
    /// assert!(key.check_n(11).is_never());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn check_n(&self, cost: u64) -> Decision<'l, N> {
        let Self { core, tier, fingerprint, time } = *self;
        core.check(tier, fingerprint, cost, move || time.now(&core.clock))
    }

    /// Takes what there is, at most `most`: for requests that can do with less, such as a batch
    /// that is drained.
    ///
    /// Admitted, [`cost`](crate::Decision::cost) is the number taken, 1 to `most`, and the receipt
    /// gives that back. When nothing is there it is a refused request of cost 1: `retry_after` is
    /// the wait for one unit, and [`CountPolicy::All`](crate::CountPolicy::All) counts one. `most`
    /// may be above the limit; 0 changes nothing, as a check of cost 0.
    ///
    /// **Guarantee.** The number taken is exactly `min(most, remaining)` at the instant of the
    /// charge: one compare-exchange of the key's word. All limits are charged the same number,
    /// all or nothing: the least that a look at each of them found. Each has that many left when
    /// it is charged, and may have got more since the look. In a
    /// [queue](crate::LeakyBucket::queue) all units have one departure, as those of one check. A
    /// key that [`WhenFull::Allow`](crate::WhenFull::Allow) admits uncounted gets `most`, up to
    /// the limit.
    ///
    /// **Cost.** A check that looks for the key from the bucket's header on; a log is searched
    /// for its oldest unit, too. All limits are looked at and then checked, again whenever
    /// another request is charged in between; after 64 such turns the request asks for one unit.
    /// Lock-free.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::builder(TokenBucket::new(Rate::per_hour(10))).per::<str>().build()?;
    /// let alice = limiter.account("alice");
    /// assert_eq!(alice.check_up_to(7).cost(), 7);
    /// assert_eq!(alice.check_up_to(7).cost(), 3); // the rest
    /// assert!(!alice.check_up_to(7).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn check_up_to(&self, most: u64) -> Decision<'l, N> {
        let Self { core, tier, fingerprint, time } = *self;
        core.check_up_to(tier, fingerprint, most, || time.now(&core.clock))
    }

    /// What [`check`](Self::check) would answer. Changes nothing and writes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::builder(TokenBucket::new(Rate::per_second(1))).per::<u64>().build()?;
    /// let key = limiter.account(&7);
    /// assert!(key.peek().is_allowed());
    /// assert!(key.check().is_allowed(), "to peek charged nothing");
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn peek(&self) -> Decision<'l, N> {
        self.peek_n(1)
    }

    /// What [`check_n`](Self::check_n) would answer. Changes nothing and writes nothing.
    pub fn peek_n(&self, cost: u64) -> Decision<'l, N> {
        self.core.peek(self.tier, self.fingerprint, cost, self.time.now(&self.core.clock))
    }

    /// The same account at a time that the caller has, and no clock is read: see
    /// [`Limiter::now`](crate::Limiter::now). (A [lease](Self::lease) goes by the limiter's clock
    /// all the same, and so does a reservation that is cancelled or waited for.)
    ///
    /// A time earlier than the key's latest charge counts as the time of that charge. A caller that
    /// lags by more than it takes a key to recover may find the key forgotten, and so admit at its
    /// own late time what it would have admitted in time. Of several limits, a request that another
    /// thread's makes fail is undone by the limiter's own clock: callers whose times are ahead of
    /// it, beside others that go by it, can be admitted the tokens that drip in between.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::builder(TokenBucket::new(Rate::per_second(1))).per::<u64>().build()?;
    /// let (key, now) = (limiter.account(&7), limiter.now());
    /// assert!(key.at(now).check().is_allowed());
    /// assert!(!key.at(now).check().is_allowed());
    /// assert!(key.at(now + Duration::from_secs(1)).check().is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn at(self, now: Timestamp) -> Account<'l, A, N, C, Timestamp> {
        Account { core: self.core, tier: self.tier, fingerprint: self.fingerprint, time: now }
    }

    /// Charges a request that may act later, at most `max_wait` from now.
    ///
    /// **Guarantee.** What departs keeps the algorithm's promise: for a bucket, what acts in any
    /// interval of length `D` is at most `burst + rate * D`, whether it was checked or
    /// reserved; in a [queue](crate::LeakyBucket::queue), departures keep their distance and
    /// the capacity bounds how many wait. Checks are refused while the line is longer
    /// than the burst. Reservations of one key never overtake each other. With several limits they
    /// depart at the first instant at which all of them admit the request, and each is charged as
    /// at that instant.
    ///
    /// **Cost.** A check that looks for the key from the bucket's header on, and a copy of the
    /// rule. Of several limits, each is probed and then charged.
    ///
    /// # Errors
    ///
    /// [`ReserveError`]; nothing is charged then.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Rate, TokenBucket};
    ///
    /// let quota = TokenBucket::new(Rate::per_second(10)).burst(1);
    /// let limiter = Limiter::builder(quota).per::<str>().clock(ManualClock::new()).build()?;
    /// assert!(limiter.check("alice").is_allowed());
    /// let turn = limiter.account("alice").reserve(1, Duration::from_secs(1))?;
    /// assert_eq!(turn.delay(), Duration::from_millis(100));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&self, cost: u64, max_wait: Duration) -> Result<Reservation<'l, A, N, C>, ReserveError> {
        let Self { core, tier, fingerprint, time } = *self;
        core.reserve(tier, fingerprint, cost, max_wait, time.now(&core.clock))
    }

    /// Blocks the thread until a request may act, at most for `max_wait`.
    ///
    /// The request is [reserved](Self::reserve) first: a request that would have to wait longer
    /// than `max_wait` is refused at once.
    ///
    /// **Cost.** That of a reservation and one sleep.
    ///
    /// # Errors
    ///
    /// [`ReserveError`]; nothing is charged then, and the call did not wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let quota = TokenBucket::new(Rate::per_second(100)).burst(1);
    /// let limiter = Limiter::builder(quota).per::<str>().build()?;
    /// let (alice, begun) = (limiter.account("alice"), Instant::now());
    /// for _ in 0..3 {
    ///     alice.wait(1, Duration::MAX)?; // at once, after 10 ms, after 20 ms
    /// }
    /// assert!(begun.elapsed() >= Duration::from_millis(19));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait(&self, cost: u64, max_wait: Duration) -> Result<(), ReserveError> {
        self.reserve(cost, max_wait).map(Reservation::wait)
    }

    /// [`wait`](Self::wait) as a future, woken by the `timer` of your runtime: its turn is the next
    /// when it is first polled. Dropped before that turn, it gives it back.
    ///
    /// # Errors
    ///
    /// [`ReserveError`]; nothing is charged then.
    ///
    /// # Examples
    ///
    /// With tokio; without a runtime, [`ThreadTimer`](crate::ThreadTimer).
    ///
    /// ```
    /// # use tollgate::{Limiter, Rate, TokenBucket};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let max_wait = std::time::Duration::from_secs(1);
    /// # let limiter = Limiter::builder(TokenBucket::new(Rate::per_second(1))).build()?;
    /// limiter.account(()).ready(1, max_wait, tokio::time::sleep).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ready(self, cost: u64, max_wait: Duration, timer: impl Timer) -> Result<(), ReserveError> {
        self.reserve(cost, max_wait)?.ready(timer).await;
        Ok(())
    }

    /// Charges units late that were used already, over the limit if need be: the tokens of an
    /// answer, the bytes of a stream that has ended. It is never refused for want of tokens.
    ///
    /// A bucket is booked ahead, however far. A window counts up to its
    /// [`ceiling`](crate::Resolution::ceiling). What the key's word has no room for is not
    /// charged: [`cost`](crate::Decision::cost) of the decision says how many units were, down to
    /// 0. The receipt gives those back, as that of a [reservation](Self::reserve) does.
    ///
    /// Of several limits, each is charged as far as its word has room. `cost` is the least of
    /// these numbers, and what the receipt gives back. When the quotas
    /// [change](crate::Limiter::change) during the call, the limits that were charged before
    /// give nothing back.
    ///
    /// **Guarantee.** The limit is exceeded by debited units and by nothing else: checks are
    /// refused until time has paid for the debit. In any interval of length `D`, a bucket admits
    /// and debits at most `burst + rate * D`, and the debits in that interval. No refusal undoes a
    /// debit. The debit of a key without a slot is charged to the allowance that the new keys of
    /// its bucket share ([`WhenFull::Share`](crate::WhenFull::Share)); when other requests change
    /// the bucket meanwhile, perhaps more than once. In a [queue](crate::LeakyBucket::queue) later
    /// requests depart behind it; [`delay`](crate::Decision::delay) is when it would have departed
    /// itself.
    ///
    /// A [change](crate::Limiter::change) of a bucket's quota needs room in its words for the
    /// time until which a key is booked. A debit that takes years to pay may leave none: then
    /// the change is [`BuildError::ChangedTooOften`](crate::BuildError::ChangedTooOften).
    ///
    /// **Cost.** A check that looks for the key from the bucket's header on. All limits are
    /// looked at, and then debited. Lock-free.
    ///
    /// # Errors
    ///
    /// [`DebitError`]; nothing is charged then. (When other keys fill the key's bucket of one of
    /// several limits during the call, the others are charged, and `cost` is 0.)
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Rate, TokenBucket};
    ///
    /// let quota = TokenBucket::new(Rate::per_second(10));
    /// let limiter = Limiter::builder(quota).per::<str>().clock(ManualClock::new()).build()?;
    /// assert!(limiter.check("alice").is_allowed()); // its answer turns out to be large
    /// assert_eq!(limiter.account("alice").debit(29)?.cost(), 29);
    /// // 20 of 30 units are above the burst:
    /// assert_eq!(limiter.check("alice").retry_after(), Some(Duration::from_millis(2_100)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn debit(&self, cost: u64) -> Result<Decision<'l, N>, DebitError> {
        let Self { core, tier, fingerprint, time } = *self;
        core.debit(tier, fingerprint, cost, || time.now(&core.clock))
    }

    /// Permits of this key, acquired in bulk and spent one at a time: for a key that every core
    /// hits.
    ///
    /// Each thread has a [`Lease`] of its own, which says what it promises and costs. Nothing is
    /// charged before its first check.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let quota = TokenBucket::new(Rate::per_hour(10_000));
    /// let limiter = Limiter::builder(quota).per::<str>().build()?;
    /// let everybody = limiter.account("everybody");
    /// std::thread::scope(|scope| {
    ///     for _ in 0..2 {
    ///         scope.spawn(move || {
    ///             let mut lease = everybody.lease();
    ///             assert!((0..2_000).all(|_| lease.check().is_allowed()));
    ///         });
    ///     }
    /// });
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn lease(&self) -> Lease<'l, A, N, C> {
        Lease::new(self.core, self.tier, self.fingerprint)
    }

    /// Gives back what the receipt's request took: see [`Limiter::refund`](crate::Limiter::refund).
    pub fn refund(&self, charge: impl Into<Receipt<N>>) -> u64 {
        self.refund_part(&mut charge.into(), u64::MAX)
    }

    /// Gives back up to `units` of what an admitted request took: see
    /// [`Limiter::refund_part`](crate::Limiter::refund_part).
    pub fn refund_part<const M: usize>(&self, receipt: &mut Receipt<M>, units: u64) -> u64 {
        let Self { core, time, .. } = *self;
        core.give_back(receipt, units, || time.now(&core.clock))
    }

    /// Tells what a request of this account really cost: gives back what it was charged above that,
    /// or charges the difference, over the limit if need be. See [`Settled`](crate::Settled).
    ///
    /// # Errors
    ///
    /// [`DebitError`]: the request stays charged as it was. `Foreign`: it is another key's.
    pub fn settle(&self, charge: impl Into<Receipt<N>>, real: u64) -> Result<Settled, DebitError> {
        Settled::by(*self, charge.into(), real)
    }

    /// Gives the key up to `units` without a receipt, and says how many: an operator's gift, on top
    /// of what the limit admits.
    ///
    /// It takes units off the key's debt, those of the newest requests first, and never more than
    /// the debt is: it never fills above the limit. It gives nothing to a key that has no slot, nor
    /// to a bucket's shared allowance ([`WhenFull::Share`](crate::WhenFull::Share)), which is not
    /// one key's. And no key has more than one that was never seen: a bucket's
    /// [initial](crate::TokenBucket::initial) debt stays. Of several limits each gives what it can,
    /// and the least is returned. A unit of which only a part is given counts as one, as in a
    /// [refund](crate::Limiter::refund).
    ///
    /// A [window](crate::SlidingWindow) lowers its current count first, then those of the windows
    /// before, in whole [granules](crate::Resolution::granule). A [log](crate::SlidingLog) drops
    /// its newest entries, up to a refused request ([`CountPolicy::All`](crate::CountPolicy::All))
    /// that took the place of an admitted one. In a [queue](crate::LeakyBucket::queue), and where
    /// turns are reserved, later requests depart earlier, maybe before some that wait: those keep
    /// their departures. After a [change](crate::Limiter::change) of the quota the units are
    /// of the new quota, and the debt is what the key inherited.
    ///
    /// **Guarantee.** In any interval, admissions less refunds exceed the algorithm's bound by at
    /// most the units that credits gave; of several limits, gave each. [Receipts](crate::Receipt)
    /// and reservations from before may give back less afterwards.
    ///
    /// While a refund of the key, or of another that shares a mark with it, is overtaken by a reset
    /// and still runs in another thread, nothing is given: 0. Ask again then. It is rare.
    ///
    /// **Cost.** That of a [refund](crate::Limiter::refund); a log also reads an entry for each
    /// unit.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::builder(TokenBucket::new(Rate::per_hour(10))).per::<str>().build()?;
    /// assert!(limiter.check_n("alice", 8).is_allowed());
    /// assert_eq!(limiter.account("alice").credit(5), 5); // her support ticket was accepted
    /// assert!(limiter.check_n("alice", 7).is_allowed());
    /// assert_eq!(limiter.account("bob").credit(5), 0); // he has all of his tokens
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn credit(&self, units: u64) -> u64 {
        let Self { core, tier, fingerprint, time } = *self;
        core.credit(tier, fingerprint, units, || time.now(&core.clock))
    }

    /// Forgives the key its debt, to every limit, as if it had never been seen under its tier.
    /// `false` when it has no slot, or was never charged.
    ///
    /// A bucket's shared allowance ([`WhenFull::Share`](crate::WhenFull::Share)) is not one key's
    /// to reset. A key that inherited another's slot is forgiven what it inherited, too. A request
    /// that is decided meanwhile may be forgiven, and so is one at a time before the reset.
    ///
    /// It ends the key's [receipts](crate::Receipt), and those of the keys that share a mark with
    /// it, of which a table has 1,024; and every permit that a [lease](Lease) of the limiter holds,
    /// of this key or another. Reservations keep their departures.
    ///
    /// **Cost.** Six atomic operations for each limit when no other thread interferes. One of them
    /// writes the word that every check of the limiter loads: not a verb for every request.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::builder(TokenBucket::new(Rate::per_hour(1))).per::<str>().build()?;
    /// let receipt = limiter.check("alice").receipt();
    /// assert!(!limiter.check("alice").is_allowed());
    /// assert!(limiter.account("alice").reset());
    /// assert_eq!(limiter.refund(receipt), 0); // it is forgiven already
    /// assert!(limiter.check("alice").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn reset(&self) -> bool {
        let Self { core, tier, fingerprint, time } = *self;
        core.reset(tier, fingerprint, || time.now(&core.clock))
    }
}

/// Without the fingerprint, which tells where the limiter keeps the key.
impl<A: Algorithm, const N: usize, C: Clock, T> fmt::Debug for Account<'_, A, N, C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("rules", &self.core.rules()).finish_non_exhaustive()
    }
}
