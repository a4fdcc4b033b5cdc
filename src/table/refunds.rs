//! What a limiter remembers of its refunds: when keys were last given back something out of order.
//!
//! Keys share marks by their fingerprints, so a key may be thought to have lost its order when another one did: it then gets
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
pub struct Refunds {
    /// One more than the latest tick at which one of the mark's keys lost its order; 0: never.
    marks: Zeroed<AtomicU64>,
    /// For each mark the number of the latest reset of one of its keys, among all resets of the limiter; 0: none.
    forgiven: Zeroed<AtomicU64>,
    /// 1 once anybody has reserved.
    booked: AtomicU64,
}

impl Refunds {
    /// `marks` marks for all keys.
    pub(crate) fn new(marks: usize) -> Result<Self, BuildError> {
        let (forgiven, booked) = (zeroed_words(marks)?, AtomicU64::new(0));
        Ok(Self { marks: zeroed_words(marks)?, forgiven, booked })
    }

    fn index(&self, fingerprint: u64) -> usize {
        (fingerprint >> 1) as usize % self.marks.len()
    }

    /// Says that the reset of this number forgives the key. Call it while the key's word is held, before it is lowered.
    pub(crate) fn forgive(&self, fingerprint: u64, reset: u32) {
        let later = |seen: u64| is_later(reset, seen as u32).then_some(reset.into());
        let _ = self.forgiven[self.index(fingerprint)].fetch_update(Relaxed, Relaxed, later);
    }

    /// Whether the key was reset after the reset of this number, or another key of its mark was. Ask while the key's word
    /// is held.
    pub(crate) fn is_forgiven(&self, fingerprint: u64, since: u32) -> bool {
        is_later(self.forgiven[self.index(fingerprint)].load(Relaxed) as u32, since)
    }

    /// Says that somebody is about to book ahead.
    pub(crate) fn book(&self) {
        if self.booked.load(Relaxed) == 0 {
            // Published by the charge that follows, to whoever reads the word that it leaves (S4).
            self.booked.store(1, Relaxed);
        }
    }
}

/// Whether one number of a reset is later than another. They are counted modulo 2^32, so half of them are.
fn is_later(reset: u32, than: u32) -> bool {
    reset.wrapping_sub(than) as i32 > 0
}

/// A refund on its way.
pub(crate) struct Refunding<'r, T> {
    refunds: &'r Refunds,
    fingerprint: u64,
    taken: Taken,
    /// The number of the limiter's latest reset before the request was charged.
    resets: u32,
    clock: T,
    marked: bool,
}

impl<'r, T: Fn() -> Timestamp> Refunding<'r, T> {
    pub(crate) fn new(refunds: &'r Refunds, fingerprint: u64, taken: Taken, resets: u32, clock: T) -> Self {
        Self { refunds, fingerprint, taken, resets, clock, marked: false }
    }

    /// What comes back to a word that is held with this `payload`.
    ///
    /// The clock is read here, when the word can no longer be charged unseen: what was refilled by a charge's time
    /// is not given back. And the mark is made here, before the word is lowered.
    pub(crate) fn less<R: Rule>(&mut self, rule: &R, payload: u64) -> Option<Refund> {
        if self.refunds.is_forgiven(self.fingerprint, self.resets) {
            return None;
        }
        let at = rule.moment((self.clock)());
        let marks = &self.refunds.marks;
        let mark = &marks[self.refunds.index(self.fingerprint)];
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
