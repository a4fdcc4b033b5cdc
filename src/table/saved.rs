//! What a table is worth to the next process: read while others check, entered before anybody does.

use crate::algorithm::{Moment, Numbers};
use crate::ring::Ring;
use crate::sync::Ordering::Relaxed;
use crate::table::Table;
use crate::table::bucket::{ENTRIES, View, probes};
use crate::table::fingerprint::{is_key, is_migrating, is_vacant, kept};
use crate::table::slot::Slot;
use crate::table::word::Word;

/// Something that is owed.
#[derive(Clone, Copy, Debug)]
pub enum Debt<'t> {
    /// By a key, with its times, newest first.
    Key { fingerprint: u64, payload: u64, times: &'t [u64] },
    /// By the keys that have no slot in their bucket. `ending`: what their fingerprints end in, behind a 1.
    Shared { ending: u64, payload: u64 },
}

impl Table {
    /// Hands all that is owed at `at` to `each`.
    ///
    /// Every key's debt of the moment at which this began is in it, though keys come, go and move meanwhile: a bucket's
    /// slots are read before its overflow word, where a key leaves what it owes *before* it gives up its slot, so it is
    /// found in one of the two. A key that moves may be found twice: that errs by refusing.
    pub(crate) fn debts<R: Numbers, E>(
        &self,
        rule: &R,
        at: Moment,
        mut each: impl FnMut(Debt<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut times = Vec::new();
        for view in self.views() {
            for index in 1..ENTRIES {
                let (word, fingerprint) =
                    view.bucket.slot(index).debt(rule, view.ring::<R>(index), at, &mut times);
                let payload = word.payload();
                if word.is_frozen() && !view.bucket.header().commits(index, word) {
                    // Nobody's yet, and perhaps never: the key may have been charged elsewhere since.
                    continue;
                }
                // Of nobody's slots, one that still owes owes it to the overflow word as well.
                let header = view.bucket.header();
                let is_on_its_way = is_migrating(fingerprint) && !view.has_migrated(fingerprint, header);
                let is_here = is_key(fingerprint) || is_on_its_way;
                if is_here && !rule.expired(payload, at) {
                    each(Debt::Key { fingerprint: view.whole(fingerprint), payload, times: &times })?;
                }
            }
            let overflow = view.bucket.shared();
            if view.bucket.header().is_shared() && !rule.expired(overflow, at) {
                each(Debt::Shared { ending: view.ending(), payload: overflow })?;
            }
        }
        Ok(())
    }

    /// Enters what somebody owes, before the table is shared. `false` when there is no room for the debt.
    pub(crate) fn enter<R: Numbers>(&self, rule: &R, at: Moment, debt: Debt<'_>) -> bool {
        match debt {
            Debt::Key { fingerprint, payload, times } => loop {
                let (view, header) = self.view(fingerprint).home_bucket(fingerprint);
                let entered = view.admit(rule, kept(fingerprint), payload, times);
                if entered || !view.make_room(header, || view.is_crowded(rule, at)) {
                    let shares = !entered && rule.half(at).is_some();
                    if shares {
                        view.owe(payload);
                    }
                    break entered || shares;
                }
            },
            Debt::Shared { ending, payload } => {
                // Buckets that are not open yet will have it from those they split off.
                let end = self.end();
                let common = (1 << ending.ilog2()).min(end);
                let first = ending as usize % common;
                self.at(first).home_bucket(first as u64).0.owe(payload);
                let others = (first..end).step_by(common).skip(1).map(|number| self.at(number));
                others.filter(|view| view.is_open()).for_each(|view| view.owe(payload));
                true
            }
        }
    }
}

impl Slot {
    /// The slot's word, its fingerprint, and its times, newest first.
    ///
    /// The word and the fingerprint belong together: the word was the same before and after the fingerprint was read, and words do not
    /// come back. (A key that is just entering would otherwise be found with what another owed, and one that enters in
    /// vain with nothing.) Each time that it was not, somebody has got on. If the ring went on, an entry gave way to a
    /// later one after it had left the window, or for a refusal that counts and is read in its place; oldest first, so
    /// that none is missed behind it.
    pub(crate) fn debt<R: Numbers>(
        &self,
        rule: &R,
        ring: Ring<'_>,
        at: Moment,
        times: &mut Vec<u64>,
    ) -> (Word, u64) {
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

impl View<'_> {
    /// What the fingerprints of the bucket's keys end in, behind a 1.
    fn ending(self) -> u64 {
        let level = self.table.level_of(self.number(), self.bucket.header()).unwrap_or(0);
        1 << level | self.number() as u64
    }

    /// Gives the key a slot, or raises what it owes in the one it has. `false` when there is none.
    fn admit<R: Numbers>(self, rule: &R, fingerprint: u64, payload: u64, times: &[u64]) -> bool {
        let slot = |index: usize| self.bucket.slot(index);
        if let Some(known) = probes(fingerprint).find(|index| slot(*index).has_fingerprint(fingerprint)) {
            // Read twice, since it moved meanwhile: a key that moves on owes what it did and more, or nothing.
            if slot(known).load().payload() < payload {
                slot(known).enter(fingerprint, rule.log(payload, self.ring::<R>(known), times));
            }
            return true;
        }
        let vacant = probes(fingerprint).find(|index| is_vacant(slot(*index).fingerprint()));
        vacant
            .inspect(|&index| slot(index).enter(fingerprint, rule.log(payload, self.ring::<R>(index), times)))
            .is_some()
    }

    /// Raises what the keys without a slot owe.
    fn owe(self, payload: u64) {
        let (header, overflow) = (self.bucket.header(), self.bucket.overflow());
        let owed = overflow.load(Relaxed).max(payload);
        overflow.store(owed, Relaxed);
        let marked = self.bucket.advance(header, header.sharing());
        debug_assert!(marked, "nobody else has the table yet");
    }
}
