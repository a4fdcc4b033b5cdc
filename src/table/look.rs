//! A look at a key's word: what a request would be answered. It may be charged afterwards, together
//! with other limits.
//!
//! A look writes nothing. The word is charged as it was decided, by one compare-exchange from the
//! word that was read; when that fails the request is decided again.

use crate::algorithm::{Moment, Payload, Rule, Verdict, Visit};
use crate::ring::Ring;
use crate::table::DecidedOn;
use crate::table::basis::Basis;
use crate::table::find::View;
use crate::table::fingerprint::Fingerprint;
use crate::table::recycle::recyclable;
use crate::table::ruling::Ask;
use crate::table::slot::Slot;
use crate::table::slot_index::{SlotIndex, home_slot};
use crate::table::validity::Validity;
use crate::table::versioned::VersionedRef;
use crate::table::word::Word;
use crate::time::Timestamp;

/// What a look at a key has found.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    /// The key's payload after the request, if that is admitted or counted.
    pub(crate) payload: Payload,
    /// The key's payload before the request.
    pub(crate) before: Payload,
    /// The key's slot, at rest. `None`: it has none.
    pub(crate) slot: Option<&'a Slot>,
    /// The word of the slot.
    pub(crate) word: Word,
    /// The key's ring, and on what the request is decided.
    pub(crate) decided_on: DecidedOn,
    pub(crate) allowed: bool,
    /// Whether the refused request counts (`CountPolicy::All`).
    pub(crate) counts: bool,
}

impl Default for Look<'_> {
    fn default() -> Self {
        Self::slotless(Payload::UNSEEN, DecidedOn::NONE, false)
    }
}

impl<'a> Look<'a> {
    /// A look at a key for which there is no room.
    pub(super) fn slotless(payload: Payload, decided_on: DecidedOn, allowed: bool) -> Self {
        let (slot, word) = (None, Word::ZERO);
        Self { payload, before: payload, slot, word, decided_on, allowed, counts: false }
    }

    /// Whether the key has room in its bucket, or what the keys without a slot share.
    pub(crate) fn has_room(&self) -> bool {
        !matches!(self.decided_on.basis(), Basis::Full | Basis::Uncounted)
    }

    /// What the key would have after the request, and where that is read.
    pub(crate) fn foreseen(&self) -> (Payload, DecidedOn) {
        let is_foreseen = (self.allowed || self.counts) && self.has_room();
        (self.payload, if is_foreseen { self.decided_on.on(Basis::Foreseen) } else { self.decided_on })
    }

    /// What the key has without the request, and where that is read.
    pub(crate) fn standing(&self) -> (Payload, DecidedOn) {
        (self.before, self.decided_on)
    }

    /// Charges the request. `false`: the word has changed since, or the key has no slot.
    #[inline(always)]
    pub(crate) fn charge(&self, fingerprint: Fingerprint) -> bool {
        self.slot.is_some_and(|slot| slot.charge_seen(self.word, self.payload, fingerprint.kept()))
    }

    /// The answer to a key in its home slot, if its algorithm decides in so few instructions that
    /// they are written out for each of several limits.
    #[inline(always)]
    pub(crate) fn quickly<R: Rule>(view: View<'a>, ask: Ask<'_, R>, now: Timestamp) -> Option<Self> {
        let Ask { rule: VersionedRef { pure: rule, validity }, fingerprint, cost } = ask.kept();
        rule.by_quick_algorithm(AtHome { view, validity, fingerprint, cost, now })?
    }

    /// The same by any algorithm.
    #[inline(always)]
    pub(crate) fn at_home<R: Rule>(view: View<'a>, ask: Ask<'_, R>, now: Timestamp) -> Option<Self> {
        let Ask { rule: VersionedRef { pure: rule, validity }, fingerprint, cost } = ask.kept();
        rule.by_algorithm(AtHome { view, validity, fingerprint, cost, now })
    }

    /// The same wherever the key is.
    #[inline]
    pub(crate) fn anywhere<R: Rule>(view: View<'a>, ask: Ask<'_, R>, now: Timestamp) -> Self {
        let Ask { rule: VersionedRef { pure: rule, validity }, fingerprint, cost } = ask.kept();
        rule.by_algorithm(Anywhere(AtHome { view, validity, fingerprint, cost, now }))
    }

    /// The answer by this slot, if it is the key's and at rest. A refusal is only valid while the
    /// word is unchanged.
    fn at_slot<R: Rule>(view: View<'a>, index: SlotIndex, ask: Ask<'_, R>, now: Timestamp) -> Option<Self> {
        let slot = view.bucket.slot(index);
        let (word, fingerprint) = slot.read();
        if fingerprint != ask.fingerprint || word.is_frozen() {
            return None;
        }
        let (ring, before) = (view.ring::<R>(index), ask.rule.read(word.payload()));
        let (allowed, counts, payload) = match ask.rule.decide(before, ring, ask.rule.moment(now), ask.cost) {
            Verdict::Allow(payload) => (true, false, payload),
            _ if !slot.is_still(word) => return None,
            Verdict::Deny(_) => (false, false, before),
            Verdict::DenyAndCount(payload) => (false, true, payload),
        };
        let decided_on = view.table.decided_on(ring, Basis::Own);
        Some(Self { payload, before, slot: Some(slot), word, decided_on, allowed, counts })
    }

    /// The answer to a key that has no slot at rest, and this payload before the request.
    pub(super) fn without_slot<R: Rule>(
        view: View<'a>,
        ask: Ask<'_, R>,
        at: Moment,
        (before, ring, basis): (Payload, Ring<'a>, Basis),
    ) -> Self {
        // By the rule itself: nothing is booked, so the horizon stays.
        let (allowed, counts, payload) = match ask.rule.pure.decide(before, ring, at, ask.cost) {
            Verdict::Allow(payload) => (true, false, payload),
            // What keys share counts no refusals.
            Verdict::DenyAndCount(payload) if basis != Basis::Shared => (false, true, payload),
            _ => (false, false, before),
        };
        let (slot, word, decided_on) = (None, Word::ZERO, view.table.decided_on(ring, basis));
        Self { payload, before, slot, word, decided_on, allowed, counts }
    }
}

/// A look at the key's home slot.
struct AtHome<'v, 'a> {
    view: View<'a>,
    validity: &'v Validity,
    fingerprint: Fingerprint,
    cost: u64,
    now: Timestamp,
}

/// `None`: the key is not there, or the rule does not decide quickly.
impl<'a> Visit for AtHome<'_, 'a> {
    type Output = Option<Look<'a>>;

    #[inline(always)]
    fn visit<R: Rule>(self, rule: &R) -> Option<Look<'a>> {
        let Self { view, validity, fingerprint, cost, now } = self;
        let rule = VersionedRef { pure: rule, validity };
        let home = home_slot(fingerprint);
        let slot = view.bucket.slot(home);
        let (word, owner) = slot.read();
        if owner != fingerprint || word.is_frozen() {
            return None;
        }
        let at = rule.quick_moment(now)?;
        let before = rule.pure.own(word.payload(), at)?;
        let (allowed, payload) = match rule.decide_own(word.payload(), view.ring::<R>(home), at, cost)? {
            Verdict::Allow(payload) => (true, payload),
            Verdict::Deny(payload) if slot.is_still(word) => (false, payload),
            _ => return None,
        };
        let decided_on = if R::RINGED { DecidedOn::of(home) } else { DecidedOn::NONE };
        Some(Look { payload, before, slot: Some(slot), word, decided_on, allowed, counts: false })
    }
}

/// A look at the key wherever it is.
struct Anywhere<'v, 'a>(AtHome<'v, 'a>);

impl<'a> Visit for Anywhere<'_, 'a> {
    type Output = Look<'a>;

    #[inline]
    fn visit<R: Rule>(self, rule: &R) -> Look<'a> {
        let AtHome { view, validity, fingerprint, cost, now } = self.0;
        let ask = Ask { rule: VersionedRef { pure: rule, validity }, fingerprint, cost };
        if let Some(found) = Look::at_slot(view, home_slot(fingerprint), ask, now) {
            return found;
        }
        let found = match view.bucket.slot_of(fingerprint) {
            Some(index) => Look::at_slot(view, index, ask, now),
            // Whether the slot really will be the key's, the charge decides.
            None => recyclable(view, ask, now)
                .map(|(payload, before)| Look { before, ..Look::slotless(payload, DecidedOn::NONE, true) }),
        };
        // Otherwise the bucket is full, or a slot of the key is not at rest: its debt counts.
        found.unwrap_or_else(|| Look::peek(view, ask, now))
    }
}
