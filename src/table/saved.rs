//! The debts of a table for the next process: read while checks go on, restored before the table is
//! shared.

use crate::algorithm::{Moment, Payload, Rule};
use crate::ring::Ring;
use crate::sync::Ordering::Relaxed;
use crate::table::find::View;
use crate::table::fingerprint::Fingerprint;
use crate::table::slot::Slot;
use crate::table::slot_index::{SlotIndex, probes};
use crate::table::versioned::VersionedRef;
use crate::table::word::Word;
use crate::table::{Table, WhenFull};

/// A debt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Debt<'t> {
    /// A key's, with its times, newest first.
    Key { fingerprint: Fingerprint, payload: Payload, times: &'t [u64] },
    /// The shared debt of the keys without a slot in their bucket. `ending`: the end of their
    /// fingerprints, behind a 1.
    Shared { ending: u64, payload: Payload },
}

impl Debt<'_> {
    /// Passes all debts of a table at `at` to `each`.
    ///
    /// Every debt from before the call is among them, though keys come, go and migrate meanwhile. A
    /// bucket's slots are read before its overflow word, and an evicted key's debt is written there
    /// *before* its slot is claimed: so it is found in one of the two. A key that migrates may be
    /// found twice: that errs by refusing.
    pub(crate) fn each<R: Rule, E>(
        table: &Table,
        rule: VersionedRef<'_, R>,
        at: Moment,
        mut each: impl FnMut(Debt<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut times = Vec::new();
        for view in table.views() {
            for index in SlotIndex::all() {
                let (word, fingerprint) =
                    view.bucket.slot(index).debt(rule, view.ring::<R>(index), at, &mut times);
                let payload = word.payload();
                if word.is_frozen() && !view.bucket.header().commits(index, word) {
                    // Not committed, and perhaps never: the key may have been charged elsewhere
                    // since.
                    continue;
                }
                // A vacant slot's remaining debt is also counted in the overflow word.
                let header = view.bucket.header();
                let is_on_its_way = fingerprint.is_migrating() && !view.has_left(fingerprint, header);
                let is_here = fingerprint.is_key() || is_on_its_way;
                if is_here && !rule.expired(payload, at) {
                    let (fingerprint, payload) = (view.whole(fingerprint), rule.current(payload));
                    each(Debt::Key { fingerprint, payload, times: &times })?;
                }
            }
            let overflow = view.bucket.shared();
            if view.bucket.header().is_shared() && !rule.expired(overflow, at) {
                each(Debt::Shared { ending: ending(view), payload: rule.current(overflow) })?;
            }
        }
        Ok(())
    }

    /// Restores a debt, before the table is shared. `false` when there is no room for it.
    pub(crate) fn restore<R: Rule>(self, table: &mut Table, rule: VersionedRef<'_, R>, at: Moment) -> bool {
        match self {
            Debt::Key { fingerprint, payload, times } => loop {
                let (view, header) = table.view(fingerprint).home_bucket(fingerprint);
                let entered = admit(view, rule, fingerprint.kept(), payload, times);
                if entered || !view.make_room(header, || view.fullness(rule, at)) {
                    let may_share = table.when_full != WhenFull::Inherit && rule.inheritable(at).is_some();
                    let shares = !entered && may_share;
                    if shares {
                        owe(view, payload);
                    }
                    break entered || shares;
                }
            },
            Debt::Shared { ending, payload } => {
                // Buckets that are not open yet get it from those they split off.
                let end = table.end();
                let common = (1 << ending.ilog2()).min(end);
                let first = ending as usize % common;
                owe(table.at(first).home_bucket(Fingerprint::from_bits(first as u64)).0, payload);
                let others = (first..end).step_by(common).skip(1).map(|number| table.at(number));
                others.filter(|view| view.is_open()).for_each(|view| owe(view, payload));
                true
            }
        }
    }
}

impl Slot {
    /// The slot's word, its fingerprint, and its times, newest first.
    ///
    /// The word was the same before and after the fingerprint was read, and words do not come back:
    /// so the two belong together. Each repetition means that another thread got on. If the ring
    /// moved meanwhile, an entry was replaced by a later one after it had left the window, or by a
    /// counted refusal; oldest first, so that no entry is missed.
    pub(crate) fn debt<R: Rule>(
        &self,
        rule: VersionedRef<'_, R>,
        ring: Ring<'_>,
        at: Moment,
        times: &mut Vec<u64>,
    ) -> (Word, Fingerprint) {
        let mut word = self.load();
        let fingerprint = loop {
            let fingerprint = self.fingerprint();
            let again = self.load();
            if again == word {
                break fingerprint;
            }
            word = again;
        };
        times.clear();
        rule.times(word.payload(), ring, at, times);
        (word, fingerprint)
    }
}

/// The end of the bucket's fingerprints, behind a 1.
fn ending(view: View<'_>) -> u64 {
    let level = view.table.level_of(view.number(), view.bucket.header()).unwrap_or(0);
    1 << level | view.number() as u64
}

/// Gives the key a slot, or raises its debt in the one it has. `false` when there is none.
fn admit<R: Rule>(
    view: View<'_>,
    rule: VersionedRef<'_, R>,
    fingerprint: Fingerprint,
    payload: Payload,
    times: &[u64],
) -> bool {
    let rule = rule.pure;
    let slot = |index: SlotIndex| view.bucket.slot(index);
    if let Some(known) = probes(fingerprint).find(|index| slot(*index).has_fingerprint(fingerprint)) {
        // The key was saved twice, since it migrated meanwhile: the larger debt counts.
        if slot(known).load().payload() < payload.stored() {
            slot(known).give_to(fingerprint, rule.log(payload, view.ring::<R>(known), times));
        }
        return true;
    }
    let vacant = probes(fingerprint).find(|index| slot(*index).fingerprint().is_vacant());
    let Some(index) = vacant else { return false };
    if slot(index).fingerprint().is_migrating() {
        // The word of the key that left the slot looks detached already: a split would not
        // detach it, and lose a concurrent charge.
        view.vacate_left(view.bucket.header());
    }
    slot(index).give_to(fingerprint, rule.log(payload, view.ring::<R>(index), times));
    true
}

/// Raises the shared debt of the keys without a slot.
fn owe(view: View<'_>, payload: Payload) {
    let (header, overflow) = (view.bucket.header(), view.bucket.overflow());
    let debt = overflow.load(Relaxed).max(payload.bits());
    overflow.store(debt, Relaxed);
    let marked = view.bucket.advance(header, header.sharing());
    debug_assert!(marked, "nobody else has the table yet");
}
