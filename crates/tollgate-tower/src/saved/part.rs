//! The parts of a saved layer.

use super::error::SavedLimits;

/// The version written, and the only one read.
pub(super) const VERSION: u32 = 2;

/// The first bytes of a saved layer. No text file begins so, and a transfer that converts line ends
/// changes them.
pub(super) const MAGIC: [u8; 8] = *b"\xA7gate\r\n\x1A";

/// The most bytes in a piece of a limiter, and in a key.
pub(super) const PIECE: usize = 1 << 16;

// The tags of sections, and of the end.
pub(super) const END: u8 = 0;
pub(super) const TIER: u8 = 1;
pub(super) const KEY: u8 = 2;
pub(super) const BAN: u8 = 3;
pub(super) const FALLBACK: u8 = 4;
pub(super) const PER_REQUEST: u8 = 5;

/// What a section is of a rule.
#[derive(Clone, Copy)]
pub(crate) enum Part<K> {
    /// The limits of a tier; of tier 0, the rule's own.
    Tier(usize),
    /// The limits of this key.
    Key(K),
    Ban,
    /// The local limits of a backend that fails.
    Fallback,
    /// Limits that came with requests, which cannot be saved.
    PerRequest,
}

impl<K> Part<K> {
    pub(super) fn tag(&self) -> u8 {
        match self {
            Self::Tier(_) => TIER,
            Self::Key(_) => KEY,
            Self::Ban => BAN,
            Self::Fallback => FALLBACK,
            Self::PerRequest => PER_REQUEST,
        }
    }

    /// The part without its key. `None` if it has no limiter.
    pub(super) fn limits(&self) -> Option<SavedLimits> {
        match self {
            Self::Tier(tier) => Some(SavedLimits::Tier(*tier)),
            Self::Key(_) => Some(SavedLimits::Key),
            Self::Ban => Some(SavedLimits::Bans),
            Self::Fallback => Some(SavedLimits::Fallback),
            Self::PerRequest => None,
        }
    }
}
