//! A key's debt, read without writing anything: for a peek, and for a refusal while the bucket is
//! being split.
//!
//! A bucket that is being split is read as it is. The debt of a key that migrates is in its old
//! word until the sibling's slot has its fingerprint, and in its new word from then on. Once the
//! sibling is open, the sibling is read.

use crate::algorithm::{Moment, Rule, Stored, Verdict};
use crate::ring::Ring;
use crate::table::basis::Basis;
use crate::table::fingerprint::Fingerprint;
use crate::table::full::{Best, Placement, Rest};
use crate::table::growth::Reading;
use crate::table::header::Header;
use crate::table::insert::waited_debt;
use crate::table::ruling::{Ask, Ruling, Standing};
use crate::table::slot_index::{SlotIndex, probes};
use crate::table::view::{Found, View};
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

impl<'a> View<'a> {
    /// What `check` would answer. Writes nothing.
    pub(crate) fn peek<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Ruling<'a> {
        let at = ask.rule.moment_to_read(now);
        match self.probe(ask, at) {
            Ok(standing) => foresee(ask, standing, at),
            Err(full) => full,
        }
    }

    /// The refusal of a key that the bucket holds, if the key is refused and no refusal is counted.
    /// Such a request need not help to split the bucket. `None`: decide by a check.
    #[cold]
    pub(super) fn refused<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Option<Ruling<'a>> {
        let Reading { view, header, sibling } = self.bucket_to_read(ask.fingerprint);
        // Most keys for which a bucket is split are new.
        if !view.may_have(ask.fingerprint) && !sibling.is_some_and(|view| view.may_have(ask.fingerprint)) {
            return None;
        }
        let KeyRead::Key(payload, index) = view.read_key(ask.fingerprint, header, sibling, |_| ()) else {
            return None;
        };
        let (at, ring) = (ask.rule.moment_to_read(now), view.ring::<R>(index));
        let payload = ask.rule.read(payload);
        let is_refused = matches!(ask.rule.rule.decide(payload, ring, at, ask.cost), Verdict::Deny(_));
        // Once the sibling is open, the key may have a refund there.
        let is_there = !sibling.is_some_and(View::is_open);
        (is_refused && is_there).then_some(Ruling::own(false, payload, ring))
    }

    /// How the key stands before the request; or the request's answer, when there is no room for
    /// the key. Writes nothing.
    pub(crate) fn probe<R: Rule>(self, ask: Ask<'_, R>, at: Moment) -> Result<Standing<'a>, Ruling<'a>> {
        loop {
            let Reading { view, header, sibling } = self.bucket_to_read(ask.fingerprint);
            let mut best = Best::default();
            let seen = view.read_key(ask.fingerprint, header, sibling, |slot| best.weigh(ask.rule, slot));
            let is_open = sibling.is_some_and(View::is_open);
            match seen {
                KeyRead::Key(payload, index) if !is_open => {
                    let (payload, ring) = (ask.rule.read(payload), view.ring::<R>(index));
                    return Ok(Standing { payload, ring, basis: Basis::Own });
                }
                KeyRead::Others if !is_open && !view.has_changed_since(header) => {}
                _ => continue,
            }
            let overflow = view.bucket.shared();
            let (index, word, left) = match best.placement(self.table.when_full, ask, at) {
                Placement::Vacant(index, word) => (index, word, Fingerprint::VACANT),
                _ if view.would_make_room(ask.fingerprint, header) => {
                    (SlotIndex::FIRST, Word::ZERO, Fingerprint::VACANT)
                }
                Placement::Evict(index, word) => (index, word, Fingerprint::IN_DEBT),
                Placement::Shared(least) => {
                    let payload = waited_debt(ask, overflow, least, at);
                    return Ok(Standing { payload, ring: Ring::NONE, basis: Basis::Shared });
                }
                Placement::Refuse(payload, index) => {
                    let ring = view.ring::<R>(index);
                    return Err(Ruling { allowed: false, payload, ring, basis: Basis::Full });
                }
                Placement::AdmitUncounted(payload) => {
                    let (ring, basis) = (Ring::NONE, Basis::Uncounted);
                    return Err(Ruling { allowed: true, payload, ring, basis });
                }
            };
            let shared = header.is_shared() && !ask.rule.expired(overflow, at);
            let debt = view.inherited_debt(ask.rule, word, left, at);
            let payload = if shared { debt.max(ask.rule.current(overflow)) } else { debt };
            let inherits = shared || left == Fingerprint::IN_DEBT;
            let basis = if inherits { Basis::Inherited } else { Basis::Own };
            return Ok(Standing { payload, ring: view.ring::<R>(index), basis });
        }
    }

    /// Whether a slot is the key's, in any state.
    fn may_have(self, fingerprint: Fingerprint) -> bool {
        let is_its = |index| self.bucket.slot(index).fingerprint().is_same_key(fingerprint);
        SlotIndex::all().fold(false, |any, index| any | is_its(index))
    }

    /// Looks for the key in all slots; passes those at rest that are not the key's to `other`.
    /// `sibling`: where the bucket's split is taking the key.
    fn read_key(
        self,
        fingerprint: Fingerprint,
        header: Header,
        sibling: Option<Self>,
        other: impl FnMut(Rest),
    ) -> KeyRead {
        if let Some(sibling) = sibling {
            match self.read_leaving(fingerprint, header, sibling) {
                KeyRead::Others => {}
                seen => return seen,
            }
        }
        // In a bucket that has not changed, a word of the wrong parity is its key's: see
        // `repair`.
        let counts_anyway = |_, _| self.bucket.header() == header;
        match self.scan_by(fingerprint, header, counts_anyway, other) {
            Found::Mine(index, word) if self.bucket.slot(index).is_still(word) => {
                KeyRead::Key(word.payload(), index)
            }
            Found::Others => KeyRead::Others,
            _ => KeyRead::Changed,
        }
    }

    /// The same for a key that migrates to the sibling, which is not open yet.
    fn read_leaving(self, fingerprint: Fingerprint, header: Header, sibling: Self) -> KeyRead {
        for index in probes(fingerprint) {
            let slot = self.bucket.slot(index);
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
            let is_same_split = self.bucket.header() == header;
            return if is_still && is_same_split {
                KeyRead::Key(word.payload(), index)
            } else {
                KeyRead::Changed
            };
        }
        KeyRead::Others
    }
}

/// The answer to a request of a key that stands so, without charging it.
fn foresee<'a, R: Rule>(ask: Ask<'_, R>, standing: Standing<'a>, at: Moment) -> Ruling<'a> {
    let Standing { payload, ring, basis } = standing;
    // By the rule itself: nothing is booked, so the horizon stays.
    let (allowed, payload) = match ask.rule.rule.decide(payload, ring, at, ask.cost) {
        Verdict::Allow(payload) => (true, payload),
        // What keys share counts no refusals.
        Verdict::DenyAndCount(payload) if basis != Basis::Shared => (false, payload),
        _ => return Ruling { allowed: false, payload, ring, basis },
    };
    Ruling { allowed, payload, ring, basis: Basis::Foreseen }
}
