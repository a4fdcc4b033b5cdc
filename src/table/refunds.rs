//! What a limiter remembers of its refunds: when keys were last given back something out of order.
//!
//! Keys share marks by their names, so a key may be thought to have lost its order when another one did: it then gets
//! back less, never more. Checks do not come here.

use crate::algorithm::{Moment, Order, Refund, Rule, Taken};
use crate::error::Error;
use crate::sync::{AtomicU64, Ordering};
use crate::table::{Zeroed, zeroed_words};
use Ordering::{AcqRel, Acquire, Relaxed};

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
    pub(crate) fn new(marks: usize) -> Result<Self, Error> {
        Ok(Self { marks: zeroed_words(marks)?, booked: AtomicU64::new(0) })
    }

    /// Says that somebody is about to book ahead.
    pub(crate) fn book(&self) {
        if self.booked.load(Relaxed) == 0 {
            // Published by the charge that follows, to whoever reads the word that it leaves.
            self.booked.store(1, Relaxed);
        }
    }
}

/// A refund on its way: it marks its key once, before it first lowers the word.
pub(crate) struct Refunding<'r> {
    refunds: &'r Refunds,
    name: u64,
    taken: Taken,
    at: Moment,
    kept: Option<bool>,
}

impl<'r> Refunding<'r> {
    pub(crate) fn new(refunds: &'r Refunds, name: u64, taken: Taken, at: Moment) -> Self {
        Self { refunds, name, taken, at, kept: None }
    }

    /// What comes back to a word that is held with this `payload`.
    pub(crate) fn less<R: Rule>(&mut self, rule: &R, payload: u64) -> Option<Refund> {
        let kept = match self.kept {
            Some(kept) => kept,
            None if rule.reorders(payload, self.taken) => {
                // Of two refunds the second finds the mark of the first.
                let now = self.at.tick.max(self.taken.since.tick);
                let kept = self.is_before(self.mark().fetch_max(now + 1, AcqRel));
                self.kept = Some(kept);
                kept
            }
            None => self.is_before(self.mark().load(Acquire)),
        };
        let order = match kept {
            true => Order::Kept,
            false if self.refunds.booked.load(Relaxed) == 0 => Order::Lost,
            false => Order::LostAndBooked,
        };
        rule.refund(payload, self.taken, self.at, order)
    }

    fn mark(&self) -> &'r AtomicU64 {
        let marks = &self.refunds.marks;
        &marks[(self.name >> 1) as usize % marks.len()]
    }

    /// Whether a mark is older than the request.
    fn is_before(&self, mark: u64) -> bool {
        mark <= self.taken.since.tick
    }
}
