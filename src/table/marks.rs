//! What a limiter remembers of refunds, credits and resets: what each key's refunds left, and when
//! a key was forgiven.
//!
//! Keys share *marks* by their fingerprints. A mark has a word, and a memory of a few keys: their
//! [staircases](Staircase). Checks read neither.
//!
//! ```text
//!      63     62      61                 32 31                0
//!  +--------+-------+---------------------+-------------------+
//!  | reset  | out-  | refunds and resets  | number of the     |
//!  | beside | dated | that run now        | latest reset      |
//!  +--------+-------+---------------------+-------------------+
//! ```
//!
//! A credit is a refund here. One that begins while no other runs *owns* the memory until it ends.
//! One that finds the mark busy waits for a few turns. Then it goes on without the memory, gives
//! back what is certain without it, and says that the memory is *outdated*: the owner does not use
//! it any more, and the next owner forgets all of it.
//!
//! *Reset beside*: a reset forgave while another ran. The other may hold a word as it was before
//! the reset, and a later charge can bring the word back to the same value. Then the stalled
//! thread's compare-exchange would succeed if another refund held the word again. So no refund
//! begins until all that run have ended: it gives back nothing.
//!
//! `proof/protocol/src/marks.rs` explores every interleaving of refunds, and of versions without
//! each of these steps.
//!
//! # Orderings
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | M1 | the end of a refund or reset | `begin` | its last compare-exchange; the memory |
//!
//! Otherwise marks are Relaxed: a refund says that the memory is outdated before it lowers the
//! word, and the owner asks while it holds the word. So the word carries it (edge S1 of `slot`).

use std::cell::Cell;
use std::hint::spin_loop;

use crate::algorithm::staircase::{Instant, Returned, Staircase};
use crate::algorithm::{Refund, RefundOrder, Rule, Stored, Taken};
use crate::bits::Field;
use crate::error::BuildError;
use crate::ring::Ring;
use crate::sync::{AtomicU64, Ordering, Tally, TallyOrdering};
use crate::table::fingerprint::Fingerprint;
use crate::table::ruling::Ask;
use crate::table::stats::Stats;
use crate::table::versioned::ThenAndNow;
use crate::table::zeroed::{Zeroed, zeroed_tallies, zeroed_words};
use crate::time::Timestamp;
use Ordering::{Acquire, Relaxed, Release};

const RESET: Field = Field::lowest(32);
const RUNNING: Field = RESET.above(30);
const OUTDATED: Field = RUNNING.above(1);
const RESET_BESIDE: Field = OUTDATED.above(1);
const _: () = assert!(RESET_BESIDE.end() == u64::BITS, "the fields must fill the word");

/// How often a refund looks whether a busy mark has become free. Loom would explore each look.
const TURNS: usize = if cfg!(loom) { 0 } else { 256 };

/// The marks of a limiter.
#[derive(Debug)]
pub(crate) struct Marks {
    /// The words of the marks, as drawn above.
    words: Zeroed<AtomicU64>,
    /// For each mark, one more than the latest nanosecond at which a request of its keys may depart
    /// that was booked ahead; 0: none was.
    booked: Zeroed<AtomicU64>,
    /// The memories of the marks, one after the other.
    memories: Zeroed<Tally>,
    /// How many words of it are one mark's.
    memory: usize,
    /// Units that refunds may have lost: see [`Stats::refunds_short`].
    short: Tally,
}

impl Marks {
    /// `marks` marks for all keys, each of which remembers `keys`.
    pub(crate) fn new(marks: usize, keys: usize) -> Result<Self, BuildError> {
        let memory = Memory::words(keys);
        let (words, booked) = (zeroed_words(marks)?, zeroed_words(marks)?);
        let memories = zeroed_tallies(marks * memory)?;
        Ok(Self { words, booked, memories, memory, short: Tally::new(0) })
    }

    fn index(&self, fingerprint: Fingerprint) -> usize {
        fingerprint.share_of(self.words.len())
    }

    /// Begins a refund of the key. `None` while one runs beside which a reset forgave.
    pub(crate) fn begin(&self, fingerprint: Fingerprint) -> Option<Running<'_>> {
        // It does not join those that run: they would otherwise end only when no refund begins.
        self.join(fingerprint, |seen| RESET_BESIDE.get(seen) == 0)
    }

    /// Begins a reset of the key.
    pub(crate) fn begin_reset(&self, fingerprint: Fingerprint) -> Running<'_> {
        let Some(running) = self.join(fingerprint, |_| true) else { unreachable!("a reset always begins") };
        running
    }

    /// Begins where the mark's word `is_open`.
    fn join(&self, fingerprint: Fingerprint, is_open: impl Fn(u64) -> bool) -> Option<Running<'_>> {
        let index = self.index(fingerprint);
        let mark = &self.words[index];
        for _ in 0..TURNS {
            if RUNNING.get(mark.load(Relaxed)) == 0 {
                break;
            }
            spin_loop();
        }
        let joined = |seen| {
            // The owner will forget an outdated memory; any other refund outdates it.
            let others = u64::from(RUNNING.get(seen) > 0);
            is_open(seen).then(|| OUTDATED.set(seen, others) + RUNNING.of(1))
        };
        // `None`: it is not open. The exchange itself is repeated until it succeeds.
        let seen = mark.fetch_update(Acquire, Relaxed, joined).ok()?; // M1
        let owns = RUNNING.get(seen) == 0;
        let is_outdated = Cell::new(owns && OUTDATED.get(seen) != 0);
        Some(Running { marks: self, index, fingerprint, owns, is_outdated })
    }

    /// One that has begun, and owns the memory.
    #[cfg(loom)]
    pub(crate) fn running(&self, fingerprint: Fingerprint) -> Running<'_> {
        let (index, is_outdated) = (self.index(fingerprint), Cell::new(false));
        Running { marks: self, index, fingerprint, owns: true, is_outdated }
    }

    /// Counts units that may be lost.
    pub(crate) fn count_short(&self, units: u64) {
        if units > 0 {
            self.short.fetch_add(units, TallyOrdering::Relaxed);
        }
    }

    /// Adds that count to `stats`.
    pub(crate) fn add_stats(&self, stats: &mut Stats) {
        stats.refunds_short += self.short.load(TallyOrdering::Relaxed);
    }

    /// Notes that a caller is about to book ahead for this key, to depart at `until` at the latest.
    /// The charge that follows publishes it to all readers of its word (S4).
    pub(crate) fn book(&self, fingerprint: Fingerprint, until: Timestamp) {
        let (booked, until) = (&self.booked[self.index(fingerprint)], until.as_nanos().saturating_add(1));
        if booked.load(Relaxed) < until {
            booked.fetch_max(until, Relaxed);
        }
    }
}

/// A refund or reset that runs, until it is dropped. It holds the key's word at times.
#[must_use]
pub(crate) struct Running<'r> {
    marks: &'r Marks,
    /// The mark's number.
    index: usize,
    fingerprint: Fingerprint,
    /// Whether no other ran when it began.
    owns: bool,
    /// Whether the memory is to be forgotten before it is used.
    is_outdated: Cell<bool>,
}

impl Running<'_> {
    fn mark(&self) -> &AtomicU64 {
        &self.marks.words[self.index]
    }

    /// What the mark remembers. `None` for one that does not own it, or that finds it outdated. Ask
    /// while the key's word is held.
    fn memory(&self, now: u64) -> Option<Memory<'_>> {
        if !self.owns || OUTDATED.get(self.mark().load(Relaxed)) != 0 {
            return None;
        }
        let words = self.marks.memory;
        let memory = Memory(&self.marks.memories[self.index * words..][..words]);
        if self.is_outdated.take() {
            memory.forget_all(Instant::at(now));
        }
        Some(memory)
    }

    /// Notes that the reset of this number forgives the key. Call it while the key's word is held,
    /// before it is lowered.
    pub(crate) fn forgive(&self, reset: u32, now: u64) {
        if let Some(memory) = self.memory(now) {
            // What was charged before is forgiven.
            memory.forget(self.fingerprint, Instant::NEVER);
        }
        let forgiven = |seen| {
            let latest = if is_later(reset, RESET.get(seen) as u32) { reset.into() } else { RESET.get(seen) };
            let others = u64::from(RUNNING.get(seen) > 1);
            Some(RESET.set(seen, latest) | RESET_BESIDE.of(others))
        };
        let _ = self.mark().fetch_update(Relaxed, Relaxed, forgiven);
    }

    /// Whether the key, or another key of its mark, was reset after the reset of this number. Ask
    /// while the key's word is held.
    pub(crate) fn is_forgiven(&self, since: u32) -> bool {
        is_later(RESET.get(self.mark().load(Relaxed)) as u32, since)
    }

    /// Whether a request of the mark's keys may be booked ahead, or was at `since`.
    fn is_booked(&self, since: Timestamp) -> bool {
        self.marks.booked[self.index].load(Relaxed) > since.as_nanos()
    }

    /// What a credit of up to `ask.cost` units makes of a held word with this `payload`.
    ///
    /// The clock is read while the word is held.
    pub(crate) fn credit<R: Rule>(
        &self,
        ask: Ask<'_, R>,
        payload: Stored,
        ring: Ring<'_>,
        now: Timestamp,
    ) -> Option<Refund> {
        let at = ask.rule.moment(now);
        let given = ask.rule.credit(payload, ring, at, ask.cost)?;
        // A TAT that was lowered without a receipt no longer tells how much of a request remains.
        if ask.rule.pure.needs_order()
            && let Some(memory) = self.memory(at.tick)
        {
            memory.forget(self.fingerprint, Instant::at(at.tick));
        }
        Some(given)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // What it did not forget, the next owner must.
        let outdated = OUTDATED.of(self.is_outdated.get().into());
        let ended = |seen| {
            let others = RUNNING.get(seen) - 1;
            let beside = if others == 0 { 0 } else { RESET_BESIDE.get(seen) };
            Some(RESET_BESIDE.set(RUNNING.set(seen, others), beside) | outdated)
        };
        let _ = self.mark().fetch_update(Release, Relaxed, ended); // M1
    }
}

/// Whether one number of a reset is later than another. They count modulo 2^32, so half of them
/// are.
fn is_later(reset: u32, than: u32) -> bool {
    reset.wrapping_sub(than) as i32 > 0
}

/// What a mark remembers: until when it has forgotten what it knew, and the staircases of some of
/// its keys, each after its key's fingerprint; 0: no key's.
///
/// Only its owner reads and writes it.
#[derive(Clone, Copy)]
struct Memory<'r>(&'r [Tally]);

impl<'r> Memory<'r> {
    /// The words of a key's line.
    const LINE: usize = 1 + Staircase::WORDS;

    /// How many words a mark needs that remembers `keys`.
    const fn words(keys: usize) -> usize {
        1 + keys * Self::LINE
    }

    fn lines(self) -> impl Iterator<Item = &'r [Tally]> {
        self.0[1..].chunks_exact(Self::LINE)
    }

    fn line(self, fingerprint: Fingerprint) -> Option<&'r [Tally]> {
        self.lines().find(|line| line[0].load(Relaxed) == fingerprint.bits())
    }

    /// The key's staircase.
    fn staircase(self, fingerprint: Fingerprint) -> Option<Staircase> {
        let words = |line: &[Tally]| std::array::from_fn(|word| line[1 + word].load(Relaxed));
        self.line(fingerprint).map(|line| Staircase::from_words(&words(line)))
    }

    /// Up to when a refund of a key without a staircase may have come.
    fn forgotten(self) -> Instant {
        Instant::from_bits(self.0[0].load(Relaxed))
    }

    fn forget_until(self, until: Instant) {
        if self.forgotten() < until {
            self.0[0].store(until.bits(), Relaxed);
        }
    }

    /// Keeps the key's staircase, in place of the one that was idle longest if there is no room.
    fn keep(self, fingerprint: Fingerprint, staircase: &Staircase) {
        let longest_idle = || self.lines().min_by_key(|line| Self::latest(line));
        let Some(line) = self.line(fingerprint).or_else(longest_idle) else { return };
        if line[0].load(Relaxed) != fingerprint.bits() {
            self.forget_until(Self::latest(line));
        }
        line[0].store(fingerprint.bits(), Relaxed);
        line[1..].iter().zip(staircase.words()).for_each(|(word, value)| word.store(value, Relaxed));
    }

    /// When the latest refund of the line's key came.
    fn latest(line: &[Tally]) -> Instant {
        Instant::from_bits(line[1].load(Relaxed))
    }

    fn clear(line: &[Tally]) {
        // By its first words the line is no key's, and the first to be taken.
        line[..2].iter().for_each(|word| word.store(0, Relaxed));
    }

    /// Forgets the key's staircase, and that no refund came after `until`.
    fn forget(self, fingerprint: Fingerprint, until: Instant) {
        if let Some(line) = self.line(fingerprint) {
            self.forget_until(Self::latest(line));
            Self::clear(line);
        }
        self.forget_until(until);
    }

    fn forget_all(self, now: Instant) {
        self.lines().for_each(Self::clear);
        self.forget_until(now);
    }
}

/// A refund in progress.
pub(crate) struct Refunding<'r, T> {
    running: Running<'r>,
    taken: Taken,
    /// When the request was charged.
    since: Timestamp,
    /// The number of the limiter's latest reset before that.
    resets: u32,
    clock: T,
    /// The staircase once the word is lowered, and when that is. `None`: it does not change.
    noted: Option<(Staircase, u64)>,
    /// Units that may be lost.
    short: u64,
}

impl<'r, T: Fn() -> Timestamp> Refunding<'r, T> {
    /// `None`: nothing comes back while a refund runs beside which a reset forgave.
    pub(crate) fn begin(
        marks: &'r Marks,
        fingerprint: Fingerprint,
        taken: Taken,
        (since, resets): (Timestamp, u32),
        clock: T,
    ) -> Option<Self> {
        let running = marks.begin(fingerprint)?;
        Some(Self { running, taken, since, resets, clock, noted: None, short: 0 })
    }

    /// What the refund makes of a held word with this `payload`.
    ///
    /// The clock is read here, while no charge goes unseen: units refilled by a charge's time are
    /// not given back.
    pub(crate) fn less<R: Rule>(&mut self, rules: &ThenAndNow<'_, R>, payload: Stored) -> Option<Refund> {
        (self.noted, self.short) = (None, 0);
        if self.running.is_forgiven(self.resets) {
            return None;
        }
        let (time, rule) = ((self.clock)(), rules.then);
        let (since, charged) = (self.taken.since.tick, self.taken.charged);
        let now = rule.moment_to_read(time).tick.max(since);
        let needs_order = rule.pure.needs_order();
        let memory = if needs_order { self.running.memory(now) } else { None };
        let line = memory.and_then(|memory| memory.staircase(self.running.fingerprint));
        let staircase = memory.map(|memory| {
            let line = line.unwrap_or_else(|| Staircase::unknown_until(memory.forgotten()));
            line.since_version(rule.pure.floor())
        });
        let is_unchanged = |staircase: Staircase| staircase.latest().is_before(since);
        let is_kept = !needs_order || staircase.is_some_and(is_unchanged);
        let order = match (is_kept, self.running.is_booked(self.since)) {
            (true, false) => RefundOrder::Kept,
            (true, true) => RefundOrder::KeptAndBooked,
            (false, true) => RefundOrder::LostAndBooked,
            (false, false) => {
                let least = |staircase: Staircase| staircase.least(since, charged.bits(), now);
                RefundOrder::Lost { least: staircase.map_or(0, least) }
            }
        };
        let refund = rules.refund(payload, self.taken, time, order)?;
        self.short = refund.short;
        let back = payload.bits().saturating_sub(refund.payload.bits());
        // Of a key without a staircase, the newest request leaves the order as it was.
        let reorders = line.is_some() || !is_kept || payload.bits() != charged.bits();
        if needs_order && reorders && back > 0 {
            self.noted = staircase.map(|mut staircase| {
                let debt = refund.payload.bits().saturating_sub(now);
                staircase.note(Returned { since, now, back, rest: refund.rest, debt });
                (staircase, now)
            });
        }
        Some(refund)
    }

    /// Notes that the word was lowered as [`less`](Self::less) said last. Returns the units that
    /// may be lost: see [`Refund::short`].
    pub(crate) fn done(self) -> u64 {
        if let Some((staircase, now)) = self.noted
            && let Some(memory) = self.running.memory(now)
        {
            memory.keep(self.running.fingerprint, &staircase);
        }
        self.short
    }
}
