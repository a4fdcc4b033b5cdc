//! What a limiter remembers of refunds, credits and resets: when keys were last given back
//! something out of order, or forgiven.
//!
//! Keys share marks by their fingerprints, so a refund of one key may count as another's: the other
//! key then gets back less, never more. Checks do not read marks.
//!
//! A mark of resets:
//!
//! ```text
//!      63      62                 32 31                0
//!  +-----------+--------------------+-------------------+
//!  | overtaken | refunds and resets | number of the     |
//!  |           | that run now       | latest reset      |
//!  +-----------+--------------------+-------------------+
//! ```
//!
//! *Overtaken*: a reset came while another refund or reset ran. The other may hold a word as it was
//! before the reset, and a later charge can bring the word back to the same value. Then the stalled
//! thread's compare-exchange would succeed if another refund held the word again. So no refund
//! begins until all that were overtaken have ended: it gives back nothing. A credit is a refund
//! here.
//!
//! # Orderings
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | M1 | the end of a refund or reset | `begin` | its last compare-exchange of the word |
//!
//! Otherwise marks are Relaxed: a mark is made before the word is lowered and read while the word
//! is held, so the word carries it from one refund to the next (edge S1 of `slot`).

use crate::algorithm::{Order, Payload, Refund, Rule, Stored, Taken};
use crate::bits::Field;
use crate::error::BuildError;
use crate::ring::Ring;
use crate::sync::{AtomicU64, Ordering};
use crate::table::dated::Dated;
use crate::table::fingerprint::Fingerprint;
use crate::table::slot::Ask;
use crate::table::zeroed::{Zeroed, zeroed_words};
use crate::time::Timestamp;
use Ordering::{Acquire, Relaxed, Release};

const RESET: Field = Field::lowest(32);
const RUNNING: Field = RESET.above(31);
const OVERTAKEN: Field = RUNNING.above(1);
const _: () = assert!(OVERTAKEN.end() == u64::BITS, "the fields must fill the word");

/// The marks of a limiter.
#[derive(Debug)]
pub struct Refunds {
    /// One more than the latest tick at which one of the mark's keys lost its order; 0: never.
    marks: Zeroed<AtomicU64>,
    /// For each mark, its keys' resets and the refunds that run, as drawn above.
    resets: Zeroed<AtomicU64>,
    /// 1 once a caller has reserved.
    booked: AtomicU64,
}

impl Refunds {
    /// `marks` marks for all keys.
    pub(crate) fn new(marks: usize) -> Result<Self, BuildError> {
        let (resets, booked) = (zeroed_words(marks)?, AtomicU64::new(0));
        Ok(Self { marks: zeroed_words(marks)?, resets, booked })
    }

    fn index(&self, fingerprint: Fingerprint) -> usize {
        fingerprint.share_of(self.marks.len())
    }

    /// Begins a refund of the key. `None` while one that a reset has overtaken still runs.
    pub(crate) fn begin(&self, fingerprint: Fingerprint) -> Option<Running<'_>> {
        let mark = &self.resets[self.index(fingerprint)];
        // It does not join those that run: they would otherwise end only when no refund begins.
        let joined = |seen| (OVERTAKEN.get(seen) == 0).then(|| seen + RUNNING.of(1));
        mark.fetch_update(Acquire, Relaxed, joined).ok()?; // M1
        Some(Running { mark })
    }

    /// Begins a reset of the key.
    pub(crate) fn begin_reset(&self, fingerprint: Fingerprint) -> Running<'_> {
        let mark = &self.resets[self.index(fingerprint)];
        mark.fetch_add(RUNNING.of(1), Relaxed);
        Running { mark }
    }

    /// One that has begun.
    #[cfg(loom)]
    pub(crate) fn running(&self, fingerprint: Fingerprint) -> Running<'_> {
        Running { mark: &self.resets[self.index(fingerprint)] }
    }

    /// What a credit of up to `ask.cost` units makes of a held word with this `payload`. The caller
    /// has begun a refund of the key, and reads the clock while the word is held.
    ///
    /// In a bucket it leaves a mark: a TAT that was lowered without a receipt no longer tells how
    /// much of an earlier request remains.
    pub(crate) fn credit<R: Rule>(
        &self,
        ask: Ask<'_, R>,
        payload: Stored,
        ring: Ring<'_>,
        now: Timestamp,
    ) -> Option<Refund> {
        let at = ask.rule.moment(now);
        let given = ask.rule.credit(payload, ring, at, ask.cost)?;
        // As if it were not the newest request's: a queue and a window ask for no order.
        let other = Taken { charged: Payload::UNSEEN, since: at, cost: ask.cost };
        if ask.rule.reorders(payload, other) {
            self.marks[self.index(ask.fingerprint)].fetch_max(at.tick + 1, Relaxed);
        }
        Some(given)
    }

    /// Notes that a caller is about to book ahead.
    pub(crate) fn book(&self) {
        if self.booked.load(Relaxed) == 0 {
            // The charge that follows publishes it to all readers of its word (S4).
            self.booked.store(1, Relaxed);
        }
    }
}

/// A refund or reset that runs, until it is dropped. It holds the key's word at times.
#[must_use]
pub(crate) struct Running<'r> {
    mark: &'r AtomicU64,
}

impl Running<'_> {
    /// Notes that the reset of this number forgives the key. Call it while the key's word is held,
    /// before it is lowered.
    pub(crate) fn forgive(&self, reset: u32) {
        let forgiven = |seen| {
            let latest = if is_later(reset, RESET.get(seen) as u32) { reset.into() } else { RESET.get(seen) };
            let overtakes = RUNNING.get(seen) > 1;
            Some(RESET.set(seen, latest) | OVERTAKEN.of(overtakes.into()))
        };
        let _ = self.mark.fetch_update(Relaxed, Relaxed, forgiven);
    }

    /// Whether the key, or another key of its mark, was reset after the reset of this number. Ask
    /// while the key's word is held.
    pub(crate) fn is_forgiven(&self, since: u32) -> bool {
        is_later(RESET.get(self.mark.load(Relaxed)) as u32, since)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let ended = |seen| {
            let others = RUNNING.get(seen) - 1;
            let overtaken = if others == 0 { 0 } else { OVERTAKEN.get(seen) };
            Some(OVERTAKEN.set(RUNNING.set(seen, others), overtaken))
        };
        let _ = self.mark.fetch_update(Release, Relaxed, ended); // M1
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
    running: Running<'r>,
    fingerprint: Fingerprint,
    taken: Taken,
    /// The number of the limiter's latest reset before the request was charged.
    resets: u32,
    clock: T,
    marked: bool,
}

impl<'r, T: Fn() -> Timestamp> Refunding<'r, T> {
    /// `None`: nothing comes back while a refund that a reset has overtaken still runs.
    pub(crate) fn begin(
        refunds: &'r Refunds,
        fingerprint: Fingerprint,
        taken: Taken,
        resets: u32,
        clock: T,
    ) -> Option<Self> {
        let running = refunds.begin(fingerprint)?;
        Some(Self { refunds, running, fingerprint, taken, resets, clock, marked: false })
    }

    /// What the refund makes of a held word with this `payload`.
    ///
    /// The clock is read here, while no charge goes unseen: units refilled by a charge's time are
    /// not given back. And the mark is made here, before the word is lowered.
    pub(crate) fn less<R: Rule>(&mut self, rule: Dated<'_, R>, payload: Stored) -> Option<Refund> {
        if self.running.is_forgiven(self.resets) {
            return None;
        }
        let at = rule.moment_to_read((self.clock)());
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
