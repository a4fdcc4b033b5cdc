//! The fixed window and the token bucket whose intervals begin with a key's first request.
//!
//! A *window* begins when a key without one is admitted, and ends one period later. A *bucket* gets
//! `refill` tokens at the end of each period since the request that found it full:
//!
//! ```text
//!   debt  5 5 5 5 3 3 3 3 1 1 1 1 0        refill 2
//!         |-------|-------|-------|
//!       charge                   end       the last payment: 1
//! ```
//!
//! The state is the end of the debt and the last payment; all payments before it are of `refill`. A
//! window has one payment. Time is counted in ticks: a request comes at the start of its tick. With
//! ticks longer than a nanosecond a period is rounded up to ticks, and one more, so that none is
//! too short.
//!
//! # What a bucket gives back
//!
//! Payments are for the oldest units first. `used(s, t)` is the debt of state `s` at time t, and c
//! the cost. A key is *marked* as in [`crate::refund`]:
//!
//! ```text
//!   not marked   back = min(c, used(charged, now))
//!   marked       back = c - refill * payments in (at, now]
//!                back = 0                        from the end of `charged` on
//! ```

use crate::CountPolicy;
use crate::rule::{Charge, Rule, clamp};

pub(crate) struct FirstHit {
    limit: u64,
    /// `None`: the window's end pays everything.
    refill: Option<u64>,
    period: u128,
    tick: u64,
    count: CountPolicy,
    ceiling: u64,
    /// The debt of every bucket at the clock's zero.
    initial: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    end: u128,
    /// The last payment.
    last: u64,
    /// The latest time of a refund out of order.
    mark: Option<u128>,
}

impl FirstHit {
    pub(crate) fn window(limit: u64, window_ns: u64, tick_ns: u64, count: CountPolicy, ceiling: u64) -> Self {
        assert!(ceiling >= limit, "a ceiling below the limit cannot enforce it");
        Self { count, ceiling, ..Self::new(limit, None, window_ns, tick_ns) }
    }

    pub(crate) fn bucket(count: u64, period_ns: u64, burst: u64, initial: u64, tick_ns: u64) -> Self {
        assert!(count > 0, "a rate of zero refills nothing");
        Self { initial: burst.saturating_sub(initial), ..Self::new(burst, Some(count), period_ns, tick_ns) }
    }

    fn new(limit: u64, refill: Option<u64>, period_ns: u64, tick: u64) -> Self {
        assert!(period_ns > 0 && tick > 0, "time must pass");
        let ticks = period_ns.div_ceil(tick) + u64::from(tick > 1);
        let period = u128::from(ticks) * u128::from(tick);
        Self { limit, refill, period, tick, count: CountPolicy::Allowed, ceiling: limit, initial: 0 }
    }

    /// The start of the tick.
    fn start(&self, now: u64) -> u128 {
        (now - now % self.tick).into()
    }

    /// How many payments of `refill` are to come before the last.
    fn before(&self, owed: &Owed, now: u128) -> u64 {
        match self.refill {
            None => 0,
            Some(_) => clamp((owed.end - now).div_ceil(self.period) - 1),
        }
    }

    fn used(&self, owed: &Owed, now: u128) -> u64 {
        if now >= owed.end || owed.last == 0 {
            return 0;
        }
        self.before(owed, now).saturating_mul(self.refill.unwrap_or(0)).saturating_add(owed.last)
    }

    /// The next payment.
    fn next(&self, owed: &Owed, now: u128) -> u128 {
        if self.used(owed, now) == 0 {
            return now.max(owed.end.saturating_sub(self.period)) + self.period;
        }
        owed.end - u128::from(self.before(owed, now)) * self.period
    }

    /// `used` units of debt from `now` on.
    fn owing(&self, owed: &Owed, now: u128, used: u64) -> Owed {
        let next = self.next(owed, now);
        let before = match self.refill {
            Some(refill) if used > 0 => (used - 1) / refill,
            _ => 0,
        };
        let last = used - before * self.refill.unwrap_or(0);
        Owed { end: next + u128::from(before) * self.period, last, ..*owed }
    }
}

impl Rule for FirstHit {
    type State = Owed;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn unseen(&self) -> Owed {
        self.owing(&Owed { end: 0, last: 0, mark: None }, 0, self.initial)
    }

    fn admitted(&self, owed: &Owed, now: u64, cost: u64) -> Option<Owed> {
        let now = self.start(now);
        let used = self.used(owed, now).checked_add(cost).filter(|&used| used <= self.limit)?;
        Some(self.owing(owed, now, used))
    }

    fn refused(&self, owed: &Owed, now: u64, cost: u64) -> Owed {
        let now = self.start(now);
        match self.count {
            CountPolicy::Allowed => *owed,
            CountPolicy::All => {
                self.owing(owed, now, self.used(owed, now).saturating_add(cost).min(self.ceiling))
            }
        }
    }

    fn remaining(&self, owed: &Owed, now: u64) -> u64 {
        self.limit.saturating_sub(self.used(owed, self.start(now)))
    }

    /// Until the payments have made room.
    fn retry_after(&self, owed: &Owed, now: u64, cost: u64) -> u64 {
        let start = self.start(now);
        let over = self.used(owed, start).saturating_add(cost).saturating_sub(self.limit);
        let payments = self.refill.map_or(1, |refill| over.div_ceil(refill));
        let room = self.next(owed, start) + u128::from(payments.saturating_sub(1)) * self.period;
        clamp(room.saturating_sub(now.into()))
    }

    fn reset_after(&self, owed: &Owed, now: u64) -> u64 {
        if self.used(owed, self.start(now)) == 0 { 0 } else { clamp(owed.end - u128::from(now)) }
    }

    fn refunded(&self, owed: &Owed, charge: &Charge<'_, Owed>, now: u64) -> (Owed, u64) {
        let (at, now) = (self.start(charge.at), self.start(now));
        let (used, unseen) = (self.used(owed, now), self.used(&self.unseen(), now));
        let is_marked = owed.mark >= Some(at);
        let charged = charge.after;
        let back = match self.refill {
            None if owed.end == charged.end => charge.cost,
            None => 0,
            Some(_) if !is_marked => charge.cost.min(self.used(charged, now)),
            Some(_) if now >= charged.end => 0,
            Some(refill) => {
                let payments = self.before(charged, at) - self.before(charged, now);
                charge.cost.saturating_sub(payments.saturating_mul(refill))
            }
        };
        let back = back.min(used.saturating_sub(unseen));
        let is_newest = !is_marked && (owed.end, owed.last) == (charged.end, charged.last);
        let mark = if self.refill.is_none() || is_newest { owed.mark } else { owed.mark.max(Some(now)) };
        let next = if back == 0 { *owed } else { self.owing(owed, now, used - back) };
        (Owed { mark, ..next }, back)
    }

    fn credited(&self, owed: &Owed, unseen: &Owed, now: u64, units: u64) -> (Owed, u64) {
        let now = self.start(now);
        let used = self.used(owed, now);
        let back = units.min(used.saturating_sub(self.used(unseen, now)));
        if back == 0 {
            return (*owed, 0);
        }
        let mark = if self.refill.is_none() { owed.mark } else { owed.mark.max(Some(now)) };
        (Owed { mark, ..self.owing(owed, now, used - back) }, back)
    }

    fn debited(&self, owed: &Owed, now: u64, cost: u64) -> Option<(Owed, u64)> {
        let now = self.start(now);
        let used = self.used(owed, now);
        let units = if self.refill.is_some() { cost } else { cost.min(self.ceiling.saturating_sub(used)) };
        Some((self.owing(owed, now, used.saturating_add(units)), units))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Algorithm, CountPolicy, Model};

    fn window(count: CountPolicy) -> Model {
        Model::new(Algorithm::FirstHitWindow { limit: 3, window_ns: 10, tick_ns: 1, count, ceiling: 5 })
    }

    fn bucket(count: u64, burst: u64, initial: u64) -> Model {
        Model::new(Algorithm::FirstHitBucket { count, period_ns: 10, burst, initial, tick_ns: 1 })
    }

    #[test]
    fn a_window_begins_with_the_first_admitted_request() {
        let mut model = window(CountPolicy::Allowed);
        assert!(model.check("k", 7, 2).allowed);
        assert!(model.check("k", 16, 1).allowed);
        assert_eq!(model.check("k", 16, 1).retry_after_ns, Some(1));
        assert!(model.check("k", 17, 3).allowed); // twice the limit within two nanoseconds
        assert_eq!(model.check("k", 17, 3).retry_after_ns, Some(10));
        assert!(model.check("k", 99, 1).allowed);
        assert_eq!(model.peek("k", 100, 0).reset_after_ns, 9);
    }

    #[test]
    fn a_counted_refusal_ends_with_the_window() {
        let mut model = window(CountPolicy::All);
        assert!(model.check("k", 0, 2).allowed);
        assert!(!model.check("k", 1, 3).allowed);
        assert!(!model.check("k", 9, 1).allowed);
        assert!(model.check("k", 10, 3).allowed);
    }

    #[test]
    fn a_bucket_refills_at_its_own_ticks_and_carries_over() {
        let mut model = bucket(2, 6, 6);
        assert!(model.check("k", 3, 5).allowed);
        assert_eq!([12, 13, 22, 23, 33].map(|t| model.peek("k", t, 0).remaining), [1, 3, 3, 5, 6]);
        assert_eq!(model.check("k", 12, 2).retry_after_ns, Some(1));
        assert_eq!(model.check("k", 12, 6).retry_after_ns, Some(21));
        assert!(model.check("k", 14, 2).allowed); // one is left
        assert_eq!([22, 23, 33, 43].map(|t| model.peek("k", t, 0).remaining), [1, 3, 5, 6]);
        assert!(model.check("k", 50, 1).allowed); // it was full: the intervals begin anew
        assert_eq!(model.peek("k", 50, 0).reset_after_ns, 10);
    }

    #[test]
    fn a_bucket_that_starts_empty_has_its_intervals_from_zero() {
        let mut model = bucket(2, 4, 1);
        assert_eq!([0, 9, 10, 19, 20].map(|t| model.peek("k", t, 0).remaining), [1, 1, 3, 3, 4]);
        assert!(model.check("k", 5, 1).allowed);
        assert_eq!([9, 10, 20].map(|t| model.peek("k", t, 0).remaining), [0, 2, 4]);
    }

    #[test]
    fn a_tick_makes_no_interval_shorter() {
        let mut model = Model::new(Algorithm::FirstHitBucket {
            count: 1,
            period_ns: 100,
            burst: 2,
            initial: 2,
            tick_ns: 8,
        });
        assert!(model.check("k", 15, 2).allowed); // in the tick that began at 8; 14 ticks a period
        assert_eq!([119, 120, 231, 232].map(|t| model.peek("k", t, 0).remaining), [0, 1, 1, 2]);
    }

    #[test]
    fn a_refund_gives_back_what_the_payments_have_not() {
        let mut model = bucket(2, 6, 6);
        let first = model.admit("k", 0, 3).1.unwrap();
        let second = model.admit("k", 5, 3).1.unwrap();
        assert_eq!(model.refund(first, 10), 1);
        assert_eq!(model.peek("k", 10, 0).remaining, 3);
        // Alone it would have one unit in debt. It has three.
        assert_eq!(model.refund(second, 10), 1);
        let mut model = bucket(2, 6, 6);
        let _first = model.admit("k", 0, 3).1.unwrap();
        let second = model.admit("k", 5, 3).1.unwrap();
        assert_eq!(model.refund(second, 20), 2);
        assert_eq!(model.peek("k", 20, 0).remaining, 6);
    }
}
