//! A bucket's header as a value that somebody read.
//!
//! ```text
//!   63    49   48      47        24   23         0
//!  +--------+--------+-------------+--------------+
//!  | parity | shared |  insertions |  shares      |
//!  +--------+--------+-------------+--------------+
//! ```
//!
//! *Parity*: a bit a slot, the parity of the words that count. *Shared*: the bucket's overflow word has been charged.
//! *Insertions* and *shares*: how often each was begun; every compare-exchange on a header moves one of them, so a
//! header only comes back after 2^24 of one within one thread's stall.

use crate::bits::Field;
use crate::table::bucket::PLACES;
use crate::table::word::Word;

const SHARES: Field = Field::lowest(24);
const INSERTIONS: Field = SHARES.above(24);
const SHARED: Field = INSERTIONS.above(1);
const PARITY: Field = SHARED.above(15);
const _: () = assert!(PARITY.end() == u64::BITS, "the fields must fill the word");
const _: () = assert!(PLACES <= 16, "every slot must have its parity bit");

/// What a header said when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header(u64);

impl Header {
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

    /// Whether the `word` at place `index` counts.
    pub(crate) fn commits(self, index: usize, word: Word) -> bool {
        (PARITY.get(self.0) >> (index - 1)) & 1 == word.parity()
    }

    /// Whether no slot was inserted into since `earlier`.
    pub(crate) fn has_the_members_of(self, earlier: Self) -> bool {
        INSERTIONS.get(self.0) == INSERTIONS.get(earlier.0)
    }

    /// The header that commits a claim of place `index`. `shared`: whether the overflow word still holds a debt.
    pub(crate) fn committing(self, index: usize, shared: bool) -> Self {
        let flipped = PARITY.get(self.0) ^ (1 << (index - 1));
        Self(PARITY.set(SHARED.set(next(INSERTIONS, self.0), u64::from(shared)), flipped))
    }

    /// The header of a bucket whose overflow word is about to be charged.
    pub(crate) fn sharing(self) -> Self {
        Self(SHARED.set(next(SHARES, self.0), 1))
    }
}

fn next(counter: Field, word: u64) -> u64 {
    counter.set(word, (counter.get(word) + 1) & counter.max())
}
