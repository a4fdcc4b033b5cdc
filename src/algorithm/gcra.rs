//! The rule behind both buckets: the generic cell rate algorithm.
//!
//! The payload is the *theoretical arrival time* (TAT): the moment at which the bucket will be full again (the leaky
//! bucket's will be empty), in grains of its [`Refill`] clock. With `now` in the same grains:
//!
//! ```text
//!   base = max(TAT, now)
//!   admitted  iff  base + cost * price - now <= burst * price      then TAT = base + cost * price
//! ```
//!
//! A request that left the TAT `charged` and is given back later lowers the TAT by what it certainly still owes:
//!
//! ```text
//!   back = min(cost * price, charged - now)
//! ```
//!
//! not by all of its cost: without the request the bucket might have been full at `charged - cost * price`, and its
//! tokens since would have been lost. While somebody is booked into the future (`TAT - now > burst * price`, and in a
//! queue always), what was booked after the request rests on it: `back` is less by `TAT - charged`, as in Go's
//! x/time/rate.
//!
//! A *reservation* that may wait for `w` is a request of a bucket that is larger by what drips in `w`; it departs when
//! the bucket of the true size would admit it, at `TAT - burst * price`.
//!
//! Source: ITU-T I.371 (1996), virtual scheduling; the equivalence with the token bucket is in its annex.

use crate::algorithm::refill::Refill;
use crate::algorithm::{AnyRule, Moment, Refund, Rule, Verdict};
use crate::ring::Ring;
use crate::time::Timestamp;

/// A bucket in grains.
#[derive(Clone, Copy, Debug)]
pub struct Gcra {
    pub(crate) refill: Refill,
    /// Grains a token.
    pub(crate) price: u64,
    /// Grains in a full bucket.
    pub(crate) full: u64,
    /// Grains in half of the smallest bucket of the table.
    pub(crate) half: u64,
    /// The TAT that every bucket has at the clock's zero: above 0 when buckets do not start full.
    pub(crate) start: u64,
    /// Tokens in a full bucket.
    pub(crate) burst: u64,
    /// Whether admitted requests wait for their turn.
    pub(crate) queue: bool,
}

impl Gcra {
    fn tat(&self, payload: u64) -> u64 {
        payload.max(self.start)
    }
}

impl Rule for Gcra {
    #[inline]
    fn limit(&self) -> u64 {
        self.burst
    }

    #[inline]
    fn moment(&self, now: Timestamp) -> Moment {
        Moment { tick: self.refill.at(now.as_nanos()), elapsed: 0 }
    }

    #[inline]
    fn decide(&self, payload: u64, _: Ring<'_>, at: Moment, cost: u64) -> Verdict {
        let now = at.tick;
        // Once `start` has passed it is no later than now.
        let base = if now >= self.start { payload.max(now) } else { self.tat(payload).max(now) };
        let tat = base + cost * self.price;
        if tat - now <= self.full { Verdict::Allow(tat) } else { Verdict::Deny }
    }

    #[inline]
    fn expired(&self, payload: u64, at: Moment) -> bool {
        payload <= at.tick
    }

    fn refund(&self, payload: u64, charged: u64, at: Moment, cost: u64) -> Option<Refund> {
        let now = at.tick;
        let owed = charged.saturating_sub(now).min(cost * self.price);
        // In a queue, whoever came later leaves later; elsewhere, only who could not be served at once.
        let served = if self.queue { now } else { now + self.full };
        let booked = if payload > served { payload.saturating_sub(charged) } else { 0 };
        let back = owed.saturating_sub(booked).min(payload.saturating_sub(now));
        (back > 0).then(|| Refund { payload: payload - back, units: back.div_ceil(self.price) })
    }

    /// What is certainly still owed because of the charge is all of it but what dripped since: a bucket that is charged
    /// more loses no more than that to the moments in which without the charge it would have been full. That holds
    /// whatever others undo meanwhile, which `charged` does not know of. A queue's departures hold only what is
    /// behind them, so there the charge must be the last one.
    fn undo(&self, payload: u64, charged: u64, then: Moment, at: Moment, cost: u64) -> Option<Refund> {
        if self.queue && payload != charged {
            return None;
        }
        let dripped = at.tick.saturating_sub(then.tick);
        let owed = (cost * self.price).saturating_sub(dripped);
        let back = owed.min(payload.saturating_sub(at.tick));
        (back > 0).then(|| Refund { payload: payload - back, units: back.div_ceil(self.price) })
    }

    fn half(&self, at: Moment) -> Option<u64> {
        Some(at.tick + self.half)
    }

    fn forgive(&self, _: u64, at: Moment) -> u64 {
        at.tick
    }

    fn remaining(&self, payload: u64, _: Ring<'_>, now: Timestamp) -> u64 {
        let now = self.moment(now).tick;
        (now + self.full).saturating_sub(self.tat(payload).max(now)) / self.price
    }

    fn retry_after(&self, payload: u64, _: Ring<'_>, now: Timestamp, cost: u64) -> u64 {
        let earliest = (self.tat(payload) + cost * self.price).saturating_sub(self.full);
        self.refill.until(earliest, now.as_nanos())
    }

    fn reset_after(&self, payload: u64, _: Ring<'_>, now: Timestamp) -> u64 {
        self.refill.until(self.tat(payload), now.as_nanos())
    }

    fn delay(&self, payload: u64, now: Timestamp, cost: u64) -> u64 {
        let behind = if self.queue { cost * self.price } else { self.full };
        if cost > 0 { self.refill.until(payload.saturating_sub(behind), now.as_nanos()) } else { 0 }
    }

    fn patient(&self, now: Timestamp, max_wait: u64, cost: u64) -> Option<Self> {
        let now = now.as_nanos();
        let drips = self.refill.at(now.saturating_add(max_wait)) - self.refill.at(now);
        let full = if self.queue { self.full.min(drips + cost * self.price) } else { self.full + drips };
        Some(Self { full, ..*self })
    }

    fn wait(&self, payload: u64, now: Timestamp, cost: u64) -> u64 {
        let tat = self.tat(payload).max(self.moment(now).tick) + cost * self.price;
        self.delay(tat, now, cost).max(self.retry_after(payload, Ring::NONE, now, cost))
    }

    fn any(self) -> AnyRule {
        AnyRule::Gcra(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Algorithm, TokenBucket};
    use crate::rate::Rate;

    /// A charge that was not undone, or may yet be.
    #[derive(Clone, Copy)]
    struct Charge {
        at: u64,
        cost: u64,
        left: u64,
        undone: bool,
    }

    /// Tries every sequence of `steps`: a second passes, a request of 1 or 2, any charge undone. What is not undone
    /// never exceeds the burst and what drips.
    fn explore(rule: &Gcra, payload: u64, now: u64, charges: &mut Vec<Charge>, steps: u32) {
        let moment = |second: u64| rule.moment(Timestamp::from_nanos(second * 1_000_000_000));
        let kept = || charges.iter().filter(|charge| !charge.undone);
        for first in kept() {
            let taken: u64 = kept().filter(|charge| charge.at >= first.at).map(|charge| charge.cost).sum();
            assert!(taken <= rule.burst + now - first.at, "{taken} from {} to {now}", first.at);
        }
        if steps == 0 {
            return;
        }
        explore(rule, payload, now + 1, charges, steps - 1);
        for cost in 1..=2 {
            if let Verdict::Allow(left) = rule.decide(payload, Ring::NONE, moment(now), cost) {
                charges.push(Charge { at: now, cost, left, undone: false });
                explore(rule, left, now, charges, steps - 1);
                charges.pop();
            }
        }
        for index in 0..charges.len() {
            let Charge { at, cost, left, undone } = charges[index];
            if undone {
                continue;
            }
            let undo = rule.undo(payload, left, moment(at), moment(now), cost);
            charges[index].undone = true;
            explore(rule, undo.map_or(payload, |undo| undo.payload), now, charges, steps - 1);
            charges[index].undone = false;
        }
    }

    #[test]
    fn charges_undone_in_any_order_mint_nothing() {
        let quota = TokenBucket::new(Rate::per_second(1)).burst(3);
        let rules = TokenBucket::compile(&[quota], 0).unwrap();
        explore(&rules[0], 0, 0, &mut Vec::new(), 8);
    }
}
