//! Looking first and charging afterwards: for a request that several limits decide together.
//!
//! A look is a decision on a word that was read, and writes nothing. It can be charged as it was decided, by one
//! compare-exchange from that very word; when that fails the request is decided again.

use crate::algorithm::{Rule, Verdict};
use crate::table::bucket::{View, home};
use crate::table::slot::{Ask, Ruling};
use crate::table::word::Word;
use crate::time::Timestamp;

/// What a look at a key said of a request.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    /// What the key owes: after the request if it is admitted, as it stands if not.
    pub(crate) payload: u64,
    /// The word that was looked at, if `is_mine`.
    pub(crate) word: Word,
    /// The slot that has the key's ring; 0 for none.
    pub(crate) place: u8,
    /// Whether that slot is the key's, and at rest.
    pub(crate) is_mine: bool,
    pub(crate) allowed: bool,
    /// Whether the refused request counts (`Count::All`).
    pub(crate) counts: bool,
}

impl View<'_> {
    /// What `check` would answer now, from the key's home slot if it is there.
    #[inline(always)]
    pub(crate) fn look<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Look {
        let home = home(ask.name);
        let (word, name) = self.bucket.slot(home).read();
        if name == ask.name
            && !word.is_frozen()
            && let Some(look) = self.look_at(home, word, ask, now)
        {
            return look;
        }
        self.look_displaced(ask, now)
    }

    #[inline(never)]
    fn look_displaced<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Look {
        if let Some(place) = self.bucket.displaced(ask.name)
            && let (word, name) = self.bucket.slot(place).read()
            && name == ask.name
            && !word.is_frozen()
            && let Some(look) = self.look_at(place, word, ask, now)
        {
            return look;
        }
        self.look_around(ask, now)
    }

    /// What `check` would answer to a key that has no slot at rest.
    #[cold]
    #[inline(never)]
    fn look_around<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Look {
        let Ruling { allowed, payload, ring } = self.peek(ask, now);
        let counts = !allowed && ring.unstaged() > 0;
        Look {
            payload,
            place: self.table.place_of(ring) as u8,
            allowed,
            counts,
            word: Word::ZERO,
            is_mine: false,
        }
    }

    /// The answer on a word that belonged to the key. A refusal stands only while the word does.
    #[inline(always)]
    fn look_at<R: Rule>(self, place: usize, word: Word, ask: Ask<'_, R>, now: Timestamp) -> Option<Look> {
        let (rule, owed) = (ask.rule, word.payload());
        let (allowed, counts, payload) =
            match rule.decide(owed, self.ring::<R>(place), rule.moment(now), ask.cost) {
                Verdict::Allow(payload) => (true, false, payload),
                _ if !self.bucket.slot(place).is_still(word) => return None,
                Verdict::Deny => (false, false, owed),
                Verdict::DenyAndCount(_) => (false, true, owed),
            };
        Some(Look { payload, word, place: place as u8, is_mine: true, allowed, counts })
    }

    /// Charges an admitted request, as `payload`, from the word at a place that it was decided on. `false`: decide again.
    #[inline(always)]
    pub(crate) fn charge_seen<R: Rule>(
        self,
        ask: Ask<'_, R>,
        (place, word): (u8, Word),
        payload: u64,
        now: Timestamp,
    ) -> bool {
        let place = usize::from(place);
        let at = || ask.rule.moment(now);
        let charged = self.bucket.slot(place).charge_seen(word, payload, ask, self.ring::<R>(place), at);
        self.table.events(ask.name).retried(u64::from(!charged));
        charged
    }
}
