//! The sections of a saved layer.

use std::io::{self, Read, Write};

use tollgate::RestoreError;
use tollgate::saved::{Reader, Writer};

use super::forgotten::SavedLimits;

// The tags of sections, and of the end.
pub(super) const END: u8 = 0;
const TIER: u8 = 1;
const KEY: u8 = 2;
const BAN: u8 = 3;
const FALLBACK: u8 = 4;
const PER_REQUEST: u8 = 5;

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

impl Part<&[u8]> {
    /// Begins the section of this part. Its limiter follows, if it has one.
    pub(super) fn write(self, rule: &str, out: &mut Writer<impl Write>) -> io::Result<()> {
        let tag = match self {
            Self::Tier(_) => TIER,
            Self::Key(_) => KEY,
            Self::Ban => BAN,
            Self::Fallback => FALLBACK,
            Self::PerRequest => PER_REQUEST,
        };
        out.byte(tag)?;
        out.bytes(rule.as_bytes())?;
        match self {
            Self::Tier(tier) => out.half(tier as u32),
            Self::Key(key) => out.bytes(key),
            Self::Ban | Self::Fallback | Self::PerRequest => Ok(()),
        }
    }
}

impl Part<Vec<u8>> {
    /// Reads the begin of the next section: its rule, and which part of it follows. `None`: that
    /// was the last.
    pub(super) fn read(input: &mut Reader<impl Read>) -> Result<Option<(String, Self)>, RestoreError> {
        let tag = input.byte()?;
        if tag == END {
            return Ok(None);
        }
        let rule = input.text()?;
        let part = match tag {
            TIER => Part::Tier(input.half()? as usize),
            KEY => Part::Key(input.bytes()?),
            BAN => Part::Ban,
            FALLBACK => Part::Fallback,
            PER_REQUEST => Part::PerRequest,
            _ => return Err(RestoreError::Corrupt),
        };
        Ok(Some((rule, part)))
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
