//! A bucket's header, as a value.
//!
//! ```text
//!   63    49   48       47         46   41   40                      0
//!  +--------+--------+-----------+-------+---------------------------+
//!  | parity | shared | splitting | level |  changes                  |
//!  +--------+--------+-----------+-------+---------------------------+
//! ```
//!
//! *Parity*: for each slot, the parity of the words that the header commits. *Shared*: the overflow
//! word has been charged. *Splitting*: some keys are migrating to the bucket's sibling. *Level*:
//! how many low bits of a fingerprint say that its key belongs here; 0 in a bucket that was never
//! opened nor split. *Changes*: counts insertions and charges of the overflow word.
//!
//! Every compare-exchange on a header changes one of the last three, and a level never falls: so a
//! header only comes back after 2^41 changes within one thread's stall.

use crate::bits::Field;
use crate::table::slot_index::{ENTRIES, SlotIndex};
use crate::table::word::Word;

const CHANGES: Field = Field::lowest(41);
const LEVEL: Field = CHANGES.above(6);
const SPLITTING: Field = LEVEL.above(1);
const SHARED: Field = SPLITTING.above(1);
const PARITY: Field = SHARED.above(15);
const _: () = assert!(PARITY.end() == u64::BITS, "the fields must fill the word");
const _: () = assert!(ENTRIES <= 16, "every slot must have its parity bit");

/// A header that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header(u64);

impl Header {
    /// The header of a bucket that was never used.
    pub(crate) const UNTOUCHED: Self = Self(0);

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Whether the overflow word may hold a debt.
    pub(crate) fn is_shared(self) -> bool {
        SHARED.get(self.0) != 0
    }

    /// Whether keys are migrating to the bucket's sibling.
    pub(crate) fn is_splitting(self) -> bool {
        SPLITTING.get(self.0) != 0
    }

    /// The bucket's level; 0 when it was never opened nor split.
    pub(crate) fn level(self) -> u32 {
        LEVEL.get(self.0) as u32
    }

    /// Whether the header commits the `word` of slot `index`.
    pub(crate) fn commits(self, index: SlotIndex, word: Word) -> bool {
        self.parity(index) == word.parity()
    }

    fn parity(self, index: SlotIndex) -> u64 {
        (PARITY.get(self.0) >> (index.get() - 1)) & 1
    }

    /// The word of slot `index` when it was never charged.
    pub(crate) fn vacant(self, index: SlotIndex) -> Word {
        Word::vacant(self.parity(index))
    }

    /// Zero if the header [commits](Self::commits) the `word` of slot `index`. To be joined with
    /// that of other slots: then it takes fewer instructions.
    #[inline]
    pub(crate) fn differing(self, index: SlotIndex, word: Word) -> u64 {
        word.parity_unlike(self.0, PARITY.start() + index.get() as u32 - 1)
    }

    /// The header that commits a claim of slot `index`. `shared`: whether the overflow word still
    /// holds a debt.
    pub(crate) fn committing(self, index: SlotIndex, shared: bool) -> Self {
        let flipped = PARITY.get(self.0) ^ (1 << (index.get() - 1));
        Self(PARITY.set(SHARED.set(changed(self.0), u64::from(shared)), flipped))
    }

    /// The header once the overflow word is charged.
    pub(crate) fn sharing(self) -> Self {
        Self(SHARED.set(changed(self.0), 1))
    }

    /// The header of a bucket whose keys begin to migrate.
    pub(crate) fn splitting(self) -> Self {
        Self(SPLITTING.set(self.0, 1))
    }

    /// The header of a bucket at `level` after its split.
    pub(crate) fn split(self, level: u32) -> Self {
        Self(LEVEL.set(SPLITTING.set(self.0, 0), level.into()))
    }

    /// The header with which a bucket's sibling opens, at `level`.
    pub(crate) fn sibling(self, level: u32) -> Self {
        Self(LEVEL.of(level.into()) | SHARED.of(SHARED.get(self.0)))
    }
}

fn changed(word: u64) -> u64 {
    CHANGES.set(word, (CHANGES.get(word) + 1) & CHANGES.max())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A thread that stalls over so many changes must not commit by its old header.
    const STALL: u64 = 1 << 18;

    #[test]
    fn a_header_does_not_recur_however_often_a_bucket_shares() {
        let stale = Header::UNTOUCHED.committing(SlotIndex::new(3), false).sharing();
        let mut header = stale;
        for nth in 1..=STALL {
            header = header.sharing();
            assert!(header != stale, "after {nth} shares");
        }
    }

    #[test]
    fn a_header_does_not_recur_however_many_keys_are_inserted() {
        let stale = Header::UNTOUCHED.sharing();
        let mut header = stale;
        for nth in 1..=STALL {
            header = header.committing(SlotIndex::new(3), true);
            assert!(header != stale, "after {nth} insertions");
        }
    }

    /// The counter wraps within its field.
    #[test]
    fn a_counter_that_comes_round_changes_nothing_else() {
        let full = Header(Header::UNTOUCHED.sibling(5).sharing().bits() | CHANGES.of(CHANGES.max()));
        let round = full.sharing();
        assert_eq!((round.level(), round.is_shared(), round.is_splitting()), (5, true, false));
        assert_eq!(CHANGES.get(round.bits()), 0);
    }
}
