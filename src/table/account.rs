//! A key's account: resets, refunds, credits, and which keys are in debt.

use crate::algorithm::{Moment, Payload, Refund, Rule, Stored, Taken};
use crate::ring::Ring;
use crate::table::Table;
use crate::table::dated::{Dated, ThenAndNow};
use crate::table::fingerprint::Fingerprint;
use crate::table::refunds::Refunding;
use crate::table::ruling::Ask;
use crate::table::slot::Slot;
use crate::table::slot_index::SlotIndex;
use crate::table::view::{Found, View};
use crate::table::word::Word;
use crate::time::Timestamp;

impl Table {
    /// Forgives the key's debt, as the reset that `count` numbers while the word is held. `false`
    /// when the key has no slot, or was never charged there.
    pub(crate) fn reset<R: Rule>(
        &self,
        rule: Dated<'_, R>,
        fingerprint: Fingerprint,
        now: Timestamp,
        count: impl Fn() -> u32,
    ) -> bool {
        let (view, fingerprint) = (self.view(fingerprint), fingerprint.kept());
        let (at, running) = (rule.moment(now), self.refunds.begin_reset(fingerprint));
        let mut is_charged = false;
        let erase = |slot: &Slot, word: Word, ring: Ring<'_>| {
            rule.erase(word.payload(), ring, || slot.is_still(word))
        };
        let forgive = |payload, _: Ring<'_>| {
            running.forgive(count(), at.tick);
            // A key that was never charged stays so: a save writes no debt of it.
            is_charged = payload != Payload::UNSEEN.stored();
            is_charged.then(|| Refund::of(rule.forgive(payload, at), 0))
        };
        view.lower::<R>(fingerprint, erase, forgive).is_some() && is_charged
    }

    /// Gives back the units `taken`, which were `charged` at this time and after the reset of this
    /// number, unless a later one forgave them. Returns how many units came back, 0 when the key
    /// has no slot; and how many [may be lost](Refund::short).
    pub(crate) fn refund<R: Rule>(
        &self,
        rules: &ThenAndNow<'_, R>,
        fingerprint: Fingerprint,
        taken: Taken,
        charged: (Timestamp, u32),
        clock: impl Fn() -> Timestamp,
    ) -> (u64, u64) {
        let (view, fingerprint) = (self.view(fingerprint), fingerprint.kept());
        let begun = Refunding::begin(&self.refunds, fingerprint, taken, charged, clock);
        // One still runs beside which a reset forgave.
        let Some(mut refunding) = begun else { return (0, taken.cost) };
        let units = view.lower::<R>(fingerprint, keep_ring, |payload, _| refunding.less(rules, payload));
        (units.unwrap_or(0), refunding.done())
    }

    /// Gives the key up to `ask.cost` units without a receipt. Returns how many; 0 when the key has
    /// no slot.
    pub(crate) fn credit<R: Rule>(&self, ask: Ask<'_, R>, clock: impl Fn() -> Timestamp) -> u64 {
        let (view, ask) = (self.view(ask.fingerprint), ask.kept());
        let Some(running) = self.refunds.begin(ask.fingerprint) else { return 0 };
        let less = |payload, ring: Ring<'_>| running.credit(ask, payload, ring, clock());
        view.lower::<R>(ask.fingerprint, keep_ring, less).unwrap_or(0)
    }
}

/// The ring of a key whose word is lowered by some units needs nothing done before.
fn keep_ring(_: &Slot, _: Word, _: Ring<'_>) -> bool {
    true
}

impl<'a> View<'a> {
    /// Changes the key's word as `less` says while it is held, so that no other key is lowered: see
    /// [`Slot::refund`]. `prepare` does with the ring what must be done before; `false`: the word
    /// has changed. Returns the units that came back; `None` when the bucket does not hold the key.
    fn lower<R: Rule>(
        self,
        fingerprint: Fingerprint,
        prepare: impl Fn(&Slot, Word, Ring<'a>) -> bool,
        mut less: impl FnMut(Stored, Ring<'a>) -> Option<Refund>,
    ) -> Option<u64> {
        loop {
            let (view, header) = self.home_bucket(fingerprint);
            match view.scan(fingerprint, header, |_| ()) {
                Found::Mine(index, word) => {
                    let (slot, ring) = (view.bucket.slot(index), view.ring::<R>(index));
                    if prepare(slot, word, ring)
                        && let Some(units) = slot.refund(word, fingerprint, |payload| less(payload, ring))
                    {
                        return Some(units);
                    }
                    // The key was charged meanwhile: lower the word that is there now.
                }
                // In a bucket that stayed the same, the key has no slot.
                Found::Others if !view.has_changed_since(header) => return None,
                // The bucket changed during the scan: look again.
                Found::Others | Found::Changed => {}
            }
        }
    }

    /// How many slots belong to a key in debt.
    pub(crate) fn live<R: Rule>(self, rule: Dated<'_, R>, at: Moment) -> usize {
        self.in_debt(rule, at).count()
    }

    /// The fingerprints of the keys in debt.
    pub(crate) fn in_debt<'r, R: Rule>(
        self,
        rule: Dated<'r, R>,
        at: Moment,
    ) -> impl Iterator<Item = Fingerprint> + use<'a, 'r, R> {
        let fingerprints = SlotIndex::all().filter_map(move |index| {
            let slot = self.bucket.slot(index);
            rule.is_in_debt(slot.load().payload(), at).then(|| slot.fingerprint())
        });
        fingerprints.filter(|&fingerprint| fingerprint.is_key())
    }
}
