//! The edges of a split: what the headers of a bucket and of its sibling carry.

use std::sync::Arc;

use super::{X, bounded};
use crate::algorithm::{Payload, Stored};
use crate::sync::spawn;
use crate::table::find::View;
use crate::table::slot_index::home_slot;
use crate::table::word::Word;
use crate::table::{Fingerprint, Size, Table, WhenFull};

/// A key of X's bucket that migrates when that is split.
const MOVER: Fingerprint = Fingerprint::from_bits(X.bits() | 1 << 2);

/// The numbers of that bucket and of its sibling.
const BUCKET: usize = 3;
const SIBLING: usize = 7;

/// Splits the bucket of that key, with an overflow word that came with a saved limiter, while
/// `judge` runs.
fn while_a_bucket_is_split(judge: fn(&Table)) {
    bounded(3, move || {
        let size = Size::for_keys(6, 0).expect("six keys are few");
        let table = Table::new(size, WhenFull::Deny).expect("there is memory");
        table.at(BUCKET).bucket.slot(home_slot(MOVER)).give_to(MOVER, Payload::of(5));
        assert!(table.at(BUCKET).bucket.change_shared(Stored::new(0), Stored::new(7)));
        let part = Arc::new(table);
        let other = part.clone();
        let thread = spawn(move || judge(&other));
        let bucket = part.at(BUCKET);
        assert!(bucket.make_room(bucket.bucket.header(), || 0));
        thread.join().expect("the thread of a model does not panic");
    });
}

/// Whether the key is in its new slot, for a thread that has acquired nothing but a header.
fn has_arrived(sibling: View<'_>) -> bool {
    let slot = sibling.bucket.slot(home_slot(MOVER));
    slot.has_fingerprint(MOVER) && !slot.is_still(Word::ZERO)
}

/// B4: a thread that finds a sibling open finds the keys that migrated there, and the overflow
/// word.
pub fn an_open_sibling_has_its_migrated_keys() {
    while_a_bucket_is_split(|table| {
        let sibling = table.at(SIBLING);
        assert!(!sibling.is_open() || has_arrived(sibling) && sibling.bucket.shared() == Stored::new(7));
    });
}

/// B5: a thread that finds a bucket split finds its keys in the sibling.
pub fn a_split_bucket_knows_that_its_keys_have_arrived() {
    while_a_bucket_is_split(|table| {
        let is_split = table.at(BUCKET).bucket.header().level() > 0;
        assert!(!is_split || has_arrived(table.at(SIBLING)));
    });
}
