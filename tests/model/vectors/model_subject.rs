//! The model as a subject.

use std::collections::HashMap;

use tollgate_model::{Algorithm, Answer, Booking, CountPolicy, Inherit, Model, Reservation};

use super::subject::{Limit, Seen, Subject};

/// The exact model of `limit`.
pub(crate) fn build(limit: Limit) -> Box<dyn Subject> {
    Box::new(Reference { model: Model::new(algorithm(limit)), booked: HashMap::new() })
}

fn algorithm(limit: Limit) -> Algorithm {
    let (origin_ns, ceiling, granule, grains) = (0, u64::MAX, 1, None);
    match limit {
        Limit::TokenBucket { count, period: period_ns, burst, initial } => {
            Algorithm::TokenBucket { count, period_ns, burst, initial, grains }
        }
        Limit::LeakyMeter { count, period: period_ns, capacity } => {
            Algorithm::LeakyMeter { count, period_ns, capacity, grains }
        }
        Limit::LeakyQueue { count, period: period_ns, capacity } => {
            Algorithm::LeakyQueue { count, period_ns, capacity, grains }
        }
        Limit::FixedWindowCountingAll { limit, window: window_ns } => {
            Algorithm::FixedWindow { limit, window_ns, origin_ns, count: CountPolicy::All, ceiling }
        }
        Limit::SlidingWindow { limit, window: window_ns } => {
            let count = CountPolicy::Allowed;
            Algorithm::SlidingWindow { limit, window_ns, origin_ns, count, ceiling, granule }
        }
    }
}

struct Reference {
    model: Model,
    /// The reservations with a name.
    booked: HashMap<String, Reservation>,
}

impl Subject for Reference {
    fn check(&mut self, key: &str, at: u64, cost: u64) -> Seen {
        seen(self.model.check(key, at, cost))
    }

    fn peek(&self, key: &str, at: u64, cost: u64) -> Seen {
        seen(self.model.peek(key, at, cost))
    }

    fn reset(&mut self, key: &str) {
        self.model.reset(key);
    }

    fn change(&mut self, limit: Limit, at: u64) {
        self.model.change(algorithm(limit), Inherit::AsIs, at);
    }

    fn reserve(&mut self, name: Option<&str>, key: &str, at: u64, cost: u64, max_wait: u64) -> Seen {
        let booking = self.model.reserve(key, at, cost, max_wait).expect("only buckets are reserved");
        let after = seen(self.model.peek(key, at, 0));
        match booking {
            Booking::Booked(reservation) => {
                let delay = reservation.departs_at_ns() - at;
                if let Some(name) = name {
                    self.booked.insert(name.to_owned(), reservation);
                }
                Seen { delay, ..after }
            }
            Booking::Refused { wait_ns } => Seen { allowed: false, retry_after: Some(wait_ns), ..after },
            Booking::Never => Seen { allowed: false, never: true, ..after },
        }
    }

    fn cancel(&mut self, name: &str, at: u64) {
        if let Some(reservation) = self.booked.remove(name) {
            self.model.cancel(reservation, at);
        }
    }
}

fn seen(answer: Answer) -> Seen {
    Seen {
        allowed: answer.allowed,
        never: answer.never,
        limit: answer.limit,
        remaining: answer.remaining,
        retry_after: answer.retry_after_ns,
        reset_after: answer.reset_after_ns,
        delay: answer.delay_ns,
    }
}
