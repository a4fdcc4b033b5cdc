//! What a slot stores of a name. The two lowest bits of a key's name are known from its bucket, and say instead whose
//! the slot is.
//!
//! | bits | the slot |
//! |------|----------|
//! | `11` | belongs to the key |
//! | `10` | belongs to nobody and still owes ([`OWED`]) |
//! | `01` | belonged to the key, which has moved to another bucket or is about to |
//! | `00` | belongs to nobody ([`VACANT`], [`UNTOUCHED`]) |

/// The name of a slot that nobody has had.
pub(crate) const UNTOUCHED: u64 = 0;

/// The name of a slot that belongs to nobody. Its word is worth nothing, whatever it says. Once a bucket is open no name
/// in it is 0 again: so what was to arrive there at its opening cannot arrive later.
pub(crate) const VACANT: u64 = 0b100;

/// The name of a slot that belongs to nobody and still owes: whoever takes it takes over its debt.
pub(crate) const OWED: u64 = 0b10;

/// The bits that are known from the bucket.
pub(crate) const KNOWN: u64 = 0b11;

const KEY: u64 = 0b11;
const MOVED: u64 = 0b01;

/// What a slot of the key with this name stores.
#[inline]
pub(crate) fn kept(name: u64) -> u64 {
    name | KEY
}

/// What it stores when the key moves out.
pub(super) fn moved(name: u64) -> u64 {
    name & !KNOWN | MOVED
}

/// Whether a slot's name is that of the key with this `name`, in its slot or moving out. In one comparison: it is part of
/// every charge.
#[inline]
pub(super) fn is_same_key(slot: u64, name: u64) -> bool {
    (slot ^ name) & !(KEY ^ MOVED) == 0
}

/// Whether this is a key's name in its own slot.
pub(super) fn is_key(name: u64) -> bool {
    name & KNOWN == KEY
}

/// Whether this is the name of a key that moves out, or has.
pub(super) fn is_moved(name: u64) -> bool {
    name & KNOWN == MOVED
}

/// Whether the slot owes nothing to anybody. Of a key that moves out: once it has.
pub(super) fn is_vacant(name: u64) -> bool {
    name & OWED == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_says_one_thing() {
        for name in [0, 1, 4, 6, 0x1234_5678, u64::MAX, u64::MAX - 3] {
            assert!(is_key(kept(name)) && !is_moved(kept(name)) && !is_vacant(kept(name)));
            assert!(is_moved(moved(name)) && !is_key(moved(name)) && is_vacant(moved(name)));
            assert_eq!(kept(moved(name)), kept(name));
            assert!(is_same_key(kept(name), kept(name)) && is_same_key(moved(name), kept(name)));
            assert!([UNTOUCHED, VACANT, OWED].iter().all(|&nobody| !is_same_key(nobody, kept(name))));
        }
        for name in [UNTOUCHED, VACANT] {
            assert!(is_vacant(name) && !is_key(name) && !is_moved(name));
        }
        assert!(!is_vacant(OWED) && !is_key(OWED) && !is_moved(OWED));
    }
}
