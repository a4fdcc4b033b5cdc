//! A look at a key's word, by which it may be charged afterwards: for a request that several limits
//! decide together.
//!
//! A look writes nothing. The word is charged as it was decided, by one compare-exchange from the
//! word that was read; when that fails the request is decided again.

use crate::algorithm::{Payload, Rule, Verdict, Visit};
use crate::table::RingPlace;
use crate::table::basis::Basis;
use crate::table::dated::Dated;
use crate::table::fingerprint::Fingerprint;
use crate::table::ruling::{Ask, Ruling};
use crate::table::slot::Slot;
use crate::table::slot_index::{SlotIndex, home_slot};
use crate::table::term::Term;
use crate::table::view::View;
use crate::table::word::Word;
use crate::time::Timestamp;

/// What a look at a key has found.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    /// The key's payload: after the request if it is admitted, before it if not.
    pub(crate) payload: Payload,
    /// The key's payload before the request.
    pub(crate) before: Payload,
    /// The key's slot, at rest. `None`: it has none.
    pub(crate) slot: Option<&'a Slot>,
    /// The word of the slot.
    pub(crate) word: Word,
    /// The key's ring.
    pub(crate) place: RingPlace,
    pub(crate) allowed: bool,
    /// Whether the refused request counts (`CountPolicy::All`).
    pub(crate) counts: bool,
}

impl Look<'_> {
    /// That of a key without a slot.
    fn without_slot(payload: Payload, place: RingPlace, allowed: bool) -> Self {
        let (slot, word) = (None, Word::ZERO);
        Self { payload, before: payload, slot, word, place, allowed, counts: false }
    }

    /// Charges the request. `false`: the word has changed since, or the key has no slot.
    #[inline(always)]
    pub(crate) fn charge(&self, fingerprint: Fingerprint) -> bool {
        self.slot.is_some_and(|slot| slot.charge_seen(self.word, self.payload, fingerprint.kept()))
    }
}

impl Default for Look<'_> {
    fn default() -> Self {
        Self::without_slot(Payload::UNSEEN, RingPlace::NONE, false)
    }
}

/// A look at the key's home slot.
struct AtHome<'v, 'a> {
    view: View<'a>,
    term: &'v Term,
    fingerprint: Fingerprint,
    cost: u64,
    now: Timestamp,
}

/// `None`: the key is not there, or the rule does not decide quickly.
impl<'a> Visit for AtHome<'_, 'a> {
    type Output = Option<Look<'a>>;

    #[inline(always)]
    fn visit<R: Rule>(self, rule: &R) -> Option<Look<'a>> {
        let Self { view, term, fingerprint, cost, now } = self;
        let rule = Dated { rule, term };
        let home = home_slot(fingerprint);
        let slot = view.bucket.slot(home);
        let (word, owner) = slot.read();
        if owner != fingerprint || word.is_frozen() {
            return None;
        }
        let at = rule.quick_moment(now)?;
        let before = rule.rule.own(word.payload(), at)?;
        let (allowed, payload) = match rule.decide_own(word.payload(), view.ring::<R>(home), at, cost)? {
            Verdict::Allow(payload) => (true, payload),
            Verdict::Deny(payload) if slot.is_still(word) => (false, payload),
            _ => return None,
        };
        let place = if R::RINGED { RingPlace::of(home) } else { RingPlace::NONE };
        Some(Look { payload, before, slot: Some(slot), word, place, allowed, counts: false })
    }
}

/// A look at the key wherever it is.
struct Anywhere<'v, 'a>(AtHome<'v, 'a>);

impl<'a> Visit for Anywhere<'_, 'a> {
    type Output = Look<'a>;

    #[inline]
    fn visit<R: Rule>(self, rule: &R) -> Look<'a> {
        let AtHome { view, term, fingerprint, cost, now } = self.0;
        view.look_for(Ask { rule: Dated { rule, term }, fingerprint, cost }, now)
    }
}

impl<'a> View<'a> {
    /// What `check` would answer now, if the key is in its home slot, and its algorithm decides in
    /// so few instructions that they are written out for each of several limits.
    #[inline(always)]
    pub(crate) fn look_quickly<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Option<Look<'a>> {
        let Ask { rule: Dated { rule, term }, fingerprint, cost } = ask.kept();
        rule.by_quick_algorithm(AtHome { view: self, term, fingerprint, cost, now })?
    }

    /// The same by any algorithm.
    #[inline(always)]
    pub(crate) fn look_at_home<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Option<Look<'a>> {
        let Ask { rule: Dated { rule, term }, fingerprint, cost } = ask.kept();
        rule.by_algorithm(AtHome { view: self, term, fingerprint, cost, now })
    }

    /// What `check` would answer now.
    #[inline]
    pub(crate) fn look<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Look<'a> {
        let Ask { rule: Dated { rule, term }, fingerprint, cost } = ask.kept();
        rule.by_algorithm(Anywhere(AtHome { view: self, term, fingerprint, cost, now }))
    }

    fn look_for<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Look<'a> {
        let at = |index| self.look_at(index, ask, now);
        if let Some(found) = at(home_slot(ask.fingerprint)) {
            return found;
        }
        match self.bucket.displaced(ask.fingerprint) {
            // A slot of the key that is not at rest: its debt counts.
            Some(index) => at(index).unwrap_or_else(|| self.look_at_bucket(ask, now)),
            None => self.look_for_new(ask, now),
        }
    }

    /// The same for a key that has no slot.
    fn look_for_new<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Look<'a> {
        if self.would_recycle(ask, now) {
            // Whether it really will, the charge decides.
            return Look::without_slot(Payload::UNSEEN, RingPlace::NONE, true);
        }
        self.look_at_bucket(ask, now)
    }

    /// The same for a key that has no slot at rest.
    fn look_at_bucket<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Look<'a> {
        let Ruling { allowed, payload, ring, basis } = self.peek(ask, now);
        let look = Look::without_slot(payload, self.table.place_of(ring, basis), allowed);
        Look { counts: !allowed && basis == Basis::Foreseen, ..look }
    }

    /// The answer by this slot, if it is the key's and at rest. A refusal is only valid while the
    /// word is unchanged.
    fn look_at<R: Rule>(self, index: SlotIndex, ask: Ask<'_, R>, now: Timestamp) -> Option<Look<'a>> {
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
        Some(Look { payload, before, slot: Some(slot), word, place, allowed, counts })
    }
}
