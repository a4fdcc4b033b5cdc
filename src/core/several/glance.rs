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
//! * A kept decision borrows nothing, and has the same numbers when it is recalled.

use crate::algorithm::{AnyRule, Payload};
use crate::clock::Clock;
use crate::core::Core;
use crate::core::several::asks::{Asks, OneKey};
use crate::core::several::decision::MultiDecision;
use crate::core::several::short_way::glance;
use crate::core::several::{Several, Tables};
use crate::core::version::{Version, Versions};
use crate::decision::Outcome;
use crate::receipt::{Charged, ChargedBy, Receipt, Set};
use crate::table::slot::Slot;
use crate::table::{Fingerprint, RingPlace, Word};
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
        let charged = [Charged { fingerprint, payload, left: cost }];
        Some(Receipt { limiter: version.limiter, since: now, by: version.charged_by(), resets, charged })
    }
}

/// What the only limit of a limiter refused, kept for later.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Refusal {
    /// The limiter's number among all of this process.
    limiter: u64,
    version: u32,
    resets: u32,
    asks: OneKey,
    now: Timestamp,
    payload: Payload,
    place: RingPlace,
    is_never: bool,
}

impl Refusal {
    /// Whether no wait will help.
    #[must_use]
    pub fn is_never(&self) -> bool {
        self.is_never
    }
}

impl<C: Clock> Core<Several, C> {
    /// Decides and charges a request as every check does, and keeps of the answer what can give the
    /// charge back or show the refusal. `None`: there are several limits, or a log, and nothing was
    /// decided.
    #[inline]
    pub(crate) fn check_only(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
    ) -> Option<Result<Receipt, Refusal>> {
        if self.places.brief != 1 {
            return None;
        }
        let decision = self.charge(OneKey { fingerprint, cost }, || now);
        let MultiDecision { asks, now, since, resets, taken, .. } = decision;
        let (limiter, version) = (decision.version.limiter, decision.version.default.shown.version);
        let (payload, place) = (decision.payloads[0], decision.places[0]);
        Some(match decision.outcome {
            Outcome::Allowed => {
                let left = if taken.has(0) { cost } else { 0 };
                let charged = [Charged { fingerprint, payload, left }];
                Ok(Receipt { limiter, since, by: decision.version.charged_by(), resets, charged })
            }
            outcome => {
                let is_never = outcome == Outcome::Never;
                Err(Refusal { limiter, version, resets, asks, now, payload, place, is_never })
            }
        })
    }

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
    let ChargedBy::Version { number, .. } = receipt.by else { return None };
    let version = versions.numbered(number.into());
    let mut decision =
        MultiDecision::new(tables, version, OneKey { fingerprint, cost: left }, now, receipt.resets);
    for (payload, charged) in decision.payloads.iter_mut().zip(&receipt.charged) {
        *payload = charged.payload;
    }
    Some(decision)
}

/// The decision that a refusal is of. `None`: it is another limiter's.
pub(crate) fn recall_refusal<'l>(
    (tables, versions): (&'l Tables, &'l Versions<crate::algorithm::Each>),
    refusal: &Refusal,
) -> Option<MultiDecision<'l>> {
    let Refusal { limiter, version, resets, asks, now, payload, place, is_never } = *refusal;
    if limiter != versions.limiter() {
        return None;
    }
    let version = versions.numbered(version.into());
    let mut decision = MultiDecision::new(tables, version, asks, now, resets);
    (decision.payloads[0], decision.places[0], decision.refused) = (payload, place, Set::first(1));
    decision.outcome = if is_never { Outcome::Never } else { Outcome::Denied };
    Some(decision)
}
