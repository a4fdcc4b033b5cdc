//! The reference model as a subject.

use tollgate_model::{Algorithm, Answer, Count, Model};

use crate::subject::{Limit, Seen, Subject};

/// The exact model of `limit`.
pub(crate) fn build(limit: Limit) -> Box<dyn Subject> {
    Box::new(Model::new(algorithm(limit)))
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
            Algorithm::FixedWindow { limit, window_ns, origin_ns, count: Count::All, ceiling }
        }
        Limit::SlidingWindow { limit, window: window_ns } => {
            let count = Count::Allowed;
            Algorithm::SlidingWindow { limit, window_ns, origin_ns, count, ceiling, granule }
        }
    }
}

impl Subject for Model {
    fn check(&mut self, key: &str, at: u64, cost: u64) -> Seen {
        seen(Model::check(self, key, at, cost))
    }

    fn peek(&self, key: &str, at: u64, cost: u64) -> Seen {
        seen(Model::peek(self, key, at, cost))
    }

    fn reset(&mut self, key: &str) {
        Model::reset(self, key);
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
