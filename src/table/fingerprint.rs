//! What a slot stores of a key's fingerprint. The bucket's number tells the two lowest bits, so
//! that those say whose the slot is.
//!
//! | bits | the slot |
//! |------|----------|
//! | `11` | belongs to the key |
//! | `10` | is vacant and has remaining debt ([`IN_DEBT`]) |
//! | `01` | belonged to the key, which migrates to another bucket or has done so |
//! | `00` | is vacant ([`VACANT`], [`UNTOUCHED`]) |

/// A slot that no key has had.
pub(crate) const UNTOUCHED: u64 = 0;

/// A vacant slot, with any word. No slot of an open bucket is 0 again: so a helper that stalled
/// while the bucket was opened cannot bring a key any more.
pub(crate) const VACANT: u64 = 0b100;

/// A vacant slot with remaining debt: the next owner inherits it.
pub(crate) const IN_DEBT: u64 = 0b10;

/// The bits that the bucket's number tells.
pub(crate) const KNOWN: u64 = 0b11;

const KEY: u64 = 0b11;
const MIGRATING: u64 = 0b01;

/// What the slot of this key stores.
#[inline]
pub(crate) fn kept(fingerprint: u64) -> u64 {
    fingerprint | KEY
}

/// What it stores while the key migrates.
pub(super) fn migrating(fingerprint: u64) -> u64 {
    fingerprint & !KNOWN | MIGRATING
}

/// Whether the slot is the key's, at rest or migrating. One comparison: it is part of every charge.
#[inline]
pub(super) fn is_same_key(slot: u64, fingerprint: u64) -> bool {
    (slot ^ fingerprint) & !(KEY ^ MIGRATING) == 0
}

/// Whether the slot belongs to a key.
pub(super) fn is_key(fingerprint: u64) -> bool {
    fingerprint & KNOWN == KEY
}

/// Whether the slot's key migrates, or has done so.
pub(super) fn is_migrating(fingerprint: u64) -> bool {
    fingerprint & KNOWN == MIGRATING
}

/// Whether the slot has no debt; that of a migrating key once it has migrated.
pub(super) fn is_vacant(fingerprint: u64) -> bool {
    fingerprint & IN_DEBT == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_says_one_thing() {
        for fingerprint in [0, 1, 4, 6, 0x1234_5678, u64::MAX, u64::MAX - 3] {
            assert!(
                is_key(kept(fingerprint))
                    && !is_migrating(kept(fingerprint))
                    && !is_vacant(kept(fingerprint))
            );
            assert!(
                is_migrating(migrating(fingerprint))
                    && !is_key(migrating(fingerprint))
                    && is_vacant(migrating(fingerprint))
            );
            assert_eq!(kept(migrating(fingerprint)), kept(fingerprint));
            assert!(
                is_same_key(kept(fingerprint), kept(fingerprint))
                    && is_same_key(migrating(fingerprint), kept(fingerprint))
            );
            assert!(
                [UNTOUCHED, VACANT, IN_DEBT].iter().all(|&nobody| !is_same_key(nobody, kept(fingerprint)))
            );
        }
        for fingerprint in [UNTOUCHED, VACANT] {
            assert!(is_vacant(fingerprint) && !is_key(fingerprint) && !is_migrating(fingerprint));
        }
        assert!(!is_vacant(IN_DEBT) && !is_key(IN_DEBT) && !is_migrating(IN_DEBT));
    }
}
