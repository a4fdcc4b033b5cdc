//! The header of a saved limiter: its times, its settings and its secret.
//!
//! ```text
//!   keys: u8 | Unix time of the clock's zero: u64 | clock, Unix time at the save: u64 each
//!   limits: u32 | quotas: u32 | each: quota: text | origin: u64 | room: u64
//!   trusted: u8 | secret: 10 u64 | fingerprint: u64 | buckets: u64
//! ```
//!
//! Tier by tier, its limits have their quotas in the order in which the user gave them.
//!
//! Times are nanoseconds. A text is its length, a u32, and its bytes. The last line says how the
//! keys are hashed, and how many buckets the table had; a limiter without keys has zeros there.
//! `fingerprint` is [`KeyHasher::sample`](crate::KeyHasher).

use std::io::{self, Read, Write};

use crate::algorithm::PAYLOAD_BITS;
use crate::key::Secret;
use crate::saved::{Reader, RestoreError, Writer};
use crate::time::Reading;

/// How the keys are hashed, and how many buckets the table had.
#[derive(Clone)]
pub(crate) struct Naming {
    pub(crate) secret: Secret,
    pub(crate) fingerprint: u64,
    pub(crate) buckets: u64,
}

/// A tier.
pub(crate) struct Tier {
    /// As text.
    pub(crate) quota: String,
    /// The payload that its rule counts from.
    pub(crate) origin: u64,
    /// What its words and rings have room for.
    pub(crate) room: u64,
}

/// A header, as it was read.
pub(crate) struct Header {
    /// Whether it has a state for each of many keys.
    pub(crate) has_keys: bool,
    /// How many limits, each with its records.
    pub(crate) limits: usize,
    pub(crate) unix_at_zero: u64,
    pub(crate) reading: Reading,
    pub(crate) tiers: Vec<Tier>,
    pub(crate) naming: Naming,
}

impl Naming {
    /// For a limiter without keys.
    pub(crate) const NONE: Self =
        Self { secret: Secret { trusted: false, words: [0; 10] }, fingerprint: 0, buckets: 0 };
}

impl Header {
    /// Writes a header.
    pub(crate) fn write<W: Write>(
        to: &mut Writer<W>,
        (has_keys, limits): (bool, usize),
        unix_at_zero: u64,
        reading: Reading,
        tiers: &[&Tier],
        naming: &Naming,
    ) -> io::Result<()> {
        to.byte(has_keys.into())?;
        for time in [unix_at_zero, reading.at, reading.unix] {
            to.word(time)?;
        }
        to.half(limits as u32)?;
        to.half(tiers.len() as u32)?;
        for Tier { quota, origin, room } in tiers {
            to.bytes(quota.as_bytes())?;
            to.word(*origin)?;
            to.word(*room)?;
        }
        to.byte(naming.secret.trusted.into())?;
        for word in naming.secret.words.iter().chain([&naming.fingerprint, &naming.buckets]) {
            to.word(*word)?;
        }
        Ok(())
    }

    pub(crate) fn read<R: Read>(from: &mut Reader<R>) -> Result<Self, RestoreError> {
        let has_keys = from.byte()? != 0;
        let unix_at_zero = from.word()?;
        let reading = Reading { at: from.word()?, unix: from.word()? };
        let (limits, mut tiers) = (from.half()? as usize, Vec::new());
        for _ in 0..from.half()? {
            let (quota, origin, room) = (from.text()?, payload(from.word()?)?, from.word()?);
            tiers.push(Tier { quota, origin, room });
        }
        let trusted = from.byte()? != 0;
        let mut words = [0; 10];
        for word in &mut words {
            *word = from.word()?;
        }
        let (fingerprint, buckets) = (from.word()?, from.word()?);
        let naming = Naming { secret: Secret { trusted, words }, fingerprint, buckets };
        Ok(Self { has_keys, limits, unix_at_zero, reading, tiers, naming })
    }

    /// Checks that the saved limiter had keys or had none, so many limits, and so many quotas.
    pub(crate) fn is_of(&self, has_keys: bool, limits: usize, quotas: usize) -> Result<(), RestoreError> {
        let kind = |has_keys| if has_keys { "limits for each key" } else { "limits for everything" };
        same("the kind", kind(self.has_keys), kind(has_keys))?;
        same("the number of limits", self.limits, limits)?;
        same(&format!("the number of {}s", self.place()), self.tiers.len(), quotas)
    }

    /// Checks that the saved limiter had these quotas.
    pub(crate) fn has_quotas(&self, given: &[String]) -> Result<(), RestoreError> {
        self.tiers.iter().zip(given).enumerate().try_for_each(|(number, (tier, given))| {
            let field = match number {
                0 => "the quota".to_owned(),
                _ => format!("the quota of {} {number}", self.place()),
            };
            same(&field, &tier.quota, given)
        })
    }

    /// What its quotas are of.
    fn place(&self) -> &'static str {
        if self.limits > 1 { "limit" } else { "tier" }
    }
}

/// Checks that a word is a payload.
pub(crate) fn payload(word: u64) -> Result<u64, RestoreError> {
    if word >> PAYLOAD_BITS == 0 { Ok(word) } else { Err(RestoreError::Corrupt) }
}

/// `Ok` when the two are the same.
pub(crate) fn same<T: PartialEq + ToString>(field: &str, saved: T, given: T) -> Result<(), RestoreError> {
    if saved == given {
        return Ok(());
    }
    Err(RestoreError::Differs { field: field.into(), saved: saved.to_string(), given: given.to_string() })
}
