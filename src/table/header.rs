//! A bucket's header as a value that somebody read.
//!
//! ```text
//!   63    49   48      47  46   45   40   39        16   15         0
//!  +--------+--------+--------+-------+-------------+--------------+
//!  | parity | shared | motion | level |  insertions |  shares      |
//!  +--------+--------+--------+-------+-------------+--------------+
//! ```
//!
//! *Parity*: a bit a slot, the parity of the words that count. *Shared*: the bucket's overflow word has been charged.
//! *Motion*: some of its keys are moving to its sibling, or all of them to the other half, or they have gone there. *Level*: how many of a name's bits tell that its key belongs
//! here; 0 in a bucket that was never opened nor split. *Insertions* and *shares*: how often each was begun. Every
//! compare-exchange on a header moves one of the last four, so a header only comes back after 2^24 insertions, or 2^16
//! shares, within one thread's stall.

use crate::bits::Field;
use crate::table::bucket::PLACES;
use crate::table::word::Word;

const SHARES: Field = Field::lowest(16);
const INSERTIONS: Field = SHARES.above(24);
const LEVEL: Field = INSERTIONS.above(6);
const MOTION: Field = LEVEL.above(2);
const SHARED: Field = MOTION.above(1);
const PARITY: Field = SHARED.above(15);
const _: () = assert!(PARITY.end() == u64::BITS, "the fields must fill the word");
const _: () = assert!(PLACES <= 16, "every slot must have its parity bit");

/// The values of `MOTION`. At rest it is 0.
const SPLITS: u64 = 1;
const LEAVES: u64 = 2;
const GONE: u64 = 3;

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
        MOTION.get(self.0) == SPLITS
    }

    /// Whether all keys are moving out.
    pub(crate) fn is_leaving(self) -> bool {
        MOTION.get(self.0) == LEAVES
    }

    /// Whether all keys have moved out.
    pub(crate) fn is_gone(self) -> bool {
        MOTION.get(self.0) == GONE
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
        let members = |header: Self| [INSERTIONS, LEVEL, MOTION].map(|field| field.get(header.0));
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
        Self(MOTION.set(self.0, SPLITS))
    }

    /// The header of a bucket whose keys all begin to move out.
    pub(crate) fn leaving(self) -> Self {
        Self(MOTION.set(self.0, LEAVES))
    }

    /// The header of a bucket whose keys have moved out.
    pub(crate) fn gone(self) -> Self {
        Self(MOTION.set(self.0, GONE))
    }

    /// The header of a bucket, at `level` from now on, whose keys at the places in `moved` have gone.
    pub(crate) fn split(self, level: u32, moved: u64) -> Self {
        let parity = PARITY.get(self.0) ^ (moved >> 1);
        Self(PARITY.set(LEVEL.set(MOTION.set(self.0, 0), level.into()), parity))
    }

    /// The header with which the sibling of a bucket opens, at `level`.
    pub(crate) fn sibling(self, level: u32) -> Self {
        Self(LEVEL.of(level.into()) | SHARED.of(SHARED.get(self.0)))
    }
}

fn next(counter: Field, word: u64) -> u64 {
    counter.set(word, (counter.get(word) + 1) & counter.max())
}
