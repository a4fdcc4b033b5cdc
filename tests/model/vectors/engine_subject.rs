//! The engine as a subject, through its public API.

use std::collections::HashMap;
use std::time::Duration;

use tollgate::{
    CountPolicy, Decision, FixedWindow, Inherit, LeakyBucket, Limiter, ManualClock, Quota, Rate, Reservation,
    ReserveError, SlidingWindow, Timestamp, TokenBucket,
};

use super::subject::{Limit, Seen, Subject};

/// More keys than any scenario has.
const MAX_KEYS: usize = 64;

/// An engine with this limit. The clock stands still except for changes; every check passes its own
/// time.
pub(crate) fn build(limit: Limit) -> Box<dyn Subject> {
    let clock = ManualClock::new();
    let builder = Limiter::builder(quota(limit)).per::<str>().max_keys(MAX_KEYS).clock(clock.clone());
    match builder.build() {
        // Leaked, because reservations borrow from the limiter.
        Ok(limiter) => {
            Box::new(Engine { limiter: Box::leak(Box::new(limiter)), clock, booked: HashMap::new() })
        }
        Err(error) => panic!("the engine refuses {limit:?}: {error}"),
    }
}

fn quota(limit: Limit) -> Quota {
    let rate = |count, period| Rate::new(count, Duration::from_nanos(period));
    match limit {
        Limit::TokenBucket { count, period, burst, initial } => {
            TokenBucket::new(rate(count, period)).burst(burst).initial(initial).into()
        }
        Limit::LeakyMeter { count, period, capacity } => {
            LeakyBucket::meter(rate(count, period)).capacity(capacity).into()
        }
        Limit::LeakyQueue { count, period, capacity } => {
            LeakyBucket::queue(rate(count, period)).capacity(capacity).into()
        }
        Limit::FixedWindowCountingAll { limit, window } => {
            FixedWindow::new(rate(limit, window)).count(CountPolicy::All).into()
        }
        Limit::SlidingWindow { limit, window } => SlidingWindow::new(rate(limit, window)).into(),
    }
}

type Keyed = Limiter<str, Quota, 1, ManualClock>;

struct Engine {
    limiter: &'static Keyed,
    clock: ManualClock,
    /// The reservations with a name.
    booked: HashMap<String, Reservation<'static, Quota, 1, ManualClock>>,
}

impl Subject for Engine {
    fn check(&mut self, key: &str, at: u64, cost: u64) -> Seen {
        seen(&self.limiter.account(key).at(Timestamp::from_nanos(at)).check_n(cost))
    }

    fn peek(&self, key: &str, at: u64, cost: u64) -> Seen {
        seen(&self.limiter.account(key).at(Timestamp::from_nanos(at)).peek_n(cost))
    }

    fn reset(&mut self, key: &str) {
        self.limiter.account(key).reset();
    }

    fn change(&mut self, limit: Limit, at: u64) {
        self.clock.set(Timestamp::from_nanos(at));
        self.limiter
            .change()
            .to(quota(limit))
            .inherit(Inherit::AsIs)
            .apply()
            .expect("buckets change into buckets");
    }

    fn reserve(&mut self, name: Option<&str>, key: &str, at: u64, cost: u64, max_wait: u64) -> Seen {
        let (max_wait, now) = (Duration::from_nanos(max_wait), Timestamp::from_nanos(at));
        match self.limiter.account(key).at(now).reserve(cost, max_wait) {
            Ok(reservation) => {
                let seen = seen(reservation.decision());
                if let Some(name) = name {
                    self.booked.insert(name.to_owned(), reservation);
                }
                seen
            }
            Err(ReserveError::TooLong { wait }) => {
                Seen { allowed: false, retry_after: Some(nanos(wait)), ..self.peek(key, at, 0) }
            }
            Err(ReserveError::Never { .. }) => Seen { allowed: false, never: true, ..self.peek(key, at, 0) },
            Err(error) => panic!("only buckets are reserved: {error}"),
        }
    }

    fn cancel(&mut self, name: &str, at: u64) {
        if let Some(reservation) = self.booked.remove(name) {
            reservation.cancel_at(Timestamp::from_nanos(at));
        }
    }
}

fn seen(decision: &Decision<'_>) -> Seen {
    Seen {
        allowed: decision.is_allowed(),
        never: decision.is_never(),
        limit: decision.limit(),
        remaining: decision.remaining(),
        retry_after: decision.retry_after().map(nanos),
        reset_after: nanos(decision.reset_after()),
        delay: nanos(decision.delay()),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
