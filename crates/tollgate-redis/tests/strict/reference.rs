//! What the model says of a key with one limit or several.
//!
//! The store differs from the model in four ways. The first three forget a state that is worth
//! nothing:
//!
//! * A bucket that is full again has forgotten its marks and reservations, as its key may be gone.
//! * A receipt from before a reset gives nothing back.
//! * The log gives back any request inside of its window; the model only the newest. So the log of
//!   the model is made again without the request.
//! * A bucket gives back by the marks of refunds: [`MarkedBucket`] says how much, in grains. So the
//!   model of a bucket counts in grains, and is made again with the debt that is left.

use std::time::Duration;

use tollgate::{Outcome, Quota};
use tollgate_model::{Algorithm, Answer, Booking, Model, Receipt};
use tollgate_redis::LimitAnswer;
use tollgate_testing::marked::{Charged, MARKS, MarkedBucket};

use crate::quotas;

const KEY: &str = "k";

/// One key of a limiter.
pub(crate) struct Reference {
    limits: Vec<One>,
}

struct One {
    algorithm: Algorithm,
    model: Model,
    /// The grains of a bucket's token. Otherwise 1.
    grains: u64,
    kind: Kind,
    /// The number of the last reset; 0 again once the store has forgotten it.
    era: u64,
    resets: u64,
    /// Whether the store has, or had, a state of the key.
    exists: bool,
    /// How many entries the log ever had.
    entries: u64,
}

enum Kind {
    Bucket {
        /// The first time at which all debts are paid, and the store has forgotten the key.
        paid: u64,
        /// Whether anything but checks happened since then.
        has_marks: bool,
        bucket: MarkedBucket,
        is_queue: bool,
    },
    Window,
    /// Times and costs of the requests that count, and a number for each.
    Log(Vec<(u64, u64, u64)>),
}

/// The charge of an admitted request.
pub(crate) struct Charge {
    cost: u64,
    parts: Vec<Part>,
}

/// What one limit was charged, and in which era.
struct Part {
    era: u64,
    taken: Taken,
}

enum Taken {
    Receipt(Receipt),
    /// From a bucket, and when a reservation departs.
    Grains(Charged, Option<u64>),
    /// The number in the log.
    Entry(u64),
}

/// What a request is told.
#[derive(Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) outcome: Outcome,
    pub(crate) cost: u64,
    pub(crate) refused_by: Option<usize>,
    pub(crate) retry_after: Option<Duration>,
    /// Outcome, limit, remaining, wait, reset and delay of each limit.
    pub(crate) limits: Vec<Numbers>,
}

type Numbers = (Outcome, u64, u64, Option<Duration>, Duration, Duration);

pub(crate) fn numbers(limit: &LimitAnswer) -> Numbers {
    (limit.outcome, limit.limit, limit.remaining, limit.retry_after, limit.reset_after, limit.delay)
}

impl Reference {
    pub(crate) fn new(quotas: &[Quota]) -> Self {
        let one = |quota: &Quota| {
            let (algorithm, grains) = quotas::algorithm(quota);
            let kind = match quota {
                Quota::TokenBucket(_) | Quota::LeakyBucket(_) => Kind::Bucket {
                    paid: 0,
                    has_marks: false,
                    bucket: MarkedBucket::new(quotas::grains(quota).0, MARKS),
                    is_queue: quota.is_queue(),
                },
                Quota::SlidingLog(_) => Kind::Log(Vec::new()),
                _ => Kind::Window,
            };
            One {
                algorithm,
                model: Model::new(algorithm),
                grains,
                kind,
                era: 0,
                resets: 0,
                exists: false,
                entries: 0,
            }
        };
        Self { limits: quotas.iter().map(one).collect() }
    }

    /// Moves on to `now`, which never goes back here, or a microsecond further: away from the time
    /// at which a bucket is full and its marks are not forgotten yet.
    pub(crate) fn move_to(&mut self, mut now: u64, refunds: bool) -> u64 {
        let is_between = |one: &One, now: u64| match one.kind {
            Kind::Bucket { paid, has_marks, .. } => (has_marks || refunds) && now + 1 == paid,
            _ => false,
        };
        while self.limits.iter().any(|one| is_between(one, now)) {
            now += 1;
        }
        for one in &mut self.limits {
            if let Kind::Bucket { paid, has_marks, bucket, .. } = &mut one.kind
                && *paid <= now
                && *paid > 0
            {
                (*paid, *has_marks, one.era) = (0, false, 0);
                bucket.forget();
                one.model.reset(KEY);
            }
        }
        now
    }

    pub(crate) fn peek(&self, now: u64, cost: u64) -> Told {
        let answers: Vec<Answer> = self.limits.iter().map(|one| one.peek(now, cost)).collect();
        let never = answers.iter().position(|answer| answer.never);
        let longest = answers.iter().filter_map(|answer| answer.retry_after_ns).max();
        let denied = answers.iter().position(|answer| !answer.allowed && answer.retry_after_ns == longest);
        let outcome = match (never, denied) {
            (Some(_), _) => Outcome::Never,
            (None, Some(_)) => Outcome::Denied,
            (None, None) => Outcome::Allowed,
        };
        let limits = answers.iter().zip(&self.limits).map(|(answer, one)| {
            // Of a refused request, a limit that would admit it stays as it is.
            let (shown, delay) = match answer.allowed && outcome != Outcome::Allowed {
                true => (one.peek(now, 0), 0),
                false => (*answer, answer.delay_ns),
            };
            let wait = answer.retry_after_ns.map(micros);
            let outcome = match answer {
                Answer { allowed: true, .. } => Outcome::Allowed,
                Answer { never: true, .. } => Outcome::Never,
                _ => Outcome::Denied,
            };
            (outcome, answer.limit, shown.remaining, wait, micros(shown.reset_after_ns), micros(delay))
        });
        Told {
            outcome,
            cost,
            refused_by: never.or(denied.filter(|_| outcome == Outcome::Denied)),
            retry_after: longest.filter(|_| outcome == Outcome::Denied).map(micros),
            limits: limits.collect(),
        }
    }

    pub(crate) fn check(&mut self, now: u64, cost: u64) -> (Told, Option<Charge>) {
        let told = self.peek(now, cost);
        let charges = told.outcome == Outcome::Allowed && cost > 0;
        let charge = charges.then(|| {
            let parts = self.limits.iter_mut().map(|one| one.charge(now, cost)).collect();
            Charge { cost, parts }
        });
        (told, charge)
    }

    pub(crate) fn take(&mut self, now: u64, most: u64) -> (Told, Option<Charge>) {
        let left = self.limits.iter().map(|one| one.peek(now, 0).remaining).min();
        self.check(now, left.unwrap_or(0).max(1).min(most))
    }

    /// The outcome, the wait or delay, and the charge.
    pub(crate) fn reserve(&mut self, now: u64, cost: u64, max_wait: u64) -> (Outcome, u64, Option<Charge>) {
        let [one] = &mut self.limits[..] else { unreachable!("only single limits") };
        match one.model.reserve(KEY, now, cost * one.grains, max_wait).expect("a bucket") {
            Booking::Never => (Outcome::Never, 0, None),
            Booking::Refused { wait_ns } => (Outcome::Denied, wait_ns, None),
            Booking::Booked(_) if cost == 0 => (Outcome::Allowed, 0, None),
            Booking::Booked(reservation) => {
                let departs = reservation.departs_at_ns();
                let taken = one.taken(now, cost, Some(departs));
                let part = Part { era: one.era, taken };
                (Outcome::Allowed, departs - now, Some(Charge { cost, parts: vec![part] }))
            }
        }
    }

    pub(crate) fn refund(&mut self, charge: Charge, now: u64) -> u64 {
        let Charge { cost, parts } = charge;
        let back = parts.into_iter().zip(&mut self.limits).map(|(part, one)| one.refund(part, cost, now));
        back.min().expect("there is a limit")
    }

    pub(crate) fn reset(&mut self, now: u64) {
        for one in &mut self.limits {
            one.model.reset(KEY);
            match &mut one.kind {
                Kind::Log(entries) => entries.clear(),
                // There is no key to mark.
                _ if !one.exists => continue,
                // The mark counts as long as the debt before.
                Kind::Bucket { paid, has_marks, bucket, .. } => {
                    (*paid, *has_marks) = ((*paid).max(now + 1), true);
                    bucket.forget();
                }
                Kind::Window => {}
            }
            one.resets += 1;
            one.era = one.resets;
        }
    }
}

impl One {
    /// The model's answer, in units.
    fn peek(&self, now: u64, cost: u64) -> Answer {
        let answer = self.model.peek(KEY, now, cost * self.grains);
        Answer { limit: answer.limit / self.grains, remaining: answer.remaining / self.grains, ..answer }
    }

    fn charge(&mut self, now: u64, cost: u64) -> Part {
        let (_, receipt) = self.model.admit(KEY, now, cost * self.grains);
        self.exists = true;
        let taken = match &mut self.kind {
            Kind::Bucket { .. } => self.taken(now, cost, None),
            Kind::Window => Taken::Receipt(receipt.expect("it was admitted")),
            Kind::Log(entries) => {
                let Algorithm::SlidingLog { window_ns, .. } = self.algorithm else { unreachable!() };
                let at = entries.last().map_or(now, |&(newest, ..)| newest.max(now));
                entries.retain(|&(logged, ..)| logged + window_ns > at);
                self.entries += 1;
                entries.push((at, cost, self.entries));
                Taken::Entry(self.entries)
            }
        };
        Part { era: self.era, taken }
    }

    /// What was charged to a bucket, whose model has it already.
    fn taken(&mut self, now: u64, cost: u64, departs: Option<u64>) -> Taken {
        self.exists = true;
        let Kind::Bucket { paid, has_marks, bucket, is_queue } = &mut self.kind else { unreachable!() };
        *paid = (*paid).max(now + self.model.peek(KEY, now, 0).reset_after_ns + 1);
        *has_marks |= departs.is_some();
        let grains = i128::from(cost * self.grains);
        let books_ahead = departs.is_some() && !*is_queue;
        let charged = if books_ahead { bucket.reserve(now, grains) } else { bucket.charge(now, grains) };
        Taken::Grains(charged, departs)
    }

    fn refund(&mut self, part: Part, cost: u64, now: u64) -> u64 {
        if part.era != self.era && !matches!(self.kind, Kind::Log(_)) {
            return 0;
        }
        match (&mut self.kind, part.taken) {
            (Kind::Log(entries), Taken::Entry(number)) => {
                let Algorithm::SlidingLog { window_ns, .. } = self.algorithm else { unreachable!() };
                let newest = entries.last().map_or(0, |&(newest, ..)| newest);
                let is_it =
                    |&(at, _, entry): &(u64, u64, u64)| entry == number && at + window_ns > now.max(newest);
                let Some(place) = entries.iter().position(is_it) else { return 0 };
                entries.remove(place);
                self.model = Model::new(self.algorithm);
                for &(at, cost, _) in &*entries {
                    assert!(self.model.check(KEY, at, cost).allowed, "there was room with one more");
                }
                cost
            }
            // A full bucket has no debt, and its key may be gone.
            (Kind::Bucket { paid: 0, .. }, _) => 0,
            (_, Taken::Grains(_, Some(departs))) if departs <= now => 0,
            (Kind::Bucket { paid, has_marks, bucket, is_queue }, Taken::Grains(mut charged, _)) => {
                let (grains, capacity) = (i128::from(cost * self.grains), self.model.peek(KEY, now, 0).limit);
                let back = match is_queue {
                    true => bucket.refund_newest(charged, now, grains),
                    false => bucket.refund(&mut charged, now, grains, capacity.into()),
                };
                self.model.reset(KEY);
                let debt = u64::try_from(bucket.debt(now)).expect("a debt of the store");
                let _ = self.model.debit(KEY, now, debt).expect("a bucket");
                let is_plain = !bucket.has_marks() && self.era == 0;
                *has_marks = !is_plain;
                // Without marks, the store forgets the key when the lowered debt is paid.
                *paid = if is_plain { now + self.model.peek(KEY, now, 0).reset_after_ns + 1 } else { *paid };
                u64::try_from(back).expect("no less than nothing").div_ceil(self.grains)
            }
            (Kind::Window, Taken::Receipt(receipt)) => self.model.refund(receipt, now),
            _ => unreachable!("each kind has its own"),
        }
    }
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}
