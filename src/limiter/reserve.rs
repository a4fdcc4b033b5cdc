//! Taking now to act later.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::algorithm::{Algorithm, Numbers};
use crate::clock::Clock;
use crate::decision::{Decision, Outcome};
use crate::key::Key;
use crate::limiter::{Compiled, GlobalLimiter, Limiter};
use crate::observe::{Observer, OnDecision};
use crate::table::refunds::Refunds;
use crate::time::{Timestamp, nanos};
use crate::timer::Timer;

/// A place in a key's line: what it takes is charged already, and the request may act at its departure.
///
/// Reservations of one key depart in the order in which they were made, spaced by the rate. One that is kept needs
/// nothing more: act at [`departure`](Self::departure), or let [`wait`](Self::wait) or [`ready`](Self::ready) tell
/// when. Dropped, it stays taken; [`cancel`](Self::cancel) gives it back.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, Rate, TokenBucket};
///
/// let quota = TokenBucket::new(Rate::per_second(10)).burst(1);
/// let limiter = Limiter::<str>::builder(quota).clock(ManualClock::new()).build()?;
/// let patience = Duration::from_millis(150);
/// let first = limiter.reserve("alice", patience)?;
/// let second = limiter.reserve("alice", patience)?;
/// assert_eq!(first.delay(), Duration::ZERO);
/// assert_eq!(second.delay(), Duration::from_millis(100));
/// assert!(limiter.reserve("alice", patience).is_err()); // 200 ms: nothing is charged
/// second.cancel();
/// assert!(limiter.reserve("alice", patience).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a reservation is charged whether or not anybody acts on it"]
pub struct Reservation<'l, L> {
    limiter: &'l L,
    decision: Decision<'l>,
    departure: Timestamp,
    /// The limiter's resets before it was charged.
    resets: u64,
}

/// Why nothing was reserved. Nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReserveError {
    /// The turn would come only after this, which is more than the caller would wait; or the queue is full.
    TooLong {
        /// How long the request would have to wait: for its turn, or until a queue that is full has room for it.
        wait: Duration,
    },
    /// The cost is above the limit: no wait will help.
    Never {
        /// What was asked for.
        cost: u64,
        /// The most that can be admitted at once.
        limit: u64,
    },
    /// The limiter counts in windows, which cannot tell when a turn will be: only the buckets can.
    NoTurns,
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { wait } => {
                write!(f, "the request's turn would come in {wait:?}, which is too long")
            }
            Self::Never { cost, limit } => {
                write!(f, "the cost is {cost}, but must be at most {limit}: no wait will help")
            }
            Self::NoTurns => write!(
                f,
                "a window algorithm cannot tell when a turn will be: reserve and wait need a token bucket or a leaky bucket"
            ),
        }
    }
}

impl Error for ReserveError {}

/// What a reservation needs of its limiter.
pub trait Books: sealed::Sealed {
    /// The limiter's time.
    #[doc(hidden)]
    fn time(&self) -> Timestamp;

    /// Blocks until then.
    #[doc(hidden)]
    fn sleep_until(&self, when: Timestamp);

    /// How often somebody was forgiven: see `resets`.
    #[doc(hidden)]
    fn resets(&self) -> u64;

    /// Refunds `units` of the decision.
    #[doc(hidden)]
    fn give_back(&self, decision: Decision<'_>, units: u64, time: impl Fn() -> Timestamp) -> u64;
}

mod sealed {
    pub trait Sealed {}
}

impl<'l, L: Books> Reservation<'l, L> {
    fn new(limiter: &'l L, decision: Decision<'l>, resets: u64) -> Self {
        let departure = decision.now + decision.delay();
        Self { limiter, decision, departure, resets }
    }

    /// When the request may act, on the limiter's clock.
    #[must_use]
    pub fn departure(&self) -> Timestamp {
        self.departure
    }

    /// How long after the reservation was made it departs; zero when it may act at once.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.decision.delay()
    }

    /// The decision behind the reservation: its limit, and what was left.
    pub fn decision(&self) -> &Decision<'l> {
        &self.decision
    }

    /// Gives the place back, and what it took as far as that mints nothing: how many units, as
    /// [`Limiter::refund`] counts them.
    ///
    /// Nothing comes back once the reservation has departed, nor what later reservations rest on: they keep their own
    /// departures. So the newest gives all back, and one in the middle of the line the less, the more stand behind it.
    /// Do not cancel what a later [`reset`](Limiter::reset) has forgiven: it would be given back twice.
    ///
    /// **Cost.** That of a [refund](Limiter::refund); too late, one reading of the clock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Rate, TokenBucket};
    ///
    /// let quota = TokenBucket::new(Rate::per_second(10)).burst(4);
    /// let limiter = Limiter::<str>::builder(quota).clock(ManualClock::new()).build()?;
    /// let _now = limiter.reserve_n("alice", 4, Duration::MAX)?;
    /// let first = limiter.reserve_n("alice", 3, Duration::MAX)?; // in 300 ms
    /// let _second = limiter.reserve("alice", Duration::MAX)?; // in 400 ms
    /// assert_eq!(first.cancel(), 2); // the third unit is what the second's departure rests on
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(self) -> u64 {
        let limiter = self.limiter;
        self.cancel_by(|| limiter.time())
    }

    /// [`cancel`](Self::cancel) at a time that the caller already has.
    pub fn cancel_at(self, now: Timestamp) -> u64 {
        self.cancel_by(|| now)
    }

    fn cancel_by(self, time: impl Fn() -> Timestamp) -> u64 {
        if time() >= self.departure { 0 } else { self.limiter.give_back(self.decision, u64::MAX, time) }
    }

    /// Blocks the thread until the departure, by [`Clock::sleep_until`]: it is woken once, and by nobody else's departure.
    ///
    /// **Cost.** A sleep of the thread; none when the departure is not ahead.
    pub fn wait(self) {
        self.limiter.sleep_until(self.departure);
    }

    /// Completes at the departure. Dropped before, polled or not, it [cancels](Self::cancel) the reservation, unless a
    /// [`reset`](Limiter::reset), of this key or another, may have forgiven it.
    ///
    /// **Cost.** One reading of the clock a poll; one sleep by `timer`, for what is missing, and another if that was too
    /// short. Nothing is woken before its own departure. No allocation but the timer's.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Rate, ThreadTimer, TokenBucket};
    ///
    /// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_hour(4))).build()?;
    /// let _first = limiter.reserve_n("alice", 4, Duration::ZERO)?;
    /// let place = limiter.reserve_n("alice", 3, Duration::MAX)?;
    /// let turn = place.ready(ThreadTimer); // for `.await`
    /// drop(turn); // the client has gone: its place is the next one's
    /// assert_eq!(limiter.reserve("alice", Duration::MAX)?.delay().as_secs() / 60, 14);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ready<T: Timer>(self, timer: T) -> impl Future<Output = ()> {
        // Outside of the future's body, which may be dropped before it has begun.
        let mut place = Place(Some(self));
        async move {
            while let Some(reservation) = &place.0 {
                let missing = reservation.departure.saturating_since(reservation.limiter.time());
                if missing.is_zero() {
                    place.0 = None;
                } else {
                    timer.sleep(missing).await;
                }
            }
        }
    }
}

/// A reservation that is cancelled when it is dropped before its departure; unless it may have been forgiven, which its
/// owner cannot prevent.
struct Place<'l, L: Books>(Option<Reservation<'l, L>>);

impl<L: Books> Drop for Place<'_, L> {
    fn drop(&mut self) {
        if let Some(reservation) = self.0.take()
            && reservation.limiter.resets() == reservation.resets
        {
            reservation.cancel();
        }
    }
}

impl<L> fmt::Debug for Reservation<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("departure", &self.departure)
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}

impl<K: Key + ?Sized, A: Algorithm, C: Clock> sealed::Sealed for Limiter<K, A, C> {}

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Books for Limiter<K, A, C> {
    #[inline]
    fn time(&self) -> Timestamp {
        self.now()
    }

    fn sleep_until(&self, when: Timestamp) {
        self.clock.sleep_until(when);
    }

    #[inline]
    fn resets(&self) -> u64 {
        self.resets.count()
    }

    fn give_back(&self, decision: Decision<'_>, units: u64, time: impl Fn() -> Timestamp) -> u64 {
        self.refund_by(&decision, units, time)
    }
}

impl<A: Algorithm, C: Clock> sealed::Sealed for GlobalLimiter<A, C> {}

impl<A: Algorithm, C: Clock> Books for GlobalLimiter<A, C> {
    #[inline]
    fn time(&self) -> Timestamp {
        self.now()
    }

    fn sleep_until(&self, when: Timestamp) {
        self.clock.sleep_until(when);
    }

    #[inline]
    fn resets(&self) -> u64 {
        self.resets.count()
    }

    fn give_back(&self, decision: Decision<'_>, units: u64, time: impl Fn() -> Timestamp) -> u64 {
        self.refund_by(&decision, units, time)
    }
}

/// A request that may wait.
#[derive(Clone, Copy)]
struct Patient {
    cost: u64,
    max_wait: Duration,
    now: Timestamp,
}

impl Patient {
    /// The same rule for the request, which is about to be booked.
    fn rule<'r, R: Numbers>(self, by: &Compiled<R>, refunds: &Refunds) -> Result<Cow<'r, R>, ReserveError> {
        let limit = by.rule.limit();
        // Whether there are turns does not depend on the cost; one above the limit may be too much to compute with.
        let rule = by.rule.patient(self.now, nanos(self.max_wait), self.cost.min(limit));
        let rule = rule.ok_or(ReserveError::NoTurns)?;
        if self.cost <= limit {
            refunds.book();
        }
        Ok(Cow::Owned(rule))
    }
}

/// What was decided, as a reservation. The observer is told.
fn reserved<'l, L: Books>(
    limiter: &'l L,
    observer: &Observer<OnDecision>,
    decision: Decision<'l>,
    resets: u64,
) -> Result<Reservation<'l, L>, ReserveError> {
    let decision = observer.tell(decision);
    match decision.outcome() {
        Outcome::Allowed => Ok(Reservation::new(limiter, decision, resets)),
        Outcome::Never => Err(ReserveError::Never { cost: decision.cost, limit: decision.limit() }),
        Outcome::Denied => {
            let wait = decision.rule.wait(decision.payload, decision.now, decision.cost);
            Err(ReserveError::TooLong { wait: Duration::from_nanos(wait) })
        }
    }
}

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Charges a request of cost 1 that may act later, at most `max_wait` from now.
    ///
    /// **Guarantee.** What departs keeps the algorithm's promise: for a bucket, what acts in any interval of length `D`
    /// is at most `burst + rate * D`, whether it was checked or reserved; in a
    /// [queue](crate::LeakyBucket::queue), departures keep their distance and the capacity bounds who waits. Checks
    /// are refused while the line is longer than the burst. Reservations of one key never overtake each other.
    ///
    /// **Cost.** That of a check.
    ///
    /// # Errors
    ///
    /// [`ReserveError`]; nothing is charged then.
    pub fn reserve(&self, key: &K, max_wait: Duration) -> Result<Reservation<'_, Self>, ReserveError> {
        self.reserve_n(key, 1, max_wait)
    }

    /// [`reserve`](Self::reserve) for a request of any cost, all or nothing.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve).
    pub fn reserve_n(
        &self,
        key: &K,
        cost: u64,
        max_wait: Duration,
    ) -> Result<Reservation<'_, Self>, ReserveError> {
        self.reserve_n_at(key, cost, max_wait, self.now())
    }

    /// [`reserve_n`](Self::reserve_n) at a time that the caller already has.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve).
    pub fn reserve_n_at(
        &self,
        key: &K,
        cost: u64,
        max_wait: Duration,
        now: Timestamp,
    ) -> Result<Reservation<'_, Self>, ReserveError> {
        let (request, resets) = (Patient { cost, max_wait, now }, self.resets.count());
        let named = self.named(key);
        let decision = self.charge_by(named, |by| request.rule(by, &self.table.refunds), cost, || now)?;
        reserved(self, &self.observer, decision, resets)
    }
}

impl<A: Algorithm, C: Clock> GlobalLimiter<A, C> {
    /// Charges a request of cost 1 that may act later: see [`Limiter::reserve`].
    ///
    /// # Errors
    ///
    /// [`ReserveError`]; nothing is charged then.
    pub fn reserve(&self, max_wait: Duration) -> Result<Reservation<'_, Self>, ReserveError> {
        self.reserve_n(1, max_wait)
    }

    /// [`reserve`](Self::reserve) for a request of any cost, all or nothing.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve).
    pub fn reserve_n(&self, cost: u64, max_wait: Duration) -> Result<Reservation<'_, Self>, ReserveError> {
        self.reserve_n_at(cost, max_wait, self.now())
    }

    /// [`reserve_n`](Self::reserve_n) at a time that the caller already has.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve).
    pub fn reserve_n_at(
        &self,
        cost: u64,
        max_wait: Duration,
        now: Timestamp,
    ) -> Result<Reservation<'_, Self>, ReserveError> {
        let (request, resets) = (Patient { cost, max_wait, now }, self.resets.count());
        let decision = self.charge_by(|by| request.rule(by, &self.refunds), cost, now)?;
        reserved(self, &self.observer, decision, resets)
    }
}
