//! What a slot stores of a fingerprint. The two lowest bits of a key's fingerprint are known from its bucket, and say instead whose
//! the slot is.
//!
//! | bits | the slot |
//! |------|----------|
//! | `11` | belongs to the key |
//! | `10` | belongs to nobody and still owes ([`IN_DEBT`]) |
//! | `01` | belonged to the key, which has moved to another bucket or is about to |
//! | `00` | belongs to nobody ([`VACANT`], [`UNTOUCHED`]) |

/// The fingerprint of a slot that nobody has had.
pub(crate) const UNTOUCHED: u64 = 0;

/// The fingerprint of a slot that belongs to nobody. Its word is worth nothing, whatever it says. Once a bucket is open no fingerprint
/// in it is 0 again: so what was to arrive there at its opening cannot arrive later.
pub(crate) const VACANT: u64 = 0b100;

/// The fingerprint of a slot that belongs to nobody and still owes: whoever takes it takes over its debt.
pub(crate) const IN_DEBT: u64 = 0b10;

/// The bits that are known from the bucket.
pub(crate) const KNOWN: u64 = 0b11;

const KEY: u64 = 0b11;
const MIGRATING: u64 = 0b01;

/// What a slot of the key with this fingerprint stores.
#[inline]
pub(crate) fn kept(fingerprint: u64) -> u64 {
    fingerprint | KEY
}

/// What it stores when the key moves out.
pub(super) fn moved(fingerprint: u64) -> u64 {
    fingerprint & !KNOWN | MIGRATING
}

/// Whether a slot's fingerprint is that of the key with this `fingerprint`, in its slot or moving out. In one comparison: it is part of
/// every charge.
#[inline]
pub(super) fn is_same_key(slot: u64, fingerprint: u64) -> bool {
    (slot ^ fingerprint) & !(KEY ^ MIGRATING) == 0
}

/// Whether this is a key's fingerprint in its own slot.
pub(super) fn is_key(fingerprint: u64) -> bool {
    fingerprint & KNOWN == KEY
}

/// Whether this is the fingerprint of a key that moves out, or has.
pub(super) fn is_migrating(fingerprint: u64) -> bool {
    fingerprint & KNOWN == MIGRATING
}

/// Whether the slot owes nothing to anybody. Of a key that moves out: once it has.
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
                is_migrating(moved(fingerprint))
                    && !is_key(moved(fingerprint))
                    && is_vacant(moved(fingerprint))
            );
            assert_eq!(kept(moved(fingerprint)), kept(fingerprint));
            assert!(
                is_same_key(kept(fingerprint), kept(fingerprint))
                    && is_same_key(moved(fingerprint), kept(fingerprint))
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
