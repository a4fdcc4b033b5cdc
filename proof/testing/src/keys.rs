//! Keys whose places in the table are the same in every run.

use tollgate::{Key, KeyHasher};

use crate::random::scattered;

/// A key whose fingerprint is this number. Its low bits choose the bucket.
pub struct Placed(pub u64);

impl Key for Placed {
    fn fingerprint(&self, _: &KeyHasher) -> u64 {
        self.0
    }
}

/// One of the keys that share the first bucket, of fifteen slots.
pub struct Fellow(pub u64);

impl Key for Fellow {
    fn fingerprint(&self, _: &KeyHasher) -> u64 {
        (self.0 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) << 8
    }
}

/// One of the keys that are all over the table.
pub struct Scattered(pub u64);

impl Key for Scattered {
    fn fingerprint(&self, _: &KeyHasher) -> u64 {
        scattered(self.0)
    }
}
