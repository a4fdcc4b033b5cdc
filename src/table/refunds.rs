//! What a limiter remembers of refunds and resets: when keys were last given back something out of
//! order, or forgiven.
//!
//! Keys share marks by their fingerprints, so that one key's refund may count as another's: that
//! key then gets back less, never more. Checks do not read marks.
//!
//! Marks are Relaxed: a mark is made before the word is lowered and read while the word is held, so
//! the word carries it from one refund to the next (edge S1 of `slot`).

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
    /// For each mark the number of the latest reset of one of its keys, among all resets of the
    /// limiter; 0: none.
    forgiven: Zeroed<AtomicU64>,
    /// 1 once a caller has reserved.
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

    /// Notes that the reset of this number forgives the key. Call it while the key's word is held,
    /// before it is lowered.
    pub(crate) fn forgive(&self, fingerprint: u64, reset: u32) {
        let later = |seen: u64| is_later(reset, seen as u32).then_some(reset.into());
        let _ = self.forgiven[self.index(fingerprint)].fetch_update(Relaxed, Relaxed, later);
    }

    /// Whether the key, or another key of its mark, was reset after the reset of this number. Ask
    /// while the key's word is held.
    pub(crate) fn is_forgiven(&self, fingerprint: u64, since: u32) -> bool {
        is_later(self.forgiven[self.index(fingerprint)].load(Relaxed) as u32, since)
    }

    /// Notes that a caller is about to book ahead.
    pub(crate) fn book(&self) {
        if self.booked.load(Relaxed) == 0 {
            // The charge that follows publishes it to all readers of its word (S4).
            self.booked.store(1, Relaxed);
        }
    }
}

/// Whether one number of a reset is later than another. They count modulo 2^32, so half of them
/// are.
fn is_later(reset: u32, than: u32) -> bool {
    reset.wrapping_sub(than) as i32 > 0
}

/// A refund in progress.
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

    /// What the refund makes of a held word with this `payload`.
    ///
    /// The clock is read here, while no charge goes unseen: units refilled by a charge's time are
    /// not given back. And the mark is made here, before the word is lowered.
    pub(crate) fn less<R: Rule>(&mut self, rule: &R, payload: u64) -> Option<Refund> {
        if self.refunds.is_forgiven(self.fingerprint, self.resets) {
            return None;
        }
        let at = rule.moment((self.clock)());
        let marks = &self.refunds.marks;
        let mark = &marks[self.refunds.index(self.fingerprint)];
        let is_before = |mark: u64| mark <= self.taken.since.tick;
        // After its own mark it cannot see other refunds' any more.
        let mut kept = !self.marked && is_before(mark.load(Relaxed));
        if !kept || rule.reorders(payload, self.taken) {
            // The second of two refunds finds the mark of the first.
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
