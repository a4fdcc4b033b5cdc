//! Charges that keep the key's slot: of a rule that does not expire before everything is given
//! back.
//!
//! Such a slot has no other owner until then. So the holder of a charge holds the slot, and gives
//! back without looking for the key.

use std::num::NonZeroUsize;

use crate::algorithm::{Payload, Rule, Stored, Verdict};
use crate::ring::Ring;
use crate::table::Table;
use crate::table::basis::Basis;
use crate::table::bucket::Bucket;
use crate::table::find::{Found, View};
use crate::table::fingerprint::Fingerprint;
use crate::table::ruling::Ask;
use crate::table::slot::Slot;
use crate::table::slot_index::{ENTRIES, SlotIndex, home_slot};
use crate::time::Timestamp;

/// The number of a slot in its table, for a holder that does not borrow the table. Never 0: that
/// entry is the first bucket's header.
#[derive(Clone, Copy)]
pub(crate) struct SlotNumber(NonZeroUsize);

impl SlotNumber {
    /// The number of one of this table's slots.
    #[inline]
    pub(crate) fn of(table: &Table, slot: &Slot) -> Self {
        let offset = std::ptr::from_ref(slot).addr() - table.buckets.as_ptr().addr();
        let (bucket, within) = (offset / size_of::<Bucket>(), offset % size_of::<Bucket>());
        let number = NonZeroUsize::new(bucket * ENTRIES + within / size_of::<Slot>());
        Self(number.expect("a header is no slot"))
    }

    /// The table's slot of this number.
    #[inline]
    pub(crate) fn slot(self, table: &Table) -> &Slot {
        table.buckets[self.bucket()].slot(SlotIndex::new(self.0.get() % ENTRIES))
    }

    /// The number of its bucket.
    fn bucket(self) -> usize {
        self.0.get() / ENTRIES
    }
}

/// The whole fingerprint of a key of a [fixed](crate::table::Size::fixed) table.
pub(crate) fn whole(table: &Table, fingerprint: Fingerprint) -> Fingerprint {
    table.view(fingerprint).whole(fingerprint.kept())
}

/// The same of the key that a slot stored.
pub(crate) fn whole_in(table: &Table, slot: &Slot, stored: Fingerprint) -> Fingerprint {
    stored.whole(SlotNumber::of(table, slot).bucket())
}

/// What came of a charge that marks what refuses it.
pub(crate) enum Holding<'a> {
    /// Charged: the key's slot.
    Held(&'a Slot),
    /// Refused by the key's word, which is marked.
    Marked,
    /// Refused: the bucket is full of other keys.
    Full,
}

/// Charges the key, and returns its slot. If the key's own word refuses, it is changed as
/// `mark` says, from the very value that refuses: the next to change it finds the mark.
#[cold]
pub(crate) fn hold_or_mark<'a, R: Rule>(
    table: &'a Table,
    ask: Ask<'_, R>,
    mark: impl Fn(Stored) -> Payload,
) -> Holding<'a> {
    let (view, ask) = (table.view(ask.fingerprint), ask.kept());
    let (time, at) = (|| Timestamp::ZERO, ask.rule.moment(Timestamp::ZERO));
    loop {
        let (ruling, _) = view.find_or_insert(ask, Timestamp::ZERO, time);
        match ruling.basis {
            _ if ruling.allowed => return Holding::Held(held(view, ask.fingerprint)),
            Basis::Full => return Holding::Full,
            _ => {}
        }
        let Found::Mine(index, word) = view.scan(ask.fingerprint, view.bucket.header(), |_| ()) else {
            // The key has lost its slot since it was refused: there is room.
            continue;
        };
        let (slot, payload) = (view.bucket.slot(index), ask.rule.read(word.payload()));
        let refuses = !matches!(ask.rule.decide(payload, Ring::NONE, at, ask.cost), Verdict::Allow(_));
        if refuses && slot.charge_seen(word, mark(word.payload()), ask.fingerprint) {
            return Holding::Marked;
        }
        // Something came back, or was taken, since it was refused.
    }
}

/// Charges the key, and returns its slot. `None`: refused.
#[inline]
pub(crate) fn hold<'a, R: Rule>(table: &'a Table, ask: Ask<'_, R>) -> Option<&'a Slot> {
    let (view, ask) = (table.view(ask.fingerprint), ask.kept());
    let at = ask.rule.moment(Timestamp::ZERO);
    let known = |index: SlotIndex| {
        let slot = view.bucket.slot(index);
        let (word, fingerprint) = slot.read();
        let mine = fingerprint == ask.fingerprint && !word.is_frozen();
        let mut retries = 0;
        let charge = |retries| slot.charge(word, ask, view.ring::<R>(index), at, retries);
        let ruling = mine.then(|| charge(&mut retries)).flatten();
        table.events(ask.fingerprint).retried(retries);
        ruling.map(|ruling| ruling.allowed.then_some(slot))
    };
    known(home_slot(ask.fingerprint))
        .or_else(|| known(view.bucket.slot_of(ask.fingerprint)?))
        .unwrap_or_else(|| insert_and_hold(view, ask))
}

#[cold]
fn insert_and_hold<'a, R: Rule>(view: View<'a>, ask: Ask<'_, R>) -> Option<&'a Slot> {
    let time = || Timestamp::ZERO;
    let (ruling, _) = view.find_or_insert(ask, time(), time);
    ruling.allowed.then(|| held(view, ask.fingerprint))
}

/// The slot of a key that the caller holds: a scan finds it, unless it migrates meanwhile.
fn held(view: View<'_>, fingerprint: Fingerprint) -> &Slot {
    loop {
        // Another insertion of the key may have written its fingerprint to a slot that it will
        // abandon: that word changes.
        if let Found::Mine(index, word) = view.scan(fingerprint, view.bucket.header(), |_| ())
            && view.bucket.slot(index).is_still(word)
        {
            return view.bucket.slot(index);
        }
    }
}
