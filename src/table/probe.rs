//! A decision on a word that was read, which may be charged afterwards: for a request that several
//! limits decide together.
//!
//! A probe writes nothing. It is charged as it was decided, by one compare-exchange from the word
//! that was read; when that fails the request is decided again.

use crate::algorithm::{Payload, Rule, Verdict};
use crate::table::RingPlace;
use crate::table::basis::Basis;
use crate::table::ruling::{Ask, Ruling};
use crate::table::slot::Slot;
use crate::table::slot_index::{SlotIndex, home_slot};
use crate::table::view::View;
use crate::table::word::Word;
use crate::time::Timestamp;

/// A probe of the key's home slot.
#[derive(Clone, Copy)]
pub(crate) struct HomeProbe<'a> {
    /// The key's payload: after the request if it is admitted, before it if not.
    pub(crate) payload: Payload,
    /// The key's payload before the request.
    pub(crate) before: Payload,
    /// The key's slot, at rest, and its word.
    pub(crate) seen: (&'a Slot, Word),
    /// The ring of the slot.
    pub(crate) place: RingPlace,
    pub(crate) allowed: bool,
}

/// A probe of the key's slot, wherever it is.
pub(crate) struct Probe<'a> {
    /// The key's payload: after the request if it is admitted, before it if not.
    pub(crate) payload: Payload,
    /// The key's payload before the request.
    pub(crate) before: Payload,
    /// The key's slot, at rest, and its word. `None`: it has none.
    pub(crate) seen: Option<(&'a Slot, Word)>,
    /// The key's ring.
    pub(crate) place: RingPlace,
    pub(crate) allowed: bool,
    /// Whether the refused request counts (`CountPolicy::All`).
    pub(crate) counts: bool,
}

impl<'a> View<'a> {
    /// The same as `probe_slot`, if the key is in its home slot and the rule decides quickly.
    #[inline(always)]
    pub(crate) fn probe_home<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Option<HomeProbe<'a>> {
        let home = home_slot(ask.fingerprint);
        let slot = self.bucket.slot(home);
        let (word, fingerprint) = slot.read();
        if fingerprint != ask.fingerprint || word.is_frozen() {
            return None;
        }
        let at = ask.rule.quick_moment(now)?;
        let before = ask.rule.rule.own(word.payload(), at)?;
        let (allowed, payload) =
            match ask.rule.decide_own(word.payload(), self.ring::<R>(home), at, ask.cost)? {
                Verdict::Allow(payload) => (true, payload),
                Verdict::Deny(payload) if slot.is_still(word) => (false, payload),
                _ => return None,
            };
        let place = if R::RINGED { RingPlace::of(home) } else { RingPlace::NONE };
        Some(HomeProbe { payload, before, seen: (slot, word), place, allowed })
    }

    /// What `check` would answer now.
    pub(crate) fn probe_slot<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Probe<'a> {
        let at = |index| self.probe_at(index, ask, now);
        if let Some(found) = at(home_slot(ask.fingerprint)) {
            return found;
        }
        match self.bucket.displaced(ask.fingerprint) {
            // A slot of the key that is not at rest: its debt counts.
            Some(index) => at(index).unwrap_or_else(|| self.probe_bucket(ask, now)),
            None => self.probe_new(ask, now),
        }
    }

    /// The same for a key that has no slot.
    fn probe_new<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Probe<'a> {
        if self.would_recycle(ask, now) {
            // Whether it really will, the charge decides.
            let (payload, place) = (Payload::UNSEEN, RingPlace::NONE);
            return Probe { payload, before: payload, seen: None, place, allowed: true, counts: false };
        }
        self.probe_bucket(ask, now)
    }

    /// The same for a key that has no slot at rest.
    fn probe_bucket<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Probe<'a> {
        let Ruling { allowed, payload, ring, basis } = self.peek(ask, now);
        let counts = !allowed && basis == Basis::Foreseen;
        let place = self.table.place_of(ring, basis);
        Probe { payload, before: payload, seen: None, place, allowed, counts }
    }

    /// The answer by this slot, if it is the key's and at rest. A refusal is only valid while the
    /// word is unchanged.
    fn probe_at<R: Rule>(self, index: SlotIndex, ask: Ask<'_, R>, now: Timestamp) -> Option<Probe<'a>> {
        let slot = self.bucket.slot(index);
        let (word, fingerprint) = slot.read();
        if fingerprint != ask.fingerprint || word.is_frozen() {
            return None;
        }
        let (ring, before) = (self.ring::<R>(index), ask.rule.read(word.payload()));
        let (allowed, counts, payload) = match ask.rule.decide(before, ring, ask.rule.moment(now), ask.cost) {
            Verdict::Allow(payload) => (true, false, payload),
            _ if !slot.is_still(word) => return None,
            Verdict::Deny(_) => (false, false, before),
            Verdict::DenyAndCount(_) => (false, true, before),
        };
        let place = self.table.place_of(ring, Basis::Own);
        Some(Probe { payload, before, seen: Some((slot, word)), place, allowed, counts })
    }
}
