//! What happens to a new key when every slot of its bucket belongs to a key that owes something.

use crate::algorithm::{Moment, Rule, Verdict};
use crate::ring::Ring;
use crate::table::slot::Ask;
use crate::table::word::Word;

/// What happens to a new key when its bucket is full of keys that owe something.
///
/// A table sized by `max_keys` keeps buckets at most 55 % full, so this concerns two keys in a thousand at capacity, and
/// floods of new keys. Each such event is counted in [`Stats`](crate::Stats).
///
/// No choice but `Allow` admits more than a key's limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WhenFull {
    /// The slot of the least debt is handed over together with its debt, if that is at most half of the limit: a
    /// flood of new keys displaces its own. Otherwise the new keys of the bucket share one allowance of half the
    /// limit. (The sliding log, which has no word to share, refuses then.)
    ///
    /// No debt is ever forgiven: a key whose slot was handed over comes back to at least what it owed. For the
    /// sliding window counters, whose debts do not all run out at one speed, that holds but for what rotation changes.
    #[default]
    Share,
    /// A new key is refused until a slot runs empty.
    Deny,
    /// A new key is admitted without being counted. This fails open: a flood of keys is not limited at all.
    Allow,
}

/// Where a new key goes.
pub(crate) enum Place {
    /// Into a slot that is worth nothing.
    Vacant(usize, Word),
    /// Into a slot that owes little, taking over its debt.
    HandedOver(usize, Word),
    /// To the bucket's overflow word.
    Shared,
    /// Nowhere: refused, as a request on this payload, that of the slot.
    TurnedAway(u64, usize),
    /// Nowhere: admitted, leaving this payload.
    WavedThrough(u64),
}

impl WhenFull {
    /// Where a new key goes when slot `index`, with its `word`, owes the least.
    pub(crate) fn place<R: Rule>(
        self,
        ask: Ask<'_, R>,
        index: usize,
        word: Word,
        ring: Ring<'_>,
        at: Moment,
    ) -> Place {
        let (rule, payload) = (ask.rule, word.payload());
        match self {
            Self::Share => {
                let half_is_free = rule.decide(payload, ring, at, rule.limit() - rule.limit() / 2);
                match half_is_free {
                    Verdict::Allow(_) => Place::HandedOver(index, word),
                    _ if rule.ring_len() > 0 => Place::TurnedAway(payload, index),
                    _ => Place::Shared,
                }
            }
            Self::Deny => Place::TurnedAway(payload, index),
            Self::Allow => {
                let fresh = rule.forgive(payload, at);
                match rule.decide(fresh, Ring::NONE, at, ask.cost) {
                    Verdict::Allow(payload) => Place::WavedThrough(payload),
                    _ => Place::WavedThrough(fresh),
                }
            }
        }
    }
}
