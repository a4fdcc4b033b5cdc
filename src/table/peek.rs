//! A key's debt, read without writing anything: for a peek, and for a refusal while the bucket is
//! being split.
//!
//! A bucket that is being split is read as it is. The debt of a key that migrates is in its old
//! word until the sibling's slot has its fingerprint, and in its new word from then on. Once the
//! sibling is open, the sibling is read.

use crate::algorithm::{Rule, Stored, Verdict};
use crate::ring::Ring;
use crate::table::DecidedOn;
use crate::table::basis::Basis;
use crate::table::find::{Found, View};
use crate::table::fingerprint::Fingerprint;
use crate::table::full::{AtRest, Candidates, Inherits, Placement};
use crate::table::growth::Reading;
use crate::table::insert::waited_debt;
use crate::table::look::Look;
use crate::table::ruling::{Ask, Ruling};
use crate::table::slot_index::{SlotIndex, probes};
use crate::table::word::Word;
use crate::time::Timestamp;

/// What one reading of a bucket says of a key.
enum KeyRead {
    /// The key's payload, and its slot index.
    Key(Stored, SlotIndex),
    /// The key has no slot here.
    Others,
    /// The bucket changed meanwhile: read again.
    Changed,
}

impl<'a> Look<'a> {
    /// What `check` would answer. Writes nothing, not even the horizon.
    pub(crate) fn peek<R: Rule>(view: View<'a>, ask: Ask<'_, R>, now: Timestamp) -> Self {
        let at = ask.rule.moment_to_read(now);
        loop {
            let reading = view.bucket_to_read(ask.fingerprint);
            let Reading { view, header, sibling } = reading;
            let mut candidates = Candidates::default();
            let seen = reading.key(ask.fingerprint, |slot| candidates.weigh(ask.rule, slot));
            let is_open = sibling.is_some_and(View::is_open);
            match seen {
                KeyRead::Key(payload, index) if !is_open => {
                    let before = (ask.rule.read(payload), view.ring::<R>(index), Basis::Own);
                    return Self::without_slot(view, ask, at, before);
                }
                KeyRead::Others if !is_open && !view.has_changed_since(header) => {}
                // The bucket changed, or the key has migrated: read again.
                _ => continue,
            }
            let overflow = view.bucket.shared();
            let (index, word, inherits) = match candidates.placement(view.table.when_full, ask, at) {
                Placement::Vacant(index, word) => (index, word, Inherits::Nothing),
                _ if view.would_make_room(ask.fingerprint, header) => {
                    (SlotIndex::FIRST, Word::ZERO, Inherits::Nothing)
                }
                Placement::Evict(index, word) => (index, word, Inherits::Debt),
                Placement::Shared(least) => {
                    let before = (waited_debt(ask, overflow, least, at), Ring::NONE, Basis::Shared);
                    return Self::without_slot(view, ask, at, before);
                }
                Placement::Refuse(payload, index) => {
                    let decided_on = view.table.decided_on(view.ring::<R>(index), Basis::Full);
                    return Self::slotless(payload, decided_on, false);
                }
                Placement::AdmitUncounted(payload) => {
                    return Self::slotless(payload, DecidedOn::NONE.on(Basis::Uncounted), true);
                }
            };
            let is_shared = header.is_shared() && !ask.rule.expired(overflow, at);
            let debt = view.inherited_debt(ask.rule, word, inherits, at);
            let payload = if is_shared { debt.max(ask.rule.current(overflow)) } else { debt };
            let is_inherited = is_shared || inherits == Inherits::Debt;
            let basis = if is_inherited { Basis::Inherited } else { Basis::Own };
            return Self::without_slot(view, ask, at, (payload, view.ring::<R>(index), basis));
        }
    }
}

impl<'a> Reading<'a> {
    /// The refusal of a key that the bucket holds, if the key is refused and no refusal is counted.
    /// Such a request need not help to split the bucket. `None`: decide by a check.
    #[cold]
    pub(super) fn refused<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Option<Ruling<'a>> {
        let Self { view, sibling, .. } = self;
        // Most keys for which a bucket is split are new.
        if !may_have(view, ask.fingerprint) && !sibling.is_some_and(|view| may_have(view, ask.fingerprint)) {
            return None;
        }
        let KeyRead::Key(payload, index) = self.key(ask.fingerprint, |_| ()) else {
            return None;
        };
        let (at, ring) = (ask.rule.moment_to_read(now), view.ring::<R>(index));
        let payload = ask.rule.read(payload);
        let is_refused = matches!(ask.rule.pure.decide(payload, ring, at, ask.cost), Verdict::Deny(_));
        // Once the sibling is open, the key may have a refund there.
        let is_there = !sibling.is_some_and(View::is_open);
        (is_refused && is_there).then_some(Ruling::own(false, payload, ring))
    }

    /// Looks for the key in all slots; passes those at rest that are not the key's to `other`.
    fn key(self, fingerprint: Fingerprint, other: impl FnMut(AtRest)) -> KeyRead {
        let Self { view, header, sibling } = self;
        if let Some(sibling) = sibling {
            match self.leaving(fingerprint, sibling) {
                KeyRead::Others => {}
                seen => return seen,
            }
        }
        // In a bucket that has not changed, a word of the wrong parity is its key's: see
        // `repair`.
        let counts_anyway = |_, _| view.bucket.header() == header;
        match view.scan_by(fingerprint, header, counts_anyway, other) {
            Found::Mine(index, word) if view.bucket.slot(index).is_still(word) => {
                KeyRead::Key(word.payload(), index)
            }
            Found::Others => KeyRead::Others,
            _ => KeyRead::Changed,
        }
    }

    /// The same for a key that migrates to the sibling, which is not open yet.
    fn leaving(self, fingerprint: Fingerprint, sibling: View<'a>) -> KeyRead {
        let Self { view, header, .. } = self;
        for index in probes(fingerprint) {
            let slot = view.bucket.slot(index);
            let (word, owner) = slot.read();
            // A claimed word that the header has not committed never will be: the header has
            // changed since.
            let is_claimed = word.is_frozen() && !header.commits(index, word);
            if is_claimed || !owner.is_same_key(fingerprint) {
                continue;
            }
            let arrival = sibling.bucket.slot(index);
            let (arrived, newcomer) = arrival.read();
            let has_arrived = newcomer == fingerprint;
            let (word, is_still) = match has_arrived {
                true => (arrived, arrival.is_still(arrived)),
                // Until its parity is flipped, the old word can still be charged.
                false => (word, owner != fingerprint || slot.is_still(word)),
            };
            let is_same_split = view.bucket.header() == header;
            return if is_still && is_same_split {
                KeyRead::Key(word.payload(), index)
            } else {
                KeyRead::Changed
            };
        }
        KeyRead::Others
    }
}

/// Whether a slot is the key's, in any state.
fn may_have(view: View<'_>, fingerprint: Fingerprint) -> bool {
    let is_its = |index| view.bucket.slot(index).fingerprint().is_same_key(fingerprint);
    SlotIndex::all().fold(false, |any, index| any | is_its(index))
}
