//! What a limiter remembers of its refunds: when keys were last given back something out of order.
//!
//! Keys share marks by their names, so a key may be thought to have lost its order when another one did: it then gets
//! back less, never more. Checks do not come here.
//!
//! Marks are Relaxed: a mark is made before the word is lowered and read once the word is held, so the word carries it from
//! one refund to the next (edge S1 of `slot`).

use crate::algorithm::{Order, Refund, Rule, Taken};
use crate::error::BuildError;
use crate::sync::{AtomicU64, Ordering};
use crate::table::{Zeroed, zeroed_words};
use crate::time::Timestamp;
use Ordering::Relaxed;

/// The marks of a limiter.
#[derive(Debug)]
pub(crate) struct Refunds {
    /// One more than the latest tick at which one of the mark's keys lost its order; 0: never.
    marks: Zeroed<AtomicU64>,
    /// 1 once anybody has reserved.
    booked: AtomicU64,
}

impl Refunds {
    /// `marks` marks for all keys.
    pub(crate) fn new(marks: usize) -> Result<Self, BuildError> {
        Ok(Self { marks: zeroed_words(marks)?, booked: AtomicU64::new(0) })
    }

    /// Says that somebody is about to book ahead.
    pub(crate) fn book(&self) {
        if self.booked.load(Relaxed) == 0 {
            // Published by the charge that follows, to whoever reads the word that it leaves (S4).
            self.booked.store(1, Relaxed);
        }
    }
}

/// A refund on its way.
pub(crate) struct Refunding<'r, T> {
    refunds: &'r Refunds,
    name: u64,
    taken: Taken,
    clock: T,
    marked: bool,
}

impl<'r, T: Fn() -> Timestamp> Refunding<'r, T> {
    pub(crate) fn new(refunds: &'r Refunds, name: u64, taken: Taken, clock: T) -> Self {
        Self { refunds, name, taken, clock, marked: false }
    }

    /// What comes back to a word that is held with this `payload`.
    ///
    /// The clock is read here, when the word can no longer be charged unseen: what was refilled by a charge's time
    /// is not given back. And the mark is made here, before the word is lowered.
    pub(crate) fn less<R: Rule>(&mut self, rule: &R, payload: u64) -> Option<Refund> {
        let at = rule.moment((self.clock)());
        let marks = &self.refunds.marks;
        let mark = &marks[(self.name >> 1) as usize % marks.len()];
        let is_before = |mark: u64| mark <= self.taken.since.tick;
        // After a mark of its own it cannot tell others' any more.
        let mut kept = !self.marked && is_before(mark.load(Relaxed));
        if !kept || rule.reorders(payload, self.taken) {
            // Of two refunds the second finds the mark of the first.
            kept &= is_before(mark.fetch_max(at.tick.max(self.taken.since.tick) + 1, Relaxed));
            self.marked = true;
        }
        let order = match kept {
            true => Order::Kept,
            false if self.refunds.booked.load(Relaxed) == 0 => Order::Lost,
            false => Order::LostAndBooked,
        };
        rule.refund(payload, self.taken, at, order)
    }
}
