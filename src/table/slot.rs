//! A slot: a key's fingerprint and its word, and the life of both.
//!
//! ```text
//!            claim       write fingerprint     header commits        publish
//!  at rest --------> claimed ---------> named ---------------> committed -----> at rest
//!     ^                                   |                        |            ^    |
//!     |              abandon              |                        |   charge   |    | charge
//!     +-----------------------------------+                        +------------+    +-- (again)
//! ```
//!
//! A slot *at rest* belongs to the key of its fingerprint, or to none: then it is *vacant*. `claim`
//! is a compare-exchange from the word that a scan read, and carries the new key's first charge:
//! every charge of the old owner that is still in flight fails from then on. Until the header
//! commits, only the claiming thread writes the slot. A *committed* slot is *published* by the
//! claiming thread, or by a charge of the new key on top of its word. A refund takes a slot from
//! rest to committed and back (it *holds* the word): meanwhile it can be charged, but not claimed.
//!
//! A bucket that is being split hands its slots on. The new bucket's are *untouched* (all zero),
//! then held with the word that arrived, then at rest. The old one's is *detached*: its fingerprint
//! says that the key migrates, and its word has the parity that the header does not commit, so no
//! thread changes it. Once the split is over the key has *left* it, and the next insertion
//! *vacates* it.
//!
//! # Orderings
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | S1 | most word writes | `load`, a charge, `refund` | fingerprint; commit; a refund's mark |
//! | S2 | most fingerprint writes | `fingerprint` | the claim; the vacant word |
//! | S3 | a charge, `refund` | `load` | the times in the ring behind the head |
//! | S4 | a charge that books ahead | `load`, `refund` | that a caller has booked: see `refunds` |
//! | S5 | `give_back` | a charge, `load` | what the holder did before; S2 carries it on |
//! | S6 | `detach`; `flip_parity` | `fingerprint`; `load` | the splitting header; the migration |
//! | S7 | `receive`'s fingerprint | `fingerprint` | the word that arrived |
//!
//! Most of these are compare-exchanges, and continue the release sequence of the word. So one that
//! publishes nothing itself releases nothing (`refund`'s hold; the word that `receive` holds until
//! it has its fingerprint), and one that reads nothing afterwards acquires nothing. A charge does
//! both: after refunds and resets a word can come back under another owner, so a charge reads the
//! fingerprint once more. A failed compare-exchange is Relaxed: its value is not used. The second
//! look of a refusal is Relaxed: it only compares the word.

use crate::algorithm::{Moment, Payload, Refund, Rule, Stored, Verdict};
use crate::ring::Ring;
use crate::sync::{AtomicU64, Ordering};
use crate::table::fingerprint::Fingerprint;
use crate::table::ruling::{Ask, Ruling};
use crate::table::word::Word;
use Ordering::{AcqRel, Acquire, Relaxed, Release};

/// A key's fingerprint and word. All zero is a slot at rest that belongs to no key.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Slot {
    fingerprint: AtomicU64,
    word: AtomicU64,
}

/// The outcome of an attempt to charge a word.
enum Attempt<'a> {
    /// Decided, and whether that was written.
    Ruled(Ruling<'a>, bool),
    /// The word has changed.
    Changed,
    /// Not decided: the slot belongs to another key, or the rule needs the slow path.
    Lost,
}

/// A slot claimed for a new key, not yet visible as its own.
#[must_use]
pub(crate) struct Claim<'a> {
    slot: &'a Slot,
    old: Word,
    new: Word,
}

/// A slot that is held while code of the caller runs. Dropped by a panic of that code, it releases
/// the slot.
struct Holding<'a> {
    slot: &'a Slot,
    held: Word,
}

impl Holding<'_> {
    /// The code has returned: the caller releases the slot with the word that it writes.
    fn end(self) {
        std::mem::forget(self);
    }
}

impl Drop for Holding<'_> {
    /// Another refund may hold the same word: then its exchange fails, and it begins again.
    fn drop(&mut self) {
        self.slot.release(self.held);
    }
}

impl Slot {
    /// A slot that no key has had.
    #[cfg(loom)]
    pub(crate) fn untouched() -> Self {
        Self::new(Fingerprint::UNTOUCHED)
    }

    /// A slot at rest that belongs to `fingerprint` and was never charged.
    #[cfg(any(loom, test))]
    pub(crate) fn new(fingerprint: Fingerprint) -> Self {
        Self { fingerprint: AtomicU64::new(fingerprint.bits()), word: AtomicU64::new(Word::ZERO.bits()) }
    }

    /// Of a bucket's entry 0: its header.
    #[inline]
    pub(crate) fn header(&self) -> &AtomicU64 {
        &self.fingerprint
    }

    /// Of a bucket's entry 0: its overflow word.
    #[inline]
    pub(crate) fn overflow(&self) -> &AtomicU64 {
        &self.word
    }

    /// Reads the word. Read it before the fingerprint: of the two, the fingerprint must be the
    /// newer.
    #[inline]
    pub(crate) fn load(&self) -> Word {
        Word::from_bits(self.word.load(Acquire)) // S1, S3, S4, S5, S6
    }

    /// Reads the fingerprint.
    #[inline]
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::from_bits(self.fingerprint.load(Acquire)) // S2, S6, S7
    }

    /// Reads the word and then the fingerprint.
    #[inline]
    pub(crate) fn read(&self) -> (Word, Fingerprint) {
        let word = self.load();
        (word, self.fingerprint())
    }

    /// Reads the word as a hint: read it again to be sure.
    #[inline]
    pub(crate) fn peek(&self) -> Word {
        Word::from_bits(self.word.load(Relaxed))
    }

    /// Whether the fingerprint is this one. A hint: read the word and the fingerprint again to be
    /// sure.
    #[inline]
    pub(crate) fn has_fingerprint(&self, fingerprint: Fingerprint) -> bool {
        self.fingerprint.load(Relaxed) == fingerprint.bits()
    }

    /// Whether the word is still `seen`.
    #[inline]
    pub(crate) fn is_still(&self, seen: Word) -> bool {
        self.word.load(Relaxed) == seen.bits()
    }

    /// at rest -> at rest, or committed -> at rest: decides the request on the word `seen`, which
    /// was the key's, and charges it. `None` when the slot belongs to another key by now. Adds the
    /// failed attempts to `retries`; a refusal sets that to 0.
    #[inline]
    pub(crate) fn charge<'a, R: Rule>(
        &self,
        seen: Word,
        ask: Ask<'_, R>,
        ring: Ring<'a>,
        at: Moment,
        retries: &mut u64,
    ) -> Option<Ruling<'a>> {
        let decide = |stored| Some(ask.rule.decide(ask.rule.read(stored), ring, at, ask.cost));
        self.keep_trying(seen, ask, ring, at, decide, retries)
    }

    /// The same on a word of which a few instructions show that it is of the rule's version.
    #[inline]
    pub(crate) fn charge_displaced<'a, R: Rule>(
        &self,
        seen: Word,
        ask: Ask<'_, R>,
        ring: Ring<'a>,
        at: Moment,
        retries: &mut u64,
    ) -> Option<Ruling<'a>> {
        let decide = |stored| ask.rule.decide_own(stored, ring, at, ask.cost);
        self.keep_trying(seen, ask, ring, at, decide, retries)
    }

    #[inline(always)]
    fn keep_trying<'a, R: Rule>(
        &self,
        mut seen: Word,
        ask: Ask<'_, R>,
        ring: Ring<'a>,
        at: Moment,
        decide: impl Fn(Stored) -> Option<Verdict>,
        retries: &mut u64,
    ) -> Option<Ruling<'a>> {
        loop {
            match self.attempt(seen, ask, ring, at, &decide) {
                Attempt::Ruled(ruling, is_written) => {
                    // A refusal writes nothing, and so no counter of retried charges either.
                    if !is_written {
                        *retries = 0;
                    }
                    return Some(ruling);
                }
                // The slot is another key's by now: the caller looks for the key anew.
                Attempt::Lost => return None,
                // Lost to another charge: decide on the word that it left.
                Attempt::Changed => {
                    *retries += 1;
                    seen = self.reload(ask.fingerprint)?;
                }
            }
        }
    }

    /// The same in one attempt.
    #[inline(always)]
    pub(crate) fn charge_once<'a, R: Rule>(
        &self,
        seen: Word,
        ask: Ask<'_, R>,
        ring: Ring<'a>,
        at: Moment,
    ) -> Option<Ruling<'a>> {
        let decide = |stored| ask.rule.decide_own(stored, ring, at, ask.cost);
        match self.attempt(seen, ask, ring, at, decide) {
            Attempt::Ruled(ruling, _) => Some(ruling),
            // Lost to another charge, or to another key: the slow path looks again.
            Attempt::Changed | Attempt::Lost => None,
        }
    }

    // Inlined by hand: the compiler does not inline what has several callers.
    #[inline(always)]
    fn attempt<'a, R: Rule>(
        &self,
        seen: Word,
        ask: Ask<'_, R>,
        ring: Ring<'a>,
        at: Moment,
        decide: impl Fn(Stored) -> Option<Verdict>,
    ) -> Attempt<'a> {
        let (allowed, payload) = match decide(seen.payload()) {
            Some(Verdict::Allow(payload)) => (true, payload),
            Some(Verdict::DenyAndCount(payload)) => (false, payload),
            // No thread has charged the word since it was read: the refusal stands.
            Some(Verdict::Deny(payload)) if self.is_still(seen) => {
                return Attempt::Ruled(Ruling::own(false, payload, ring), false);
            }
            // Refused by a word that is gone: the one in its place may admit the request.
            Some(Verdict::Deny(_)) => return Attempt::Changed,
            // The word may be another version's: only the slow path reads it.
            None => return Attempt::Lost,
        };
        if !ask.rule.stage(seen.payload(), ring, at, ask.cost, || self.is_still(seen)) {
            // Another request took the ring's entries.
            return Attempt::Changed;
        }
        let charged = seen.charged(payload.stored());
        match self.word.compare_exchange(seen.bits(), charged.bits(), AcqRel, Relaxed) {
            // S1, S3, S4, S5
            // Charged.
            Ok(_) if self.was_of(ask.fingerprint) => {
                Attempt::Ruled(Ruling::own(allowed, payload, ring), true)
            }
            // Another owner's word came to the same value: that key has been charged.
            Ok(_) => Attempt::Lost,
            // Another thread changed the word first.
            Err(_) => Attempt::Changed,
        }
    }

    /// at rest -> at rest: charges a request as it was decided on the word `seen`, and staged if
    /// the rule has a ring. `false` when the slot has changed since: decide again.
    #[inline]
    pub(crate) fn charge_seen(&self, seen: Word, payload: Payload, fingerprint: Fingerprint) -> bool {
        let charged = seen.charged(payload.stored()).bits();
        // Under another fingerprint a later owner's word had the same value: that key has been
        // charged.
        self.word.compare_exchange(seen.bits(), charged, AcqRel, Relaxed).is_ok() // S1, S3, S4
            && self.was_of(fingerprint)
    }

    /// Whether the word that was just changed was the key's. A migrating key counts: changes before
    /// its word is [detached](Self::detach) migrate with it, and later ones fail.
    #[inline]
    fn was_of(&self, fingerprint: Fingerprint) -> bool {
        self.fingerprint().is_same_key(fingerprint)
    }

    /// The current word, if it is at rest and the key's.
    fn reload(&self, fingerprint: Fingerprint) -> Option<Word> {
        let word = self.load();
        (self.fingerprint() == fingerprint && !word.is_frozen()).then_some(word)
    }

    /// Gives the slot to `fingerprint`, with this payload. Before the table is shared.
    pub(crate) fn give_to(&self, fingerprint: Fingerprint, payload: Payload) {
        self.fingerprint.store(fingerprint.bits(), Relaxed);
        self.word.store(self.load().charged(payload.stored()).bits(), Relaxed);
    }

    /// at rest or committed -> committed -> at rest: changes the word `seen` as `less` says. `None`
    /// when the slot has changed: scan again.
    ///
    /// The slot is held meanwhile, so that the fingerprint belongs to the word that is lowered, and
    /// what `less` knows of other refunds is no older than the word. `less` reads the caller's
    /// clock: if that panics, the slot is [released](Holding).
    pub(crate) fn refund(
        &self,
        seen: Word,
        fingerprint: Fingerprint,
        less: impl FnOnce(Stored) -> Option<Refund>,
    ) -> Option<u64> {
        let held = seen.held();
        if !seen.is_frozen() {
            // `None`: charged, claimed or held by another thread since it was read.
            self.word.compare_exchange(seen.bits(), held.bits(), Acquire, Relaxed).ok()?; // S1, S4
        }
        let mine = self.was_of(fingerprint);
        let holding = Holding { slot: self, held };
        let refund = if mine { less(seen.payload()) } else { None };
        holding.end();
        let lowered = seen.charged(refund.map_or(seen.payload(), |refund| refund.payload.stored()));
        // `None`: charged while it was held, and so not lowered.
        self.word.compare_exchange(held.bits(), lowered.bits(), Release, Relaxed).ok()?; // S1, S3
        mine.then_some(refund.map_or(0, |refund| refund.units))
    }

    /// at rest -> at rest: lowers the payload by `less`, which the caller has charged and not given
    /// back: so the slot is still the key's, and the payload stays at zero or above. Cannot fail.
    /// Returns the word before.
    #[inline]
    pub(crate) fn give_back(&self, less: u64) -> Word {
        let before = Word::from_bits(self.word.fetch_sub(Word::payload_of(less), Release)); // S5
        debug_assert!(
            before.payload().bits() >= less,
            "what is given back must have been in flight: {before:?}"
        );
        before
    }

    /// at rest, held or committed -> detached: takes a key that `leaves` out of the slot, and
    /// returns its fingerprint and word. From here on every charge in flight fails. `None` when
    /// there is no such key, or the split `is_over`.
    ///
    /// First the fingerprint, so that no new charge begins; then the word's parity, which rules do
    /// not read: charges that came before are part of the word. No thread writes a slot that has
    /// both, so every helper returns the same. `counts`: whether the header has committed the word.
    /// `is_over` reads the header after the slot, so that no later owner is detached.
    pub(crate) fn detach(
        &self,
        leaves: impl Fn(Fingerprint) -> bool,
        counts: impl Fn(Word) -> bool,
        is_over: impl Fn() -> bool,
    ) -> Option<(Fingerprint, Word)> {
        loop {
            let (word, fingerprint) = self.read();
            let is_pending = word.is_frozen() && !counts(word);
            if is_pending
                || !(fingerprint.is_key() || fingerprint.is_migrating())
                || !leaves(fingerprint)
                || is_over()
            {
                return None;
            }
            if fingerprint.is_key() {
                let (old, new) = (fingerprint.bits(), fingerprint.migrating().bits());
                // Where it fails, another helper was first: the next turn reads what it left.
                let _ = self.fingerprint.compare_exchange(old, new, Release, Relaxed); // S6
            } else if !counts(word) {
                // By its parity the word is detached: no thread changes the slot any more.
                return Some((fingerprint.kept(), word));
            } else {
                // Where it fails, the key was charged meanwhile: that charge migrates with it.
                self.flip_parity(word);
            }
        }
    }

    /// Flips the word's parity, if the word is still `seen`.
    pub(crate) fn flip_parity(&self, seen: Word) {
        let flipped = seen.detached();
        // Where it fails, the word has changed: the caller reads it again.
        let _ = self.word.compare_exchange(seen.bits(), flipped.bits(), Release, Relaxed); // S6
    }

    /// untouched -> held -> at rest: receives the key that `moved` here, or none. First the word,
    /// held, then the fingerprint, by which it can be charged: no word at rest is without a
    /// fingerprint.
    pub(crate) fn receive(&self, moved: Option<(Fingerprint, Word)>) {
        let arrived = moved.map(|(_, word)| Word::ZERO.charged(word.payload()));
        if let Some(arrived) = arrived {
            // Where it fails, another helper has written the same word, or the key's first charge
            // came on top of it.
            let _ = self.word.compare_exchange(Word::ZERO.bits(), arrived.held().bits(), Relaxed, Relaxed);
        }
        let fingerprint = moved.map_or(Fingerprint::VACANT, |(fingerprint, _)| fingerprint);
        let (old, new) = (Fingerprint::UNTOUCHED.bits(), fingerprint.bits());
        // Where it fails, another helper has named the same key.
        let _ = self.fingerprint.compare_exchange(old, new, Release, Relaxed); // S2, S7
        if let Some(arrived) = arrived {
            self.release(arrived.held());
        }
    }

    /// held or committed -> at rest, if the word is still `held`.
    pub(crate) fn release(&self, held: Word) {
        let released = held.published();
        // Where it fails, a charge on top of the held word has released it.
        let _ = self.word.compare_exchange(held.bits(), released.bits(), Release, Relaxed); // S1
    }

    /// left, at rest -> vacant: gives the slot that `owner` has left the word of a slot that was
    /// never charged, with the parity that the header commits. One thread does so: the fingerprint
    /// does not come back.
    ///
    /// The words of `owner` had that parity, so the next owner's have the other: a thread that
    /// stalled with one of them does nothing to a claim. And no word of an owner is that small.
    pub(crate) fn vacate(&self, owner: Fingerprint, word: Word) {
        let (left, emptied) = (owner.bits(), Fingerprint::EMPTIED.bits());
        if self.fingerprint.compare_exchange(left, emptied, Relaxed, Relaxed).is_ok() {
            // Until the slot is vacant, it is not at rest by any word. A thread that reads this
            // word must not find the fingerprint of the key that has left: it would charge it.
            self.word.store(word.bits(), Release); // S1
            self.fingerprint.store(Fingerprint::VACANT.bits(), Release); // S2
        }
        // Where it failed, another thread vacates the slot.
    }

    /// at rest -> claimed: takes the slot for a new key with this payload. `None` when the word is
    /// no longer `seen`.
    pub(crate) fn claim(&self, seen: Word, payload: Payload) -> Option<Claim<'_>> {
        let new = seen.claimed(payload);
        // `None`: the owner was charged meanwhile, or another key was faster.
        self.word.compare_exchange(seen.bits(), new.bits(), Release, Relaxed).ok()?; // S1
        Some(Claim { slot: self, old: seen, new })
    }
}

impl Claim<'_> {
    /// claimed -> named.
    pub(crate) fn write_fingerprint(&self, fingerprint: Fingerprint) {
        self.slot.fingerprint.store(fingerprint.bits(), Release); // S2
    }

    /// committed -> at rest.
    pub(crate) fn publish(self) {
        let (committed, published) = (self.new.bits(), self.new.published().bits());
        // Where it fails, a charge of the key has published it already.
        let _ = self.slot.word.compare_exchange(committed, published, Release, Relaxed); // S1
    }

    /// named -> at rest, vacant: the header did not commit. No charge in flight expects the word
    /// that is left. `fingerprint` is [`VACANT`](Fingerprint::VACANT), or
    /// [`IN_DEBT`](Fingerprint::IN_DEBT) if the old owner had debt.
    pub(crate) fn abandon(self, fingerprint: Fingerprint, bump: impl Fn(Stored) -> Payload) {
        // A swap: it comes after a concurrent `detach` of this fingerprint. The word is published
        // below.
        self.slot.fingerprint.swap(fingerprint.bits(), Release); // S2, for S5
        let bumped = self.old.charged(bump(self.old.payload()).stored());
        self.slot.word.store(bumped.bits(), Release); // S1
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
