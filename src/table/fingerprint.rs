//! What a slot stores of a key's fingerprint. The bucket's number tells the two lowest bits, so
//! that those say whose the slot is.
//!
//! | bits | the slot |
//! |------|----------|
//! | `11` | belongs to the key |
//! | `10` | is vacant and has remaining debt ([`IN_DEBT`](Fingerprint::IN_DEBT)), or is being |
//! |      | emptied ([`EMPTIED`](Fingerprint::EMPTIED)) |
//! | `01` | belonged to the key, which migrates to another bucket or has done so |
//! | `00` | is vacant ([`VACANT`](Fingerprint::VACANT), [`UNTOUCHED`](Fingerprint::UNTOUCHED)) |

/// The bits that the bucket's number tells.
const KNOWN: u64 = 0b11;

const KEY: u64 = 0b11;
const MIGRATING: u64 = 0b01;

/// A key's fingerprint: whole, as the key hasher makes it, or as a slot stores it.
///
/// Users' [`Key`](crate::Key)s return the bare 64 bits: what they implement passes on the result of
/// a [`KeyHasher`](crate::KeyHasher) and has no use for a type of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    /// A slot that no key has had.
    pub(crate) const UNTOUCHED: Self = Self(0);

    /// A vacant slot, with any word. No slot of an open bucket is 0 again: so a helper that stalled
    /// while the bucket was opened cannot bring a key any more.
    pub(crate) const VACANT: Self = Self(0b100);

    /// A vacant slot with remaining debt: the next owner inherits it.
    pub(crate) const IN_DEBT: Self = Self(0b10);

    /// A slot that a key has left, while a thread empties it: no other thread writes it.
    pub(crate) const EMPTIED: Self = Self(0b110);

    /// The least number of buckets: it takes as many for their numbers to tell the known bits.
    pub(super) const LEAST_BUCKETS: usize = KNOWN as usize + 1;

    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// The only key of a limiter without keys.
    pub(crate) const ONLY: Self = Self(0);

    /// What the slot of this key stores.
    #[inline]
    pub(crate) fn kept(self) -> Self {
        Self(self.0 | KEY)
    }

    /// What it stores while the key migrates.
    pub(super) fn migrating(self) -> Self {
        Self(self.0 & !KNOWN | MIGRATING)
    }

    /// The whole fingerprint of a key that a slot of this bucket stores.
    pub(super) fn whole(self, bucket: usize) -> Self {
        Self(self.0 & !KNOWN | bucket as u64 & KNOWN)
    }

    /// Whether the slot that stores this is the key's, at rest or migrating. One comparison: it is
    /// part of every charge.
    #[inline]
    pub(super) fn is_same_key(self, key: Self) -> bool {
        (self.0 ^ key.0) & !(KEY ^ MIGRATING) == 0
    }

    /// Whether the slot belongs to a key.
    pub(super) fn is_key(self) -> bool {
        self.0 & KNOWN == KEY
    }

    /// Whether the slot's key migrates, or has done so.
    pub(super) fn is_migrating(self) -> bool {
        self.0 & KNOWN == MIGRATING
    }

    /// Whether the slot has no debt; that of a migrating key once it has migrated.
    pub(super) fn is_vacant(self) -> bool {
        self.0 & Self::IN_DEBT.0 == 0
    }

    /// Which of so many `parts` the key shares with other keys. Not by the known bits: they are the
    /// same in every slot of a key.
    #[inline]
    pub(crate) fn share_of(self, parts: usize) -> usize {
        (self.0 >> KNOWN.count_ones()) as usize % parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_share_every_part_of_what_they_share() {
        let parts = |kept: fn(Fingerprint) -> Fingerprint| {
            let shared = (0..256).map(|bits| kept(Fingerprint(bits)).share_of(16));
            shared.collect::<std::collections::BTreeSet<_>>().len()
        };
        assert_eq!(parts(Fingerprint::kept), 16);
        assert_eq!(parts(|whole| whole), 16);
    }

    #[test]
    fn every_stored_fingerprint_says_one_thing() {
        for bits in [0, 1, 4, 6, 0x1234_5678, u64::MAX, u64::MAX - 3] {
            let (kept, migrating) = (Fingerprint(bits).kept(), Fingerprint(bits).migrating());
            assert!(kept.is_key() && !kept.is_migrating() && !kept.is_vacant());
            assert!(migrating.is_migrating() && !migrating.is_key() && migrating.is_vacant());
            assert_eq!(migrating.kept(), kept);
            assert!(kept.is_same_key(kept) && migrating.is_same_key(kept));
            let of_no_key =
                [Fingerprint::UNTOUCHED, Fingerprint::VACANT, Fingerprint::IN_DEBT, Fingerprint::EMPTIED];
            assert!(of_no_key.iter().all(|stored| !stored.is_same_key(kept)));
        }
        for vacant in [Fingerprint::UNTOUCHED, Fingerprint::VACANT] {
            assert!(vacant.is_vacant() && !vacant.is_key() && !vacant.is_migrating());
        }
        for no_key in [Fingerprint::IN_DEBT, Fingerprint::EMPTIED] {
            assert!(!no_key.is_vacant() && !no_key.is_key() && !no_key.is_migrating());
        }
    }
}
