//! A bucket: fifteen slots on four cache lines, and the one header through which its membership changes.
//!
//! ```text
//!  line 0 | header   | overflow | fingerprint word | fingerprint word | fingerprint word |
//!  line 1 | fingerprint word | fingerprint word | fingerprint word | fingerprint word |
//!  line 2 | ...
//!  line 3 | ...
//! ```
//!
//! A key's probe sequence is its bucket's slots: its home slot, the rest of that line, the other lines. Most hits touch
//! one line. An insertion is four steps and three read-modify-writes: *claim* a slot at rest, *fingerprint* it, *commit* by a
//! compare-exchange of the header from the one that the scan began with, *publish*. Two insertions of one key cannot
//! both commit, since the second's header has changed; a failed commit means that another succeeded or that somebody
//! makes do in a full bucket, which is tried a few times only: so inserters cannot abort each other forever. The clock of
//! an insertion is read after its scan, so that it cannot miss a charge that was made, and ran out, while it scanned.
//!
//! # Orderings
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | B1 | the header's commit | every header load | the committed slot's fingerprint and word |
//! | B2 | `change_shared` | `shared` | the version of the quota that charged the overflow word: who is refused on its account asks the later one |
//!
//! What an insertion owes for the overflow word needs no edge of its own. Two compare-exchanges of the header do not both
//! succeed from one value: either the insertion has seen the header that a charge of the overflow word left, and so the
//! charge (B1), or the one that commits second fails.
//!
//! A key that is handed out of the bucket with a debt leaves that debt in the overflow word, too, before it goes: so
//! the overflow word owes at least as much as any key that is not in the bucket, whatever is refunded in it later.

use crate::algorithm::Rule;
use crate::ring::Ring;
use crate::sync::{AtomicU64, Ordering};
use crate::table::fingerprint::is_migrating;
use crate::table::full::Rest;
use crate::table::header::Header;
use crate::table::slot::{Ask, Ruling, Slot};
use crate::table::word::Word;
use crate::table::{Table, prefetch};
use crate::time::Timestamp;
use Ordering::{Acquire, Relaxed, Release};

/// Places a line of the cache.
const WIDTH: usize = if cfg!(loom) { 3 } else { 4 };

/// Places a bucket: its slots and, in place 0, its header. Under loom, which explores all interleavings, two slots.
pub(crate) const ENTRIES: usize = if cfg!(loom) { 3 } else { 16 };

/// Slots a bucket.
pub(crate) const SLOTS: usize = ENTRIES - 1;

/// Fifteen slots and their header. All zero is an empty bucket.
#[repr(C, align(256))]
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Place 0 is nobody's slot: its fingerprint is the bucket's header, its word the overflow word.
    entries: [Slot; ENTRIES],
}

/// A bucket of a table.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) bucket: &'a Bucket,
    pub(crate) table: &'a Table,
}

/// What a scan of the bucket found.
pub(super) enum Found {
    /// The key's slot, and the word by which it is the key's.
    Mine(usize, Word),
    /// Not the key.
    Others,
    /// The bucket changed under the scan.
    Changed,
}

/// A key's home: the place where it is looked for first. Its line is its home line.
#[inline]
pub(super) fn home_slot(fingerprint: u64) -> usize {
    1 + (((fingerprint >> 32) * SLOTS as u64) >> 32) as usize
}

/// The probe sequence of a key: its home, the rest of that line, the other lines.
pub(super) fn probes(fingerprint: u64) -> impl Iterator<Item = usize> {
    let home = home_slot(fingerprint);
    (0..ENTRIES.next_power_of_two())
        .map(move |step| home ^ step)
        .filter(|&index| index != 0 && index < ENTRIES)
}

impl Bucket {
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { entries: std::array::from_fn(|_| Slot::untouched()) }
    }

    /// The slot at a place.
    #[inline]
    pub(super) fn slot(&self, index: usize) -> &Slot {
        &self.entries[index % ENTRIES]
    }

    /// The place of a key that is not at home, at a probe_home. Which one it is cannot be predicted, so nothing branches
    /// on it.
    pub(super) fn displaced(&self, fingerprint: u64) -> Option<usize> {
        let home = home_slot(fingerprint);
        (0..ENTRIES.next_power_of_two() / WIDTH).find_map(|step| {
            let line = ((home / WIDTH) ^ step) * WIDTH;
            let hit = |nth: usize| u32::from(self.slot(line + nth).has_fingerprint(fingerprint)) << nth;
            // Place 0 is the header.
            let hits = (0..WIDTH).fold(0, |hits, nth| hits | hit(nth)) & !u32::from(line == 0);
            (hits != 0).then(|| line + hits.trailing_zeros() as usize)
        })
    }

    /// The overflow word: the payload of what the keys without a slot owe together.
    pub(super) fn overflow(&self) -> &AtomicU64 {
        self.entries[0].overflow()
    }

    /// What the overflow word says.
    pub(super) fn shared(&self) -> u64 {
        self.overflow().load(Acquire) // B2
    }

    /// Changes the overflow word. `false` when it is no longer `from`.
    pub(super) fn change_shared(&self, from: u64, to: u64) -> bool {
        self.overflow().compare_exchange(from, to, Release, Relaxed).is_ok() // B2
    }

    pub(super) fn header(&self) -> Header {
        Header::from_bits(self.entries[0].header().load(Acquire)) // B1, B4, B5
    }

    pub(super) fn advance(&self, from: Header, to: Header) -> bool {
        self.entries[0].header().compare_exchange(from.bits(), to.bits(), Release, Relaxed).is_ok() // B1, B4, B5
    }
}

impl<'a> View<'a> {
    /// Asks for the line that `check` looks at first. It is found by the fingerprint's home alone, so nothing is read here.
    #[inline]
    pub(crate) fn prefetch(self, fingerprint: u64) {
        prefetch(self.bucket.slot(home_slot(fingerprint)));
    }

    /// Asks for all lines of the bucket.
    #[inline(always)]
    pub(crate) fn prefetch_all(self) {
        (0..ENTRIES).step_by(WIDTH).for_each(|line| prefetch(self.bucket.slot(line)));
    }

    /// Decides a request and charges it, and says at what time by `clock`, which an insertion reads once more.
    ///
    /// Three keys in four are at home, and the processor learns to go ahead as if all were: it then knows the slot's
    /// address before its line has come, and can begin with the checks that follow. (An address that depends on what
    /// the line holds costs a third more on keys that are not in the cache.) What bounds the checks in flight is the
    /// processor's registers, not their latency: a value less on this path is half a nanosecond. A prefetch takes none, so
    /// all lines are named at once: the others are on their way before it is known that the key is not at home.
    #[inline(always)]
    pub(crate) fn check<R: Rule>(
        self,
        ask: Ask<'_, R>,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'a>, Timestamp) {
        let home = home_slot(ask.fingerprint);
        self.prefetch_all();
        let now = clock();
        let (word, fingerprint) = self.bucket.slot(home).read();
        if fingerprint == ask.fingerprint
            && !word.is_frozen()
            && let Some(at) = ask.rule.quick_moment(now)
            && let Some(ruling) = self.bucket.slot(home).charge_quickly(word, ask, self.ring::<R>(home), at)
        {
            return (ruling, now);
        }
        self.check_displaced(ask.rule, ask.fingerprint, ask.cost, now, clock)
    }

    /// The same without a look at the key's home first, and never inlined: for requests that are in no hurry.
    pub(crate) fn check_anywhere<R: Rule>(
        self,
        ask: Ask<'_, R>,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'a>, Timestamp) {
        let now = clock();
        self.enter(ask.rule, ask.fingerprint, ask.cost, now, clock)
    }

    /// Looks for the key in the other places.
    // The arguments one by one: a struct of them would be written to the stack on every hit.
    #[inline(never)]
    fn check_displaced<R: Rule>(
        self,
        rule: &R,
        fingerprint: u64,
        cost: u64,
        now: Timestamp,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'a>, Timestamp) {
        let ask = Ask { rule, fingerprint, cost };
        if let Some(index) = self.bucket.displaced(fingerprint)
            && let (word, owner) = self.bucket.slot(index).read()
            && owner == fingerprint
            && !word.is_frozen()
            && let Some(at) = rule.quick_moment(now)
        {
            // At home it was found before, and lost to somebody else.
            let mut retries = u64::from(index == home_slot(fingerprint));
            let (slot, ring) = (self.bucket.slot(index), self.ring::<R>(index));
            if let Some(ruling) = slot.charge_displaced(word, ask, ring, at, &mut retries) {
                self.table.events(fingerprint).retried(retries);
                return (ruling, now);
            }
        }
        self.enter(rule, fingerprint, cost, now, clock)
    }

    /// Looks for the key in all slots, and shows those at rest that are not the key's to `other`.
    #[inline]
    pub(super) fn scan(self, fingerprint: u64, header: Header, other: impl FnMut(Rest)) -> Found {
        let repaired = |index, word| {
            self.repair_parity(index, word, header);
            false
        };
        self.scan_by(fingerprint, header, repaired, other)
    }

    /// The same where `counts_anyway` says whether a word at rest that does not count is its key's all the same.
    #[inline]
    pub(super) fn scan_by(
        self,
        fingerprint: u64,
        header: Header,
        counts_anyway: impl Fn(usize, Word) -> bool,
        mut other: impl FnMut(Rest),
    ) -> Found {
        for index in probes(fingerprint) {
            let slot = self.bucket.slot(index);
            let (word, owner) = slot.read();
            let is_at_rest = !word.is_frozen() && (!is_migrating(owner) || self.has_migrated(owner, header));
            if is_at_rest && !header.commits(index, word) && !counts_anyway(index, word) {
                return Found::Changed;
            } else if owner != fingerprint {
                if is_at_rest {
                    other(Rest { index, word, fingerprint: owner });
                }
            } else if is_at_rest {
                return Found::Mine(index, word);
            } else if self.bucket.header().commits(index, word) {
                // Committed and not yet published: charged in place, unless the fingerprint read was the slot's last one.
                return if slot.fingerprint() == fingerprint {
                    Found::Mine(index, word)
                } else {
                    Found::Changed
                };
            }
            // Otherwise somebody is inserting the same key and has not committed: compete.
        }
        Found::Others
    }

    /// Makes a word at rest count that does not, by the header that was read before it. Either the bucket has changed since,
    /// and there is nothing to be done; or somebody was about to [part](Slot::part) the word of the slot's last owner, stalled
    /// until the slot was another's, and detached that one's, which was the same. Its key does not mind. But a claim of
    /// it would look committed at once, and a word that is held would look claimed.
    #[cold]
    fn repair_parity(self, index: usize, word: Word, header: Header) {
        if self.bucket.header() == header {
            self.bucket.slot(index).flip_parity(word);
        }
    }

    #[inline]
    pub(super) fn ring<R: Rule>(self, index: usize) -> Ring<'a> {
        if R::RINGED { self.table.ring(self.bucket, index - 1) } else { Ring::NONE }
    }
}
