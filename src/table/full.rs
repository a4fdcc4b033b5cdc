//! Where a new key goes, and what happens to it when its bucket is full of keys in debt.

use crate::algorithm::{Moment, Payload, Rule};
use crate::table::fingerprint::Fingerprint;
use crate::table::ruling::Ask;
use crate::table::slot_index::SlotIndex;
use crate::table::versioned::VersionedRef;
use crate::table::word::Word;

/// What happens to a new key when its bucket is full of keys in debt.
///
/// A table's buckets are at most 64 % full when it holds `max_keys`, so this concerns up to eight
/// keys in a thousand at capacity, and floods of new keys. Below its capacity a full bucket is
/// split. Each such event is counted in [`Stats`](crate::Stats).
///
/// No choice but `Allow` admits more than a key's limit, or forgives a debt, while the clock does
/// not step back: a key that lost its slot and comes back at an earlier time may get as much as the
/// step refills.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum WhenFull {
    /// The key with the least debt loses its slot, and the new key inherits it *with that debt*, if
    /// it is at most half of the smallest limit: a flood of new keys displaces its own. Otherwise
    /// the new keys of the bucket share one allowance, which starts at half of the limit. A request
    /// that this refuses is not counted, also with [`CountPolicy::All`](crate::CountPolicy::All):
    /// the other keys would pay for it.
    ///
    /// That holds for the buckets and the fixed window, whose debts can be compared. The sliding
    /// window, the sliding log and windows [from the first hit](crate::FirstHit) refuse, as
    /// [`Deny`](Self::Deny) does. Where quotas [come with calls](crate::CallQuota), this is
    /// [`Inherit`](Self::Inherit).
    #[default]
    Share,
    /// The same without an allowance that keys share: a new key inherits a slot, or is refused. It
    /// is told to come again when the first slot is vacant; it may be admitted earlier, as soon as
    /// a debt is small enough to be inherited.
    Inherit,
    /// A new key is refused until a slot runs empty: nothing is [left](crate::Decision::remaining)
    /// for it, and [`retry_after`](crate::Decision::retry_after) says when that will be.
    Deny,
    /// A new key is admitted without being counted, and has all of its limit afterwards, too. This
    /// fails open: a flood of keys is not limited. A [debit](crate::Account::debit) that finds no
    /// slot is an error.
    Allow,
}

/// Where a new key goes.
pub(crate) enum Placement {
    /// Into a slot without debt.
    Vacant(SlotIndex, Word),
    /// Into the slot of an evicted key, inheriting its debt.
    Evict(SlotIndex, Word),
    /// To the bucket's overflow word. This payload is the least that a slot has.
    Shared(Payload),
    /// No slot: refused, until the slot with this payload is vacant.
    Refuse(Payload, SlotIndex),
    /// No slot: admitted, and counted nowhere. The payload is that of a key without debt.
    AdmitUncounted(Payload),
}

/// What a new key takes over with its slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inherits {
    /// Nothing: the slot has no debt.
    Nothing,
    /// The debt of the key that is evicted.
    Debt,
}

impl Inherits {
    /// The fingerprint that is left in the slot if another insertion commits first.
    pub(super) fn left(self) -> Fingerprint {
        match self {
            Self::Nothing => Fingerprint::VACANT,
            Self::Debt => Fingerprint::IN_DEBT,
        }
    }
}

/// A slot at rest.
#[derive(Clone, Copy)]
pub(super) struct AtRest {
    pub(super) index: SlotIndex,
    pub(super) word: Word,
    pub(super) fingerprint: Fingerprint,
}

/// The slots that a new key could take, among those weighed in the order of its probes.
#[derive(Clone, Copy, Default)]
pub(super) struct Candidates {
    /// The first vacant one.
    vacant: Option<AtRest>,
    /// While there is none: the one with the least debt, and the rank of that debt.
    least: Option<(AtRest, u64)>,
}

impl Candidates {
    /// Weighs another slot.
    #[inline]
    pub(super) fn weigh<R: Rule>(&mut self, rule: VersionedRef<'_, R>, slot: AtRest) {
        if self.vacant.is_some() {
            return;
        }
        if slot.fingerprint.is_vacant() {
            self.vacant = Some(slot);
            return;
        }
        let debt = rule.rank(slot.word.payload());
        if self.least.is_none_or(|(_, least)| debt < least) {
            self.least = Some((slot, debt));
        }
    }

    /// Where the requested key goes.
    pub(super) fn placement<R: Rule>(self, when_full: WhenFull, ask: Ask<'_, R>, at: Moment) -> Placement {
        if let Some(slot) = self.vacant {
            return Placement::Vacant(slot.index, slot.word);
        }
        match self.least {
            // If the least debt has not expired, none has.
            Some((slot, _)) if ask.rule.expired(slot.word.payload(), at) => {
                Placement::Vacant(slot.index, slot.word)
            }
            Some((slot, _)) => when_full.placement(ask, (slot.index, slot.word), at),
            // Every slot is being inserted into: the next request may find room.
            None if when_full.admits(ask.rule) => Placement::AdmitUncounted(Payload::UNSEEN),
            None => Placement::Refuse(Payload::UNSEEN, SlotIndex::FIRST),
        }
    }

    /// Whether the vacant slot was that of a key whose debt has expired.
    pub(super) fn recycles(self) -> bool {
        self.vacant.is_none() && self.least.is_some_and(|(slot, _)| slot.fingerprint.is_key())
    }
}

impl WhenFull {
    /// The same where no two keys may share an allowance.
    pub(crate) fn unshared(self) -> Self {
        if self == Self::Share { Self::Inherit } else { self }
    }

    /// Whether a new key is admitted uncounted.
    fn admits<R: Rule>(self, rule: VersionedRef<'_, R>) -> bool {
        self == Self::Allow && rule.pure.may_go_uncounted()
    }

    /// Where a new key goes when slot `index`, with this `word`, has the least debt.
    fn placement<R: Rule>(self, ask: Ask<'_, R>, (index, word): (SlotIndex, Word), at: Moment) -> Placement {
        let (rule, payload) = (ask.rule, ask.rule.current(word.payload()));
        match self {
            Self::Share | Self::Inherit => match rule.inheritable(at) {
                Some(half) if payload <= half => Placement::Evict(index, word),
                Some(_) if self == Self::Share => Placement::Shared(payload),
                _ => Placement::Refuse(payload, index),
            },
            Self::Allow if self.admits(rule) => Placement::AdmitUncounted(rule.forgive(word.payload(), at)),
            Self::Deny | Self::Allow => Placement::Refuse(payload, index),
        }
    }
}
