//! A slot: a key's fingerprint and its word, and the life of both.
//!
//! ```text
//!             claim               fingerprint          header commits        publish
//!   at rest ----------> claimed -------> named ---------------> committed -----> at rest, new owner
//!      ^                                   |                        |               ^    |
//!      |              abandon              |                        |    charge     |    | charge
//!      +-----------------------------------+                        +---------------+    +-- (again)
//! ```
//!
//! A refund takes the slot from rest to committed and back: whoever comes meanwhile may charge it, nobody may take it.
//!
//! A slot at rest belongs to the key in its fingerprint, or to nobody. `claim` is a compare-exchange from the very
//! word that a scan saw and carries the new key's first charge; it kills every charge of the old owner that is still
//! in flight. Between `claim` and the header's commit only the claimer writes the slot. After the commit the first to
//! come publishes: the claimer, or a charge of the new key on top of its word.
//!
//! # Orderings
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | S1 | `claim`, a charge of a frozen word, `publish`, `abandon`, `refund`, `release` | `load`, a charge, `refund` | the slot's fingerprint; that the header had committed; a refund's mark |
//! | S2 | `write_fingerprint`, `abandon`'s fingerprint | `fingerprint` | that the word had been claimed: an old owner's charge must fail |
//! | S3 | a charge, when the rule keeps a ring; `set_payload` and `refund`, which forgive one | `load` | the times in the ring behind the head |
//! | S4 | a charge that books ahead | `load`, `refund` | that somebody has booked: see `refunds` |
//! | S5 | `give_back` | a charge, `load` | what the holder did before it gave back; when the slot went to others since, S2 carries it on |
//! | S6 | `part`'s fingerprint; its word, by `turn` | `fingerprint`; `load` | that the header says so; that the key moves: see `growth` |
//! | S7 | `receive`'s fingerprint | `fingerprint` | the word that arrived |
//!
//! All of these are compare-exchanges but a few, and go on with what others released through the same word before. So one
//! that has nothing of its own to say releases nothing (`refund`'s hold; the word that `receive` holds until it has its fingerprint),
//! and one that reads nothing afterwards acquires nothing. A charge does both: after refunds and resets a word can come
//! back under another owner, so it looks at the fingerprint once more, and then the charge was that one's. A compare-exchange that
//! fails is Relaxed: what it found is not used. A denial's second look is Relaxed, too: it asks for the same word.

use crate::algorithm::{Moment, Refund, Rule, Verdict};
use crate::ring::Ring;
use crate::sync::{AtomicU64, Ordering};
use crate::table::fingerprint::{UNTOUCHED, VACANT, is_key, is_migrating, is_same_key, kept, moved};
use crate::table::word::Word;
use Ordering::{AcqRel, Acquire, Relaxed, Release};

/// A key's fingerprint and word. All zero is a slot at rest that belongs to nobody.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Slot {
    fingerprint: AtomicU64,
    word: AtomicU64,
}

/// A request, in the terms of the table.
pub struct Ask<'r, R> {
    pub(crate) rule: &'r R,
    pub(crate) fingerprint: u64,
    pub(crate) cost: u64,
}

impl<R> Clone for Ask<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Ask<'_, R> {}

/// The table's answer.
#[derive(Clone, Copy)]
pub struct Ruling<'a> {
    pub(crate) allowed: bool,
    /// The key's payload after the request.
    pub(crate) payload: u64,
    pub(crate) ring: Ring<'a>,
}

/// What became of an attempt to charge a word.
enum Attempt<'a> {
    Ruled(Ruling<'a>),
    /// The word is another by now.
    Changed,
    /// Not to be decided here.
    Lost,
}

/// A slot taken for a new key, not yet visible as its own.
#[must_use]
pub(crate) struct Claim<'a> {
    slot: &'a Slot,
    old: Word,
    new: Word,
}

impl Slot {
    /// A slot that nobody has had.
    #[cfg(loom)]
    pub(crate) fn untouched() -> Self {
        Self::new(UNTOUCHED)
    }

    /// A slot at rest that belongs to `fingerprint` and was never charged.
    pub(crate) fn new(fingerprint: u64) -> Self {
        Self { fingerprint: AtomicU64::new(fingerprint), word: AtomicU64::new(Word::ZERO.bits()) }
    }

    /// In a bucket's place 0, the fingerprint is its header.
    #[inline]
    pub(crate) fn header(&self) -> &AtomicU64 {
        &self.fingerprint
    }

    /// In a bucket's place 0, the word is its overflow word.
    #[inline]
    pub(crate) fn overflow(&self) -> &AtomicU64 {
        &self.word
    }

    /// Reads the word. Read it before the fingerprint: a fingerprint that is newer than the word is the one that counts.
    #[inline]
    pub(crate) fn load(&self) -> Word {
        Word::from_bits(self.word.load(Acquire)) // S1, S3, S4, S5, S6
    }

    /// Reads the fingerprint.
    #[inline]
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint.load(Acquire) // S2, S6, S7
    }

    /// Reads the word and then the fingerprint.
    #[inline]
    pub(crate) fn read(&self) -> (Word, u64) {
        let word = self.load();
        (word, self.fingerprint())
    }

    /// Whether the fingerprint is this one at a probe_home: read the word and the fingerprint again before believing it.
    #[inline]
    pub(crate) fn has_fingerprint(&self, fingerprint: u64) -> bool {
        self.fingerprint.load(Relaxed) == fingerprint
    }

    /// Whether the word is still `seen`.
    #[inline]
    pub(crate) fn is_still(&self, seen: Word) -> bool {
        self.word.load(Relaxed) == seen.bits()
    }

    /// at rest -> at rest, or committed -> at rest: decides the request on the word `seen`, which belonged to the
    /// key, and charges it. `None` when the slot is somebody else's by now. `retries` counts how often the word was no
    /// longer `seen`.
    #[inline]
    pub(crate) fn charge<'a, R: Rule>(
        &self,
        seen: Word,
        ask: Ask<'_, R>,
        ring: Ring<'a>,
        at: Moment,
        retries: &mut u64,
    ) -> Option<Ruling<'a>> {
        let decide = |payload| Some(ask.rule.decide(payload, ring, at, ask.cost));
        self.keep_trying(seen, ask, ring, at, decide, retries)
    }

    /// The same if it can be decided quickly.
    #[inline]
    pub(crate) fn charge_displaced<'a, R: Rule>(
        &self,
        seen: Word,
        ask: Ask<'_, R>,
        ring: Ring<'a>,
        at: Moment,
        retries: &mut u64,
    ) -> Option<Ruling<'a>> {
        let decide = |payload| ask.rule.quick_decide(payload, ring, at, ask.cost);
        self.keep_trying(seen, ask, ring, at, decide, retries)
    }

    #[inline(always)]
    fn keep_trying<'a, R: Rule>(
        &self,
        mut seen: Word,
        ask: Ask<'_, R>,
        ring: Ring<'a>,
        at: Moment,
        decide: impl Fn(u64) -> Option<Verdict>,
        retries: &mut u64,
    ) -> Option<Ruling<'a>> {
        loop {
            match self.attempt(seen, ask, ring, at, &decide) {
                Attempt::Ruled(ruling) => {
                    // A refusal charges nothing, and so has tried nothing again: it is not to write a counter either.
                    if !ruling.allowed && ruling.payload == seen.payload() {
                        *retries = 0;
                    }
                    return Some(ruling);
                }
                Attempt::Lost => return None,
                Attempt::Changed => {
                    *retries += 1;
                    seen = self.reload(ask.fingerprint)?;
                }
            }
        }
    }

    /// The same in one attempt.
    #[inline(always)]
    pub(crate) fn charge_quickly<'a, R: Rule>(
        &self,
        seen: Word,
        ask: Ask<'_, R>,
        ring: Ring<'a>,
        at: Moment,
    ) -> Option<Ruling<'a>> {
        match self.attempt(seen, ask, ring, at, |payload| ask.rule.quick_decide(payload, ring, at, ask.cost))
        {
            Attempt::Ruled(ruling) => Some(ruling),
            _ => None,
        }
    }

    // What is called from several places is inlined into none, unless it is told to.
    #[inline(always)]
    fn attempt<'a, R: Rule>(
        &self,
        seen: Word,
        ask: Ask<'_, R>,
        ring: Ring<'a>,
        at: Moment,
        decide: impl Fn(u64) -> Option<Verdict>,
    ) -> Attempt<'a> {
        let (allowed, payload) = match decide(seen.payload()) {
            Some(Verdict::Allow(payload)) => (true, payload),
            Some(Verdict::DenyAndCount(payload)) => (false, payload),
            Some(Verdict::Deny) if self.is_still(seen) => {
                return Attempt::Ruled(Ruling { allowed: false, payload: seen.payload(), ring });
            }
            Some(Verdict::Deny) => return Attempt::Changed,
            None => return Attempt::Lost,
        };
        if !ask.rule.stage(seen.payload(), ring, at, ask.cost, || self.is_still(seen)) {
            return Attempt::Changed;
        }
        let charged = seen.charged(payload);
        match self.word.compare_exchange(seen.bits(), charged.bits(), AcqRel, Relaxed) {
            // S1, S3, S4, S5
            Ok(_) if self.was_of(ask.fingerprint) => Attempt::Ruled(Ruling { allowed, payload, ring }),
            // The slot has had another owner since, whose word came to be the same. That one paid.
            Ok(_) => Attempt::Lost,
            Err(_) => Attempt::Changed,
        }
    }

    /// at rest -> at rest: charges a request as it was decided on the word `seen`, to `payload`, and staged if it has to be.
    /// `false` when the slot has moved since: decide again.
    #[inline]
    pub(crate) fn charge_seen(&self, seen: Word, payload: u64, fingerprint: u64) -> bool {
        let charged = seen.charged(payload);
        // Under another fingerprint it was a later owner's word, which had come to be the same: that one paid.
        self.word.compare_exchange(seen.bits(), charged.bits(), AcqRel, Relaxed).is_ok() // S1, S3, S4
            && self.was_of(fingerprint)
    }

    /// Whether the word `seen`, which was just changed, was the key's: also when the key has begun to move, since what was
    /// changed before its word [detached](Self::part) moves with it, and no change is possible after.
    #[inline]
    fn was_of(&self, fingerprint: u64) -> bool {
        is_same_key(self.fingerprint(), fingerprint)
    }

    /// The word as it is now, if it is at rest and the slot still has this fingerprint.
    fn reload(&self, fingerprint: u64) -> Option<Word> {
        let word = self.load();
        (self.fingerprint() == fingerprint && !word.is_frozen()).then_some(word)
    }

    /// Makes the slot `fingerprint`'s, owing `payload`, before the table is shared.
    pub(crate) fn enter(&self, fingerprint: u64, payload: u64) {
        self.fingerprint.store(fingerprint, Relaxed);
        self.word.store(self.load().charged(payload).bits(), Relaxed);
    }

    /// at rest or committed -> committed -> at rest: makes of the word `seen` what `less` says. `None` when the slot has
    /// changed: look again.
    ///
    /// The slot is held while it is decided, so that the fingerprint read in between is that of the word which is lowered, and
    /// so that what `less` knows of other refunds is no older than the word.
    pub(crate) fn refund(
        &self,
        seen: Word,
        fingerprint: u64,
        less: impl FnOnce(u64) -> Option<Refund>,
    ) -> Option<u64> {
        let held = seen.held();
        if !seen.is_frozen() {
            self.word.compare_exchange(seen.bits(), held.bits(), Acquire, Relaxed).ok()?; // S1, S4
        }
        let mine = self.was_of(fingerprint);
        let nothing = Refund { payload: seen.payload(), units: 0 };
        let refund = if mine { less(seen.payload()).unwrap_or(nothing) } else { nothing };
        let lowered = seen.charged(refund.payload);
        self.word.compare_exchange(held.bits(), lowered.bits(), Release, Relaxed).ok()?; // S1, S3
        mine.then_some(refund.units)
    }

    /// at rest -> at rest: lowers the payload by `less`, what the caller has charged and not given back: so the slot is
    /// still the key's, and the payload does not fall below zero. Cannot fail.
    #[inline]
    pub(crate) fn give_back(&self, less: u64) {
        let before = Word::from_bits(self.word.fetch_sub(Word::payload_of(less), Release)); // S5
        debug_assert!(before.payload() >= less, "what is given back must have been in flight: {before:?}");
    }

    /// at rest, held or committed -> moved: takes the key out of the slot, if it is one that `leaves`: its fingerprint and its
    /// word, of which every charge in flight fails from here on. `None` when there is no such key, or `is_over`.
    ///
    /// First the fingerprint, so that nobody new comes; then the word, by its parity, which the rule does not read: what charges
    /// in flight still added goes along, and later ones fail. Nobody writes a slot that has both, so whoever moves the key
    /// finds the same. `counts`: whether the header has committed the word. `is_over` looks at the header after the
    /// slot was read, so that nothing is taken from a later owner.
    pub(crate) fn detach(
        &self,
        leaves: impl Fn(u64) -> bool,
        counts: impl Fn(Word) -> bool,
        is_over: impl Fn() -> bool,
    ) -> Option<(u64, Word)> {
        loop {
            let (word, fingerprint) = self.read();
            let is_pending = word.is_frozen() && !counts(word);
            if is_pending
                || !(is_key(fingerprint) || is_migrating(fingerprint))
                || !leaves(fingerprint)
                || is_over()
            {
                return None;
            }
            if is_key(fingerprint) {
                let _ = self.fingerprint.compare_exchange(fingerprint, moved(fingerprint), Release, Relaxed); // S6
            } else if !counts(word) {
                return Some((kept(fingerprint), word));
            } else {
                self.flip_parity(word);
            }
        }
    }

    /// Turns the word's parity, if it is still the one `seen`: one that counts does not any more, and the other way round.
    pub(crate) fn flip_parity(&self, seen: Word) {
        let flipped = seen.detached();
        let _ = self.word.compare_exchange(seen.bits(), flipped.bits(), Release, Relaxed); // S6
    }

    /// untouched -> held -> at rest: the key that `moved` here, with what it owes, or nobody. The word before the fingerprint, by
    /// which it can be charged, and held until then: no word at rest is without a fingerprint.
    pub(crate) fn receive(&self, moved: Option<(u64, Word)>) {
        let arrived = moved.map(|(_, word)| Word::ZERO.charged(word.payload()));
        if let Some(arrived) = arrived {
            let _ = self.word.compare_exchange(Word::ZERO.bits(), arrived.held().bits(), Relaxed, Relaxed);
        }
        let fingerprint = moved.map_or(VACANT, |(fingerprint, _)| fingerprint);
        let _ = self.fingerprint.compare_exchange(UNTOUCHED, fingerprint, Release, Relaxed); // S2, S7
        if let Some(arrived) = arrived {
            self.release(arrived.held());
        }
    }

    /// held or committed -> at rest, if the word is still `held`.
    pub(crate) fn release(&self, held: Word) {
        let released = held.published();
        let _ = self.word.compare_exchange(held.bits(), released.bits(), Release, Relaxed); // S1
    }

    /// at rest -> claimed: takes the slot for a new key that owes `payload`. `None` when it is no longer `seen`.
    pub(crate) fn claim(&self, seen: Word, payload: u64) -> Option<Claim<'_>> {
        let new = seen.claimed(payload);
        self.word.compare_exchange(seen.bits(), new.bits(), Release, Relaxed).ok()?; // S1
        Some(Claim { slot: self, old: seen, new })
    }
}

impl Claim<'_> {
    /// claimed -> named.
    pub(crate) fn write_fingerprint(&self, fingerprint: u64) {
        self.slot.fingerprint.store(fingerprint, Release); // S2
    }

    /// committed -> at rest. When it fails, a charge of the same key has published on top.
    pub(crate) fn publish(self) {
        let published = self.new.published();
        let _ = self.slot.word.compare_exchange(self.new.bits(), published.bits(), Release, Relaxed); // S1
    }

    /// named -> at rest, nobody's: the header did not commit. The word is one that no charge in flight can expect.
    /// `fingerprint` says what it means: [`VACANT`], or [`IN_DEBT`] when the old owner still owed something.
    pub(crate) fn abandon(self, fingerprint: u64, bump: impl Fn(u64) -> u64) {
        // Swapped, so that it comes after whatever marked the fingerprint as moving. What the slot says is published below.
        self.slot.fingerprint.swap(fingerprint, Release); // S2, for S5
        self.slot.word.store(self.old.charged(bump(self.old.payload())).bits(), Release); // S1
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::algorithm::InFlightRule;
    use crate::time::Timestamp;

    const FINGERPRINT: u64 = 0x13;

    /// How often a request of this cost was tried again, when another charge came in between, and whether it was admitted.
    fn overtaken(cost: u64) -> (u64, bool) {
        let rule = InFlightRule::new(9).unwrap();
        let (slot, at) = (Slot::new(FINGERPRINT), rule.moment(Timestamp::ZERO));
        slot.enter(FINGERPRINT, InFlightRule::weight(5));
        let seen = slot.load();
        slot.enter(FINGERPRINT, InFlightRule::weight(6));
        let (ask, mut retries) = (Ask { rule: &rule, fingerprint: FINGERPRINT, cost }, 0);
        let ruling = slot.charge(seen, ask, Ring::NONE, at, &mut retries).unwrap();
        (retries, ruling.allowed)
    }

    #[test]
    fn a_refusal_that_was_tried_again_counts_nothing() {
        assert_eq!(overtaken(2), (1, true));
        // Admitted on the word that was seen, refused on the one that is there.
        assert_eq!(overtaken(4), (0, false));
    }
}
