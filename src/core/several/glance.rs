//! A check in two steps, for callers that ask several limiters and charge all of them or none.
//!
//! A glance and its charge are what the short way of a check does of one limit: it looks at the
//! key's home slot, and charges it by one compare-exchange from the word that it saw. Time may pass
//! in between, as it may for a check whose thread is stopped there.
//!
//! What must stay true:
//!
//! * A glance writes nothing, and is no answer: its caller charges it, or asks by a check.
//! * The number of resets is loaded before the word is read, so a charge that a reset has forgiven
//!   is not given back.

use crate::algorithm::{AnyRule, Payload};
use crate::clock::Clock;
use crate::core::Core;
use crate::core::several::asks::{Asks, OneKey};
use crate::core::several::decision::MultiDecision;
use crate::core::several::short_way::glance;
use crate::core::several::{Several, Tables};
use crate::core::version::{Version, Versions};
use crate::decision::Shown;
use crate::receipt::{Charged, Receipt};
use crate::table::slot::Slot;
use crate::table::{Fingerprint, Word};
use crate::time::Timestamp;

/// What a limiter would admit, and has not charged. Charged twice, the second charge fails: the
/// word is another.
#[doc(hidden)]
#[derive(Clone, Copy)]
#[must_use = "a glance charges nothing"]
pub struct Glance<'l> {
    slot: &'l Slot,
    word: Word,
    /// The key's payload with the request.
    payload: Payload,
    fingerprint: Fingerprint,
    cost: u64,
    now: Timestamp,
    version: &'l Version<AnyRule>,
    resets: u32,
}

impl Glance<'_> {
    /// Charges the request. `None`: the key has changed since, and nothing was charged.
    #[inline(always)]
    pub fn charge(&self) -> Option<Receipt> {
        let Self { slot, word, payload, fingerprint, cost, now, version, resets } = *self;
        if !slot.charge_seen(word, payload, fingerprint.kept()) {
            return None;
        }
        let Shown { limiter, version, .. } = version.default.shown;
        let charged = [Charged { fingerprint, payload, left: cost }];
        Some(Receipt { limiter, since: now, version, resets, rule: 0, charged })
    }
}

impl<C: Clock> Core<Several, C> {
    /// Looks whether the only limit admits a request, by the key's home slot. `None`: only a check
    /// can say.
    #[inline(always)]
    pub(crate) fn glance(&self, fingerprint: Fingerprint, cost: u64, now: Timestamp) -> Option<Glance<'_>> {
        if self.places.brief != 1 {
            return None;
        }
        let state = self.versions.state();
        let (asks, version) = (OneKey { fingerprint, cost }, self.versions.of(state));
        if !asks.fit(version) {
            return None;
        }
        let seen = glance(self.places.first()?, version.dated(0), asks, 0, now)?;
        let ((slot, word), payload, resets) = (seen.seen, seen.payload, state.resets());
        seen.allowed.then_some(Glance { slot, word, payload, fingerprint, cost, now, version, resets })
    }
}

/// The decision that a receipt is of, with nothing to give back. `None` where the receipt says too
/// little: it is another limiter's, or that of a log.
pub(crate) fn recall<'l, const LIMITS: usize>(
    (tables, versions): (&'l Tables, &'l Versions<crate::algorithm::Each>),
    receipt: &Receipt<LIMITS>,
    now: Timestamp,
) -> Option<MultiDecision<'l>> {
    if receipt.limiter != versions.limiter() || tables.brief == 0 || tables.brief > LIMITS {
        return None;
    }
    let Charged { fingerprint, left, .. } = *receipt.charged.first()?;
    let version = versions.numbered(receipt.version.into());
    let mut decision =
        MultiDecision::new(tables, version, OneKey { fingerprint, cost: left }, now, receipt.resets);
    for (payload, charged) in decision.payloads.iter_mut().zip(&receipt.charged) {
        *payload = charged.payload;
    }
    Some(decision)
}
