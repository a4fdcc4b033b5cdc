//! A bucket's header as a value that somebody read.
//!
//! ```text
//!   63    49   48       47         46   41   40        16   15         0
//!  +--------+--------+-----------+-------+-------------+--------------+
//!  | parity | shared | splitting | level |  insertions |  shares      |
//!  +--------+--------+-----------+-------+-------------+--------------+
//! ```
//!
//! *Parity*: a bit a slot, the parity of the words that count. *Shared*: the bucket's overflow word has been charged.
//! *Splitting*: some of its keys are moving to its sibling. *Level*: how many of a name's bits tell that its key belongs
//! here; 0 in a bucket that was never opened nor split. *Insertions* and *shares*: how often each was begun. Every
//! compare-exchange on a header moves one of the last four, so a header only comes back after 2^25 insertions, or 2^16
//! shares, within one thread's stall.

use crate::bits::Field;
use crate::table::bucket::PLACES;
use crate::table::word::Word;

const SHARES: Field = Field::lowest(16);
const INSERTIONS: Field = SHARES.above(25);
const LEVEL: Field = INSERTIONS.above(6);
const SPLITTING: Field = LEVEL.above(1);
const SHARED: Field = SPLITTING.above(1);
const PARITY: Field = SHARED.above(15);
const _: () = assert!(PARITY.end() == u64::BITS, "the fields must fill the word");
const _: () = assert!(PLACES <= 16, "every slot must have its parity bit");

/// What a header said when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header(u64);

impl Header {
    /// The header of a bucket that nobody has used.
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

    /// Whether keys are moving from here to the bucket's sibling.
    pub(crate) fn is_splitting(self) -> bool {
        SPLITTING.get(self.0) != 0
    }

    /// The bucket's level; 0 when it was never opened nor split.
    pub(crate) fn level(self) -> u32 {
        LEVEL.get(self.0) as u32
    }

    /// Whether the `word` at place `index` counts.
    pub(crate) fn commits(self, index: usize, word: Word) -> bool {
        (PARITY.get(self.0) >> (index - 1)) & 1 == word.parity()
    }

    /// Whether no slot was inserted into since `earlier`, and no key has begun to move.
    pub(crate) fn has_the_members_of(self, earlier: Self) -> bool {
        let members = |header: Self| [INSERTIONS, LEVEL, SPLITTING].map(|field| field.get(header.0));
        members(self) == members(earlier)
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

    /// The header of a bucket whose keys begin to move.
    pub(crate) fn splitting(self) -> Self {
        Self(SPLITTING.set(self.0, 1))
    }

    /// The header of a bucket, at `level` from now on, whose keys at the places in `moved` have gone.
    pub(crate) fn split(self, level: u32, moved: u64) -> Self {
        let parity = PARITY.get(self.0) ^ (moved >> 1);
        Self(PARITY.set(LEVEL.set(SPLITTING.set(self.0, 0), level.into()), parity))
    }

    /// The header with which the sibling of a bucket opens, at `level`.
    pub(crate) fn sibling(self, level: u32) -> Self {
        Self(LEVEL.of(level.into()) | SHARED.of(SHARED.get(self.0)))
    }
}

fn next(counter: Field, word: u64) -> u64 {
    counter.set(word, (counter.get(word) + 1) & counter.max())
}
