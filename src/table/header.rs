//! A bucket's header as a value that somebody read.
//!
//! ```text
//!   63    49   48                                        0
//!  +--------+--------+-------------------------------------+
//!  | parity | shared |  version                            |
//!  +--------+--------+-------------------------------------+
//! ```
//!
//! *Parity*: a bit a slot, the parity of the words that count. *Shared*: the bucket's overflow word has been charged.
//! *Version*: how often the bucket's membership changed; every compare-exchange on a header moves it.

use crate::bits::Field;
use crate::table::bucket::SLOTS;
use crate::table::word::Word;

const VERSION: Field = Field::lowest(48);
const SHARED: Field = VERSION.above(1);
const PARITY: Field = SHARED.above(15);
const _: () = assert!(PARITY.end() == u64::BITS, "the fields must fill the word");
const _: () = assert!(SLOTS <= 15, "every slot must have its parity bit");

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

    /// Whether slot `index`'s `word` counts.
    pub(crate) fn commits(self, index: usize, word: Word) -> bool {
        (PARITY.get(self.0) >> index) & 1 == word.parity()
    }

    /// The header that commits a claim of slot `index`. `shared`: whether the overflow word still holds a debt.
    pub(crate) fn committing(self, index: usize, shared: bool) -> Self {
        let flipped = PARITY.get(self.0) ^ (1 << index);
        Self(PARITY.set(SHARED.set(self.next(), u64::from(shared)), flipped))
    }

    /// The header of a bucket whose overflow word is about to be charged.
    pub(crate) fn sharing(self) -> Self {
        Self(SHARED.set(self.next(), 1))
    }

    fn next(self) -> u64 {
        VERSION.set(self.0, (VERSION.get(self.0) + 1) & VERSION.max())
    }
}
