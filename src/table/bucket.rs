//! A bucket of the hash table (no token bucket): fifteen slots on four cache lines, and the header
//! through which its membership changes.
//!
//! ```text
//!  byte   0               8               16              24              32        48       63
//!  line 0 | header        | overflow word | fingerprint 1 | word 1        | slot 2  | slot 3   |
//!  line 1 | fingerprint 4 | word 4        | fingerprint 5 | word 5        | slot 6  | slot 7   |
//!  line 2 | slots 8 to 11                                                                      |
//!  line 3 | slots 12 to 15                                                                     |
//! ```
//!
//! Sixteen entries of two words. Entry 0 is the header and the overflow word: the payload of what
//! the keys without a slot owe together. The others are slots. A key's probe sequence is its home
//! slot, the rest of that line, the other lines; most hits touch one line.
//!
//! An insertion has four steps and three read-modify-writes: *claim* a slot at rest, *write the
//! fingerprint*, *commit* by a compare-exchange of the header from the value that the scan began
//! with, *publish*. Two insertions of one key cannot both commit, since the first changes the
//! header. A failed commit means that another insertion succeeded, or that a thread shares or
//! evicts in a full bucket, which each thread tries a few times only. An insertion reads the clock
//! after its scan, so that it cannot miss a charge that was made, and expired, during the scan.
//!
//! # Orderings
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | B1 | the header's commit | every header load | the committed slot's fingerprint and word |
//! | B2 | `change_shared` | `shared` | the version of the quota that charged the overflow word |
//!
//! B4 and B5, of a split, are edges of `growth`.
//!
//! An insertion needs no edge of its own to see the overflow word. Of two compare-exchanges of the
//! header from one value only one succeeds: either the insertion has read the header that a charge
//! of the overflow word left, and so the charge (B1), or the later of the two fails.
//!
//! A key that is evicted with a debt leaves that debt in the overflow word first. So the overflow
//! word is at least the debt of any key that is not in the bucket, also after a refund in its old
//! slot later.

use crate::algorithm::Stored;
use crate::sync::{AtomicU64, Ordering};
use crate::table::fingerprint::Fingerprint;
use crate::table::header::Header;
use crate::table::slot::Slot;
use crate::table::slot_index::{ENTRIES, SlotIndex, home_line};
use Ordering::{Acquire, Relaxed, Release};

/// Fifteen slots and their header. All zero is an empty bucket.
#[repr(C, align(256))]
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Entry 0 is the header and the overflow word.
    entries: [Slot; ENTRIES],
}

impl Bucket {
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { entries: std::array::from_fn(|_| Slot::untouched()) }
    }

    /// The slot of this index.
    #[inline]
    pub(super) fn slot(&self, index: SlotIndex) -> &Slot {
        &self.entries[index.get() % ENTRIES]
    }

    /// The slot index of a displaced key. A hint. Most are in their home line, which has arrived.
    /// Which slot it is cannot be predicted, so no branch depends on it.
    #[inline(always)]
    pub(super) fn slot_of(&self, fingerprint: Fingerprint) -> Option<SlotIndex> {
        let is_in = |index| self.slot(index).fingerprint() == fingerprint;
        let near =
            home_line(fingerprint).fold(0, |near, index| if is_in(index) { index.get() } else { near });
        // A header that looks like the fingerprint is no slot: 0, too.
        if near != 0 {
            return Some(SlotIndex::new(near));
        }
        // Four chains of conditional moves.
        let mut found = [0; 4];
        for index in SlotIndex::all() {
            let chain = &mut found[index.get() % 4];
            *chain = if is_in(index) { index.get() } else { *chain };
        }
        // The fingerprint stands in two slots while two threads insert the key.
        let index = found[0].max(found[1]).max(found[2].max(found[3]));
        (index != 0).then(|| SlotIndex::new(index))
    }

    /// The overflow word: the payload of what the keys without a slot owe together.
    pub(super) fn overflow(&self) -> &AtomicU64 {
        self.entries[0].overflow()
    }

    /// Reads the overflow word.
    pub(super) fn shared(&self) -> Stored {
        Stored::new(self.overflow().load(Acquire)) // B2
    }

    /// Changes the overflow word. `false` when it is no longer `from`.
    pub(super) fn change_shared(&self, from: Stored, to: Stored) -> bool {
        // Where it fails, another thread has charged the word: it is read again with the header.
        self.overflow().compare_exchange(from.bits(), to.bits(), Release, Relaxed).is_ok() // B2
    }

    /// Reads the header.
    pub(super) fn header(&self) -> Header {
        Header::from_bits(self.entries[0].header().load(Acquire)) // B1, B4, B5
    }

    /// Changes the header. `false` when it is no longer `from`: an insertion, a split or a shared
    /// charge came in between.
    pub(super) fn advance(&self, from: Header, to: Header) -> bool {
        let (from, to) = (from.bits(), to.bits());
        self.entries[0].header().compare_exchange(from, to, Release, Relaxed).is_ok() // B1, B4, B5
    }
}
