//! Charging a request now that acts later.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::clock::Clock;
use crate::core::{Answer, Asked, Core, Limits, Patient, Turn};
use crate::decision::Outcome;
use crate::time::{Timestamp, nanos};
use crate::timer::Timer;

/// A turn of a key: what it takes is charged already, and the request may act at its departure.
///
/// Reservations of one key depart in the order in which they were made, spaced by the rate. A
/// reservation that is kept needs nothing more: act at [`departure`](Self::departure), or let
/// [`wait`](Self::wait) or [`ready`](Self::ready) tell when. Dropped, it stays charged;
/// [`cancel`](Self::cancel) gives it back.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, Rate, TokenBucket};
///
/// let quota = TokenBucket::new(Rate::per_second(10)).burst(1);
/// let limiter = Limiter::<str>::builder(quota).clock(ManualClock::new()).build()?;
/// let (alice, patience) = (limiter.prepare("alice"), Duration::from_millis(150));
/// let first = alice.reserve(1, patience)?;
/// let second = alice.reserve(1, patience)?;
/// assert_eq!(first.delay(), Duration::ZERO);
/// assert_eq!(second.delay(), Duration::from_millis(100));
/// assert!(alice.reserve(1, patience).is_err()); // 200 ms: nothing is charged
/// second.cancel();
/// assert!(alice.reserve(1, patience).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a reservation is charged whether or not the request acts"]
pub struct Reservation<'l, L: Limits, C> {
    core: &'l Core<L, C>,
    decision: L::Decision<'l>,
    delay: u64,
    departure: Timestamp,
}

impl<L: Limits, C: Clock> Core<L, C> {
    /// Charges a request that may act later, and tells the observer.
    pub(crate) fn reserve<'l>(
        &'l self,
        asked: Asked<'l, L>,
        cost: u64,
        max_wait: Duration,
        now: Timestamp,
    ) -> Result<Reservation<'l, L, C>, ReserveError> {
        let request = Patient { cost, max_wait: nanos(max_wait), now };
        let Turn { decision, wait } = L::reserve(self, asked, request)?;
        let decision = self.observer.tell(decision);
        match decision.outcome() {
            Outcome::Allowed => {
                let departure = Timestamp::from_nanos(now.as_nanos().saturating_add(wait));
                Ok(Reservation { core: self, decision, delay: wait, departure })
            }
            Outcome::Never => Err(ReserveError::Never { cost, limit: decision.limit() }),
            Outcome::Denied => Err(ReserveError::TooLong { wait: Duration::from_nanos(wait) }),
        }
    }
}

/// Why nothing was reserved. Nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReserveError {
    /// The turn would come only after this, which is more than the caller would wait; or the queue
    /// is full.
    TooLong {
        /// How long the request would have to wait: for its turn, or until a queue that is full has
        /// room for it.
        wait: Duration,
    },
    /// The cost is above the limit: no wait will help.
    Never {
        /// The cost asked for.
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

impl<'l, L: Limits, C: Clock> Reservation<'l, L, C> {
    /// When the request may act, on the limiter's clock.
    #[must_use]
    pub fn departure(&self) -> Timestamp {
        self.departure
    }

    /// How long after the reservation was made it departs; zero when it may act at once.
    #[must_use]
    pub fn delay(&self) -> Duration {
        Duration::from_nanos(self.delay)
    }

    /// The decision behind the reservation: its limit, and the units left.
    pub fn decision(&self) -> &L::Decision<'l> {
        &self.decision
    }

    /// Gives the turn back, and what it took as far as that mints nothing: how many units, as
    /// [`Limiter::refund`](crate::Limiter::refund) counts them.
    ///
    /// Nothing comes back once a reservation that had to wait has departed. One that could depart
    /// at once is given back as any other request. Nor does what later reservations rest on come
    /// back: they keep their own departures. So the newest gives all back, and one in the
    /// middle of the line the less, the more stand behind it. A
    /// [`reset`](crate::Prepared::reset) that forgave the charge leaves nothing to come back.
    /// Several limits are given back as from the departure on.
    ///
    /// **Cost.** That of a [refund](crate::Limiter::refund); too late, one reading of the clock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Rate, TokenBucket};
    ///
    /// let quota = TokenBucket::new(Rate::per_second(10)).burst(4);
    /// let limiter = Limiter::<str>::builder(quota).clock(ManualClock::new()).build()?;
    /// let alice = limiter.prepare("alice");
    /// let _now = alice.reserve(4, Duration::MAX)?;
    /// let first = alice.reserve(3, Duration::MAX)?; // in 300 ms
    /// let _second = alice.reserve(1, Duration::MAX)?; // in 400 ms
    /// assert_eq!(first.cancel(), 2); // the third unit is what the second's departure rests on
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(self) -> u64 {
        let core = self.core;
        self.cancel_by(|| core.clock.now())
    }

    /// [`cancel`](Self::cancel) at a time that the caller already has.
    pub fn cancel_at(self, now: Timestamp) -> u64 {
        self.cancel_by(|| now)
    }

    fn cancel_by(self, time: impl Fn() -> Timestamp) -> u64 {
        // One that did not wait is a request like any other.
        if self.delay > 0 && time() >= self.departure {
            return 0;
        }
        L::give_back(self.core, &mut self.decision.into(), u64::MAX, time)
    }

    /// Blocks the thread until the departure, by [`Clock::sleep_until`](crate::Clock::sleep_until):
    /// it is woken once, by no other departure.
    ///
    /// **Cost.** A sleep of the thread; none when the departure is not ahead.
    pub fn wait(self) {
        self.core.clock.sleep_until(self.departure);
    }

    /// Completes at the departure. Dropped before, polled or not, it [cancels](Self::cancel) the
    /// reservation.
    ///
    /// **Cost.** One reading of the clock a poll; one sleep by `timer`, for the missing time, and
    /// another if that was too short. Nothing is woken before its own departure. No allocation
    /// but the timer's.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Rate, ThreadTimer, TokenBucket};
    ///
    /// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_hour(4))).build()?;
    /// let alice = limiter.prepare("alice");
    /// let _first = alice.reserve(4, Duration::ZERO)?;
    /// let turn = alice.reserve(3, Duration::MAX)?.ready(ThreadTimer); // for `.await`
    /// drop(turn); // the client has gone: its turn is the next one's
    /// assert_eq!(alice.reserve(1, Duration::MAX)?.delay().as_secs() / 60, 14);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ready<T: Timer>(self, timer: T) -> impl Future<Output = ()> {
        // Outside of the future's body, which may be dropped before it has begun.
        let mut turn = CancelOnDrop(Some(self));
        async move {
            while let Some(reservation) = &turn.0 {
                let missing = reservation.departure.saturating_since(reservation.core.clock.now());
                if missing.is_zero() {
                    turn.0 = None;
                } else {
                    timer.sleep(missing).await;
                }
            }
        }
    }
}

/// A reservation that is cancelled when it is dropped before its departure.
struct CancelOnDrop<'l, L: Limits, C: Clock>(Option<Reservation<'l, L, C>>);

impl<L: Limits, C: Clock> Drop for CancelOnDrop<'_, L, C> {
    fn drop(&mut self) {
        if let Some(reservation) = self.0.take() {
            reservation.cancel();
        }
    }
}

impl<'l, L: Limits<Decision<'l>: fmt::Debug>, C> fmt::Debug for Reservation<'l, L, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("departure", &self.departure)
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}
