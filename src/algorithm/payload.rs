//! A slot's payload, before and after it is known which version of the quota wrote it.
//!
//! A change of the quota touches no word, so a word that is read may be of any version. Its payload
//! is [`Stored`]. A rule decides on a [`Payload`]: its own version wrote it, or an older one was
//! converted to it. Only `table::versioned` and the rules turn the one into the other.
//! So a word of an older version under a newer rule does not compile.

/// A payload as a word holds it. Any version of the quota may have written it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stored(u64);

impl Stored {
    #[inline]
    pub(crate) fn new(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }
}

/// A payload of the version of the rule that is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Payload(pub(in crate::algorithm) u64);

impl Payload {
    /// A key that was never seen, to every version.
    pub(crate) const UNSEEN: Self = Self(0);

    /// Any payload, for a test.
    #[cfg(any(test, loom))]
    pub(crate) fn of(bits: u64) -> Self {
        Self(bits)
    }

    /// The payload as a word holds it.
    #[inline]
    pub(crate) const fn stored(self) -> Stored {
        Stored(self.0)
    }

    #[inline]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }
}
