//! The reference model with the command's limits and Unix times.
#![allow(dead_code, reason = "the example that includes this file has no peeks")]

use std::time::Duration;

use serde_json::{Value, json};
use tollgate::{CountPolicy, Limiter, ManualClock, Quota, Rate, Resolution};
use tollgate_cli::Spec;
use tollgate_model::{Algorithm, Answer, Booking, Model, Receipt, Reservation};

/// The model of one limit.
pub(crate) struct Reference {
    model: Model,
    /// Unix time of the first record, where the model's time begins.
    start_ns: u64,
}

impl Reference {
    /// The model of a limit of the command line.
    pub(crate) fn new(spec: &str, start_ns: u64) -> Self {
        let spec: Spec = spec.parse().unwrap_or_else(|error| panic!("{error}"));
        let clock = ManualClock::starting_at(Duration::from_nanos(start_ns));
        let limiter = Limiter::builder(spec.quota()).memory_budget(usize::MAX).clock(clock).build();
        let resolution = limiter.unwrap_or_else(|error| panic!("{spec}: {error}")).resolution();
        Self { model: Model::new(algorithm(spec, start_ns, resolution)), start_ns }
    }

    /// Decides and charges.
    pub(crate) fn check(&mut self, key: &str, t_ns: u64, cost: u64) -> Answer {
        self.model.check(key, t_ns - self.start_ns, cost)
    }

    /// [`check`](Self::check), with a receipt to give it back.
    pub(crate) fn admit(&mut self, key: &str, t_ns: u64, cost: u64) -> (Answer, Option<Receipt>) {
        self.model.admit(key, t_ns - self.start_ns, cost)
    }

    /// Takes what there is, at most `most`: the answer, how much was asked for, and a receipt.
    pub(crate) fn check_up_to(&mut self, key: &str, t_ns: u64, most: u64) -> (Answer, u64, Option<Receipt>) {
        self.model.check_up_to(key, t_ns - self.start_ns, most)
    }

    /// Charges over the limit; `None` for a limit that keeps no debts.
    pub(crate) fn debit(&mut self, key: &str, t_ns: u64, cost: u64) -> Option<Receipt> {
        self.model.debit(key, t_ns - self.start_ns, cost)
    }

    /// Gives on top of the limit; returns how many units were given.
    pub(crate) fn credit(&mut self, key: &str, t_ns: u64, units: u64) -> u64 {
        self.model.credit(key, t_ns - self.start_ns, units)
    }

    /// Gives back up to `units` of an admission; returns how many units came back.
    pub(crate) fn refund(&mut self, mut receipt: Receipt, units: u64, t_ns: u64) -> u64 {
        self.model.refund_part(&mut receipt, units, t_ns - self.start_ns)
    }

    /// Reserves; `None` for a limit that has no reservations.
    pub(crate) fn reserve(&mut self, key: &str, t_ns: u64, cost: u64, max_wait: u64) -> Option<Booking> {
        self.model.reserve(key, t_ns - self.start_ns, cost, max_wait).ok()
    }

    /// Gives back a reservation; returns how many units came back.
    pub(crate) fn cancel(&mut self, reservation: Reservation, t_ns: u64) -> u64 {
        self.model.cancel(reservation, t_ns - self.start_ns)
    }

    /// When a reservation departs, in Unix time.
    pub(crate) fn departure(&self, reservation: &Reservation) -> u64 {
        self.start_ns + reservation.departs_at_ns()
    }

    /// Decides without charging.
    pub(crate) fn peek(&self, key: &str, t_ns: u64, cost: u64) -> Answer {
        self.model.peek(key, t_ns - self.start_ns, cost)
    }

    /// Forgets the key.
    pub(crate) fn reset(&mut self, key: &str) {
        self.model.reset(key);
    }
}

/// The line of `--decisions` with this answer.
pub(crate) fn line(number: u64, key: &str, t_ns: u64, answer: Answer) -> Value {
    json!({
        "line": number,
        "key": key,
        "t_ns": t_ns,
        "allowed": answer.allowed,
        "limit": answer.limit,
        "remaining": answer.remaining,
        "retry_after_ns": answer.retry_after_ns,
        "reset_after_ns": answer.reset_after_ns,
        "delay_ns": answer.delay_ns,
        "never": answer.never,
    })
}

fn algorithm(spec: Spec, start_ns: u64, resolution: Resolution) -> Algorithm {
    let Resolution { grains, ceiling, granule, tick: tick_ns, .. } = resolution;
    let policy = |count| match count {
        CountPolicy::Allowed => tollgate_model::CountPolicy::Allowed,
        CountPolicy::All => tollgate_model::CountPolicy::All,
        other => panic!("there is no model of {other:?}"),
    };
    let period = |rate: Rate| u64::try_from(rate.period().as_nanos()).expect("periods are below 584 years");
    match spec {
        Spec::TokenBucket { rate, burst, initial, intervals: true } => Algorithm::IntervalBucket {
            count: rate.count(),
            period_ns: period(rate),
            origin_ns: start_ns,
            burst,
            initial,
        },
        Spec::FirstHit(first_hit) => {
            let quota = Quota::from(first_hit);
            let (rate, limit) = (quota.rate(), quota.limit());
            let (window_ns, count) = (period(rate), policy(quota.count_policy()));
            Algorithm::FirstHitWindow { limit, window_ns, tick_ns, count, ceiling }
        }
        Spec::TokenBucket { rate, burst, initial, .. } => {
            Algorithm::TokenBucket { count: rate.count(), period_ns: period(rate), burst, initial, grains }
        }
        Spec::LeakyBucket { rate, capacity, queue: false } => {
            Algorithm::LeakyMeter { count: rate.count(), period_ns: period(rate), capacity, grains }
        }
        Spec::LeakyBucket { rate, capacity, queue: true } => {
            Algorithm::LeakyQueue { count: rate.count(), period_ns: period(rate), capacity, grains }
        }
        Spec::FixedWindow { rate, count } => Algorithm::FixedWindow {
            limit: rate.count(),
            window_ns: period(rate),
            origin_ns: start_ns,
            count: policy(count),
            ceiling,
        },
        Spec::SlidingWindow { rate, subwindows: None, count } => Algorithm::SlidingWindow {
            limit: rate.count(),
            window_ns: period(rate),
            origin_ns: start_ns,
            count: policy(count),
            ceiling,
            granule,
        },
        Spec::SlidingWindow { rate, subwindows: Some(subwindows), count } => Algorithm::SubWindows {
            limit: rate.count(),
            window_ns: period(rate),
            subwindows,
            origin_ns: start_ns,
            count: policy(count),
            ceiling,
            granule,
        },
        Spec::SlidingLog { rate, count } => {
            Algorithm::SlidingLog { limit: rate.count(), window_ns: period(rate), count: policy(count) }
        }
    }
}
