//! Charges that keep the key's slot: of a rule that does not expire before everything is given
//! back.
//!
//! Such a slot has no other owner until then. So the holder of a charge holds the slot, and gives
//! back without looking for the key.

use std::num::NonZeroUsize;

use crate::algorithm::Rule;
use crate::table::Table;
use crate::table::bucket::Bucket;
use crate::table::fingerprint::Fingerprint;
use crate::table::ruling::Ask;
use crate::table::slot::Slot;
use crate::table::slot_index::{ENTRIES, SlotIndex, home_slot};
use crate::table::view::{Found, View};
use crate::time::Timestamp;

/// The number of a slot in its table, for a holder that does not borrow the table. Never 0: that
/// entry is the first bucket's header.
#[derive(Clone, Copy)]
pub(crate) struct SlotNumber(NonZeroUsize);

impl Table {
    /// The number of one of this table's slots.
    #[inline]
    pub(crate) fn number_of(&self, slot: &Slot) -> SlotNumber {
        let offset = std::ptr::from_ref(slot).addr() - self.buckets.as_ptr().addr();
        let (bucket, within) = (offset / size_of::<Bucket>(), offset % size_of::<Bucket>());
        let number = NonZeroUsize::new(bucket * ENTRIES + within / size_of::<Slot>());
        SlotNumber(number.expect("a header is no slot"))
    }

    /// The slot of this number.
    #[inline]
    pub(crate) fn slot(&self, SlotNumber(number): SlotNumber) -> &Slot {
        self.buckets[number.get() / ENTRIES].slot(SlotIndex::new(number.get() % ENTRIES))
    }
}

impl<'a> View<'a> {
    /// Charges the key, and returns its slot. `None`: refused.
    #[inline]
    pub(crate) fn hold<R: Rule>(self, ask: Ask<'_, R>) -> Option<&'a Slot> {
        let at = ask.rule.moment(Timestamp::ZERO);
        let known = |index: SlotIndex| {
            let slot = self.bucket.slot(index);
            let (word, fingerprint) = slot.read();
            let mine = fingerprint == ask.fingerprint && !word.is_frozen();
            let mut retries = 0;
            let charge = |retries| slot.charge(word, ask, self.ring::<R>(index), at, retries);
            let ruling = mine.then(|| charge(&mut retries)).flatten();
            self.table.events(ask.fingerprint).retried(retries);
            ruling.map(|ruling| ruling.allowed.then_some(slot))
        };
        known(home_slot(ask.fingerprint))
            .or_else(|| known(self.bucket.displaced(ask.fingerprint)?))
            .unwrap_or_else(|| self.insert_and_hold(ask))
    }

    #[cold]
    fn insert_and_hold<R: Rule>(self, ask: Ask<'_, R>) -> Option<&'a Slot> {
        let time = || Timestamp::ZERO;
        let (ruling, _) = self.enter(ask.rule, ask.fingerprint, ask.cost, time(), time);
        ruling.allowed.then(|| self.held(ask.fingerprint))
    }

    /// The slot of a key that the caller holds: a scan finds it, unless it migrates meanwhile.
    fn held(self, fingerprint: Fingerprint) -> &'a Slot {
        loop {
            // Another insertion of the key may have written its fingerprint to a slot that it will
            // abandon: that word changes.
            if let Found::Mine(index, word) = self.scan(fingerprint, self.bucket.header(), |_| ())
                && self.bucket.slot(index).is_still(word)
            {
                return self.bucket.slot(index);
            }
        }
    }
}
