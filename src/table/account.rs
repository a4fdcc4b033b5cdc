//! A key's account: resets, refunds, credits, and which keys are in debt.

use crate::algorithm::{Moment, Payload, Refund, Rule, Stored, Taken};
use crate::ring::Ring;
use crate::table::Table;
use crate::table::dated::{Dated, ThenAndNow};
use crate::table::fingerprint::Fingerprint;
use crate::table::refunds::Refunding;
use crate::table::ruling::Ask;
use crate::table::slot_index::SlotIndex;
use crate::table::view::{Found, View};
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
        let (begin, fingerprint) = (self.view(fingerprint), fingerprint.kept());
        let (at, running) = (rule.moment(now), self.refunds.begin_reset(fingerprint));
        loop {
            let (view, header) = begin.home_bucket(fingerprint);
            match view.scan(fingerprint, header, |_| ()) {
                Found::Mine(index, word) => {
                    let slot = view.bucket.slot(index);
                    // Held meanwhile, so that no other key is forgiven: see `Slot::refund`.
                    let is_charged = word.payload() != Payload::UNSEEN.stored();
                    let forgiven = |payload| {
                        running.forgive(count(), at.tick);
                        // A key that was never charged stays so: a save writes no debt of it.
                        is_charged.then(|| Refund::of(rule.forgive(payload, at), 0))
                    };
                    if rule.erase(word.payload(), view.ring::<R>(index), || slot.is_still(word))
                        && slot.refund(word, fingerprint, forgiven).is_some()
                    {
                        return is_charged;
                    }
                    // The key was charged meanwhile: forgive that, too.
                }
                // In a bucket that stayed the same, the key has no slot.
                Found::Others if !view.has_changed_since(header) => return false,
                // The bucket changed during the scan: look again.
                Found::Others | Found::Changed => {}
            }
        }
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
        let units = view.lower::<R>(fingerprint, |payload, _| refunding.less(rules, payload));
        (units, refunding.done())
    }

    /// Gives the key up to `ask.cost` units without a receipt. Returns how many; 0 when the key has
    /// no slot.
    pub(crate) fn credit<R: Rule>(&self, ask: Ask<'_, R>, clock: impl Fn() -> Timestamp) -> u64 {
        let (view, ask) = (self.view(ask.fingerprint), ask.kept());
        let Some(running) = self.refunds.begin(ask.fingerprint) else { return 0 };
        view.lower::<R>(ask.fingerprint, |payload, ring| running.credit(ask, payload, ring, clock()))
    }
}

impl<'a> View<'a> {
    /// Changes the key's word as `less` says while it is held. Returns the units that came back; 0
    /// when the bucket does not hold the key.
    fn lower<R: Rule>(
        self,
        fingerprint: Fingerprint,
        mut less: impl FnMut(Stored, Ring<'a>) -> Option<Refund>,
    ) -> u64 {
        loop {
            let (view, header) = self.home_bucket(fingerprint);
            match view.scan(fingerprint, header, |_| ()) {
                Found::Mine(index, word) => {
                    let less = |payload| less(payload, view.ring::<R>(index));
                    if let Some(units) = view.bucket.slot(index).refund(word, fingerprint, less) {
                        return units;
                    }
                    // The key was charged meanwhile: lower the word that is there now.
                }
                // In a bucket that stayed the same, the key has no slot.
                Found::Others if !view.has_changed_since(header) => return 0,
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
