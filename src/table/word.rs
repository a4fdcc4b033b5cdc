//! A slot's word, as a value.
//!
//! ```text
//!    63       62      61                                                0
//!  +--------+--------+---------------------------------------------------+
//!  | frozen | parity |  payload: the rule's own, see `algorithm`         |
//!  +--------+--------+---------------------------------------------------+
//! ```
//!
//! *Frozen*: an insertion has claimed the slot and not published it yet, or a refund holds it.
//! *Parity*: flips with every insertion; the bucket's header holds the parity of committed words,
//! so a frozen word is *committed* once the two agree. The word of a key that has left has the
//! parity that the header does not commit, until the slot is vacated.

use std::fmt;

use crate::algorithm::{PAYLOAD_BITS, Payload, Stored};
use crate::bits::Field;

const PAYLOAD: Field = Field::lowest(PAYLOAD_BITS);
const PARITY: Field = PAYLOAD.above(1);
const FROZEN: Field = PARITY.above(1);
const _: () = assert!(FROZEN.end() == u64::BITS, "the fields must fill the word");

/// A word that was read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    /// The word of a slot that no key has had.
    pub(crate) const ZERO: Self = Self(0);

    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn payload(self) -> Stored {
        Stored::new(PAYLOAD.get(self.0))
    }

    /// The difference of two words whose payloads differ by this.
    #[inline]
    pub(crate) fn payload_of(payload: u64) -> u64 {
        PAYLOAD.of(payload)
    }

    /// The word whose payload is less by this.
    pub(crate) fn less(self, payload: u64) -> Self {
        Self(self.0 - Self::payload_of(payload))
    }

    #[inline]
    pub(crate) fn parity(self) -> u64 {
        PARITY.get(self.0)
    }

    /// Zero if the parity equals this bit of `bits`.
    #[inline]
    pub(crate) fn parity_unlike(self, bits: u64, bit: u32) -> u64 {
        (self.0 ^ bits.rotate_left(PARITY.start()).rotate_right(bit)) & PARITY.of(1)
    }

    #[inline]
    pub(crate) fn is_frozen(self) -> bool {
        FROZEN.get(self.0) != 0
    }

    /// The payload, and above all payloads if the word is frozen.
    #[inline]
    pub(crate) fn rank(self) -> u64 {
        self.0 & !PARITY.of(1)
    }

    /// The word once its key has been charged: published, whichever thread inserted it.
    #[inline]
    pub(crate) fn charged(self, payload: Stored) -> Self {
        Self(PARITY.of(self.parity()) | PAYLOAD.of(payload.bits()))
    }

    /// The same word, held: committed and not published. The key's own charges succeed, a claim
    /// does not.
    pub(crate) fn held(self) -> Self {
        Self(self.0 | FROZEN.of(1))
    }

    /// The word of a slot that was never charged.
    pub(super) fn vacant(parity: u64) -> Self {
        Self(PARITY.of(parity))
    }

    /// The word of a new key in this slot, not yet committed.
    pub(crate) fn claimed(self, payload: Payload) -> Self {
        Self(FROZEN.of(1) | PARITY.of(self.parity() ^ 1) | PAYLOAD.of(payload.bits()))
    }

    /// The word with the other parity, at rest. Of a key that migrates: no charge, refund or claim
    /// expects it.
    pub(crate) fn detached(self) -> Self {
        Self(PARITY.of(self.parity() ^ 1) | PAYLOAD.of(self.payload().bits()))
    }

    /// The word without its frozen bit.
    pub(crate) fn published(self) -> Self {
        self.charged(self.payload())
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Word")
            .field("frozen", &self.is_frozen())
            .field("parity", &self.parity())
            .field("payload", &self.payload().bits())
            .finish()
    }
}
