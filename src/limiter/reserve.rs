//! Charging a request now that acts later.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::algorithm::{Algorithm, Booking, Rule};
use crate::clock::Clock;
use crate::limiter::charge::Charging;
use crate::limiter::core::Core;
use crate::limiter::decision::Decision;
use crate::limiter::version::Tier;
use crate::outcome::Outcome;
use crate::table::Fingerprint;
use crate::table::ruling::Ask;
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
/// let limiter = Limiter::builder(quota).per::<str>().clock(ManualClock::new()).build()?;
/// let (alice, patience) = (limiter.account("alice"), Duration::from_millis(150));
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
pub struct Reservation<'l, A: Algorithm, const N: usize, C> {
    core: &'l Core<A, N, C>,
    decision: Decision<'l, N>,
    delay: u64,
    departure: Timestamp,
}

impl<A: Algorithm, const N: usize, C: Clock> Core<A, N, C> {
    /// Charges a request that may act later, and tells the observer.
    pub(super) fn reserve<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        cost: u64,
        max_wait: Duration,
        now: Timestamp,
    ) -> Result<Reservation<'l, A, N, C>, ReserveError> {
        let (decision, wait) = self.reserve_turn(tier, fingerprint, cost, nanos(max_wait), now)?;
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

    /// Charges a request that may wait for its turn: the first instant at which every limit admits
    /// it. Returns how many nanoseconds that is away; if it was refused, until its turn would come.
    ///
    /// An only limit is charged as of now. A bucket by intervals may be full before the request,
    /// and then holds no more than that: charged as of now, later turns would get the lost units.
    /// So it is charged as at that instant, the departure, and so is each of several limits:
    /// charged as of now, a limit whose own turn comes sooner could be passed by requests that
    /// other limits hold back for different times, more densely than it admits.
    ///
    /// A departure is computed from a probe of each limit and then charged by plain rules. When
    /// another thread was faster, it is computed anew: some thread has then been admitted.
    fn reserve_turn<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        cost: u64,
        max_wait: u64,
        now: Timestamp,
    ) -> Result<(Decision<'l, N>, u64), ReserveError> {
        let limits = self.tables.limits();
        let waiting = Charging::Waiting { cost, max_wait, now };
        let mut refused_after = None;
        loop {
            let tier = self.versions.renewed(tier);
            if limits == 1 && !tier.decided_by[0].any.refills_by_steps() {
                let decision = self.charge(tier, fingerprint, cost, Some(waiting), &|| now);
                let decision = decision.ok_or(ReserveError::NoTurns)?;
                let wait = decision.wait_for_turn();
                return Ok((decision, wait));
            }
            let (mut wait, mut is_full) = (0, false);
            for (place, table) in self.tables.iter().enumerate() {
                let rule = tier.by_ref(place);
                if tier.decided_by[place].any.is_queue() || waiting.rule(rule.pure).is_none() {
                    return Err(ReserveError::NoTurns);
                }
                let cost = cost.min(rule.pure.limit());
                let look = table.look(Ask { rule, fingerprint, cost: 1 }, now);
                if look.has_room() {
                    wait = wait.max(rule.pure.wait(look.before, now, cost));
                } else {
                    is_full |= !look.allowed;
                }
            }
            if is_full || wait > max_wait || !tier.has_room_for(cost) {
                let decision = self.peek(tier, fingerprint, cost, now);
                if decision.is_allowed() && cost > 0 {
                    // Another thread gave something back meanwhile.
                    continue;
                }
                if decision.outcome() == Outcome::Denied {
                    self.count_full(&decision);
                }
                let wait = decision.wait_for_turn();
                return Ok((decision, wait));
            }
            let departing = Charging::Departing(now, wait);
            let Some(decision) = self.charge(tier, fingerprint, cost, Some(departing), &|| now) else {
                continue;
            };
            // The clock of a version ends: for a turn beyond that there is no departure.
            let is_without_turn = refused_after.replace(wait) == Some(wait);
            if decision.is_allowed() || is_without_turn {
                let later = nanos(decision.retry_after().unwrap_or_default());
                return Ok((decision, wait.max(later)));
            }
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

impl<'l, A: Algorithm, const N: usize, C: Clock> Reservation<'l, A, N, C> {
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
    pub fn decision(&self) -> &Decision<'l, N> {
        &self.decision
    }

    /// Gives the turn back, and what it took as far as that mints nothing: how many units, as
    /// [`Limiter::refund`](crate::Limiter::refund) counts them.
    ///
    /// Nothing comes back once a reservation that had to wait has departed. One that could depart
    /// at once is given back as any other request. Nor does what later reservations rest on come
    /// back: they keep their own departures. So the newest gives all back, and one in the
    /// middle of the line the less, the more stand behind it. A
    /// [`reset`](crate::Account::reset) that forgave the charge leaves nothing to come back.
    /// All limits of a key are given back as from the departure on, and so is a bucket
    /// [by intervals](crate::TokenBucket::by_intervals): a turn in a later interval takes the
    /// tokens left in the running one, and those do not come back.
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
    /// let limiter = Limiter::builder(quota).per::<str>().clock(ManualClock::new()).build()?;
    /// let alice = limiter.account("alice");
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
        self.core.give_back(&mut self.decision.receipt(), u64::MAX, time)
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
    /// let limiter = Limiter::builder(TokenBucket::new(Rate::per_hour(4))).per::<str>().build()?;
    /// let alice = limiter.account("alice");
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
struct CancelOnDrop<'l, A: Algorithm, const N: usize, C: Clock>(Option<Reservation<'l, A, N, C>>);

impl<A: Algorithm, const N: usize, C: Clock> Drop for CancelOnDrop<'_, A, N, C> {
    fn drop(&mut self) {
        if let Some(reservation) = self.0.take() {
            reservation.cancel();
        }
    }
}

impl<A: Algorithm, const N: usize, C> fmt::Debug for Reservation<'_, A, N, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("departure", &self.departure)
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}
