//! Looking first and charging afterwards: for a request that several limits decide together.
//!
//! A look is a decision on a word that was read, and writes nothing. It can be charged as it was decided, by one
//! compare-exchange from that very word; when that fails the request is decided again.

use crate::algorithm::{Rule, Verdict};
use crate::table::bucket::{View, home};
use crate::table::slot::{Ask, Ruling, Slot};
use crate::table::word::Word;
use crate::time::Timestamp;

/// What the slot at a key's home tells of a request.
#[derive(Clone, Copy)]
pub(crate) struct Glance<'a> {
    /// What the key owes: after the request if it is admitted, as it stands if not.
    pub(crate) payload: u64,
    /// The slot that was the key's and at rest, and the word that was looked at.
    pub(crate) seen: (&'a Slot, Word),
    /// The place of that slot if it has a ring; 0 for none.
    pub(crate) place: u8,
    pub(crate) allowed: bool,
}

/// What a look at a key said of a request.
pub(crate) struct Look<'a> {
    /// What the key owes: after the request if it is admitted, as it stands if not.
    pub(crate) payload: u64,
    /// The slot that was the key's and at rest, and the word that was looked at. `None`: it has none.
    pub(crate) seen: Option<(&'a Slot, Word)>,
    /// The place of the slot that has the key's ring; 0 for none.
    pub(crate) place: u8,
    pub(crate) allowed: bool,
    /// Whether the refused request counts (`CountPolicy::All`).
    pub(crate) counts: bool,
}

impl<'a> View<'a> {
    /// What `look` would say, if the key is at home and that takes few instructions.
    #[inline(always)]
    pub(crate) fn glance<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Option<Glance<'a>> {
        let home = home(ask.name);
        let slot = self.bucket.slot(home);
        let (word, name) = slot.read();
        if name != ask.name || word.is_frozen() {
            return None;
        }
        let (at, owed) = (ask.rule.quick_moment(now)?, word.payload());
        let (allowed, payload) = match ask.rule.quick_decide(owed, self.ring::<R>(home), at, ask.cost)? {
            Verdict::Allow(payload) => (true, payload),
            Verdict::Deny if slot.is_still(word) => (false, owed),
            _ => return None,
        };
        let place = if R::RINGED { home as u8 } else { 0 };
        Some(Glance { payload, seen: (slot, word), place, allowed })
    }

    /// What `check` would answer now.
    pub(crate) fn look<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Look<'a> {
        let at = |place| self.look_at(place, ask, now);
        let found = at(home(ask.name)).or_else(|| at(self.bucket.displaced(ask.name)?));
        found.unwrap_or_else(|| self.look_around(ask, now))
    }

    /// What `check` would answer to a key that has no slot at rest.
    fn look_around<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Look<'a> {
        let Ruling { allowed, payload, ring } = self.peek(ask, now);
        let counts = !allowed && ring.unstaged() > 0;
        Look { payload, seen: None, place: self.table.place_of(ring) as u8, allowed, counts }
    }

    /// The answer of a slot, if it is the key's and at rest. A refusal stands only while the word does.
    fn look_at<R: Rule>(self, place: usize, ask: Ask<'_, R>, now: Timestamp) -> Option<Look<'a>> {
        let slot = self.bucket.slot(place);
        let (word, name) = slot.read();
        if name != ask.name || word.is_frozen() {
            return None;
        }
        let (ring, owed) = (self.ring::<R>(place), word.payload());
        let (allowed, counts, payload) = match ask.rule.decide(owed, ring, ask.rule.moment(now), ask.cost) {
            Verdict::Allow(payload) => (true, false, payload),
            _ if !slot.is_still(word) => return None,
            Verdict::Deny => (false, false, owed),
            Verdict::DenyAndCount(_) => (false, true, owed),
        };
        let place = self.table.place_of(ring) as u8;
        Some(Look { payload, seen: Some((slot, word)), place, allowed, counts })
    }
}
