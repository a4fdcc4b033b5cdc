//! A check in two steps, for callers that ask several limiters and charge all of them or none.
//!
//! A glance and its charge are what a check does of one limit: it looks at the key's home slot, and
//! charges it by one compare-exchange from the word that it saw. Time may pass in between, as it
//! may for a check whose thread is stopped there.
//!
//! What must stay true:
//!
//! * A glance writes nothing, and is no answer: its caller charges it, or asks by a check.
//! * The number of resets is loaded before the word is read, so a charge that a reset has forgiven
//!   is not given back.
//! * A kept decision borrows nothing, and has the same numbers when it is recalled.

use crate::algorithm::{Algorithm, Payload};
use crate::clock::Clock;
use crate::key::Key;
use crate::limiter::Limiter;
use crate::limiter::core::Core;
use crate::limiter::decision::{Decision, Shown};
use crate::limiter::version::Tier;
use crate::outcome::Outcome;
use crate::receipt::{Charged, ChargedBy, Receipt, Set};
use crate::table::basis::Basis;
use crate::table::look::Look;
use crate::table::ruling::Ask;
use crate::table::{Fingerprint, RingPlace};
use crate::time::Timestamp;

/// What a limiter would admit, and has not charged. Charged twice, the second charge fails: the
/// word is another.
#[doc(hidden)]
#[derive(Clone, Copy)]
#[must_use = "a glance charges nothing"]
pub struct Glance<'l> {
    look: Look<'l>,
    limiter: u64,
    fingerprint: Fingerprint,
    cost: u64,
    now: Timestamp,
    by: &'l Shown,
    resets: u32,
}

impl Glance<'_> {
    /// Charges the request. `None`: the key has changed since, and nothing was charged.
    #[inline(always)]
    pub fn charge(&self) -> Option<Receipt> {
        let Self { look, limiter, fingerprint, cost, now, by, resets } = *self;
        if !look.charge(fingerprint) {
            return None;
        }
        let charged = [Charged { payload: look.payload, left: cost }];
        Some(Receipt { limiter, since: now, by: by.charged_by(), resets, fingerprint, charged })
    }
}

/// What the only limit of a limiter refused, kept for later.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Refusal {
    /// The limiter's number among all of this process.
    limiter: u64,
    by: ChargedBy,
    resets: u32,
    fingerprint: Fingerprint,
    cost: u64,
    now: Timestamp,
    payload: Payload,
    place: RingPlace,
    outcome: Outcome,
}

impl Refusal {
    /// Whether no wait will help.
    #[must_use]
    pub fn is_never(&self) -> bool {
        self.outcome == Outcome::Never
    }
}

impl<A: Algorithm, const N: usize, C: Clock> Core<A, N, C> {
    /// Decides and charges a request as every check does, and keeps of the answer what can give the
    /// charge back or show the refusal. `None`: there are several limits, or a log, and nothing was
    /// decided.
    #[inline]
    pub(super) fn check_only(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
    ) -> Option<Result<Receipt, Refusal>> {
        if self.tables.limits() != 1 || self.tables.first.has_rings() {
            return None;
        }
        let tier = &self.versions.first().default;
        let decision = self.check_several::<1>(tier, fingerprint, cost, || now);
        let Decision { now, since, resets, outcome, .. } = decision;
        let (limiter, by) = (self.tables.limiter, decision.by[0].charged_by());
        let (payload, place) = (decision.payloads[0], decision.places[0]);
        Some(match outcome {
            Outcome::Allowed => {
                let left = if decision.is_charged(0) { cost } else { 0 };
                let charged = [Charged { payload, left }];
                Ok(Receipt { limiter, since, by, resets, fingerprint, charged })
            }
            outcome => Err(Refusal { limiter, by, resets, fingerprint, cost, now, payload, place, outcome }),
        })
    }

    /// Looks whether the only limit admits a request, by the key's home slot. `None`: only a check
    /// can say.
    #[inline(always)]
    pub(super) fn glance(&self, fingerprint: Fingerprint, cost: u64, now: Timestamp) -> Option<Glance<'_>> {
        let state = self.versions.state();
        if self.tables.limits() != 1 || state.is_observed() {
            return None;
        }
        let tier = match state.is_plain() {
            true => &self.versions.first().default,
            false => &self.versions.of(state).default,
        };
        if !tier.has_room_for(cost) {
            return None;
        }
        let view = self.tables.first.view(fingerprint);
        view.prefetch_all();
        let look = view.look_quickly(Ask { rule: tier.dated(0), fingerprint, cost }, now)?;
        let (by, resets) = (&tier.shown[0], state.resets());
        look.allowed.then_some(Glance {
            look,
            limiter: self.tables.limiter,
            fingerprint,
            cost,
            now,
            by,
            resets,
        })
    }
}

impl<A: Algorithm, const N: usize, C> Core<A, N, C> {
    /// The tier that charged a request. `None`: its quota came with the call.
    fn charged_by(&self, by: ChargedBy) -> Option<&Tier<A::Rule, N>> {
        match by {
            ChargedBy::Version { number, rule } => {
                Some(self.versions.numbered(number.into()).tier_of(rule.into()))
            }
            ChargedBy::Call { .. } => None,
        }
    }

    /// The decision that a receipt is of, with nothing to give back. `None` where the receipt says
    /// too little: it is another limiter's, or that of a log.
    pub(super) fn recall<const M: usize>(
        &self,
        receipt: &Receipt<M>,
        now: Timestamp,
    ) -> Option<Decision<'_, N>> {
        let Receipt { limiter, by, resets, fingerprint, .. } = *receipt;
        let limits = self.tables.limits();
        if limiter != self.tables.limiter || self.tables.have_rings() || limits > M {
            return None;
        }
        let tier = self.charged_by(by)?;
        let mut payloads = [Payload::UNSEEN; N];
        for (payload, charged) in payloads.iter_mut().zip(&receipt.charged) {
            *payload = charged.payload;
        }
        let decision = self.answer(tier, fingerprint, receipt.left(), now, resets, payloads);
        Some(Decision { places: [RingPlace::NONE.on(Basis::Uncounted); N], ..decision })
    }

    /// The decision that a refusal is of. `None`: it is another limiter's.
    pub(super) fn recall_refusal(&self, refusal: &Refusal) -> Option<Decision<'_, N>> {
        let Refusal { limiter, by, resets, fingerprint, cost, now, payload, place, outcome } = *refusal;
        if limiter != self.tables.limiter {
            return None;
        }
        let tier = self.charged_by(by)?;
        let decision = self.answer(tier, fingerprint, cost, now, resets, [payload; N]);
        Some(Decision { outcome, refused: Set::first(1), places: [place; N], ..decision })
    }
}

impl<K: ?Sized, A: Algorithm, const N: usize, C: Clock> Limiter<K, A, N, C> {
    /// What a check would do of a limiter with one quota, without the charge: for callers that ask
    /// several limiters and charge all of them or none. `None`: the request is not admitted, or
    /// only a check can say.
    #[doc(hidden)]
    #[inline(always)]
    pub fn glance(&self, key: impl Key<K>, cost: u64, now: Timestamp) -> Option<Glance<'_>> {
        self.core.glance(self.core.fingerprint(&key), cost, now)
    }

    /// A check at `now` by a limiter with one quota, of which the answer is kept: the receipt of an
    /// admitted request, or the refusal. `None`: the limiter has others, and nothing was decided.
    #[doc(hidden)]
    #[inline]
    pub fn check_only(
        &self,
        key: impl Key<K>,
        cost: u64,
        now: Timestamp,
    ) -> Option<Result<Receipt, Refusal>> {
        self.core.check_only(self.core.fingerprint(&key), cost, now)
    }
}

impl<K: ?Sized, A: Algorithm, const N: usize, C> Limiter<K, A, N, C> {
    /// The decision that a receipt is of, as at `now`, with nothing to give back. `None` where the
    /// receipt says too little.
    #[doc(hidden)]
    pub fn recall<const M: usize>(&self, receipt: &Receipt<M>, now: Timestamp) -> Option<Decision<'_, N>> {
        self.core.recall(receipt, now)
    }

    /// The decision that a refusal is of. `None`: another limiter refused.
    #[doc(hidden)]
    pub fn recall_refusal(&self, refusal: &Refusal) -> Option<Decision<'_, N>> {
        self.core.recall_refusal(refusal)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::algorithm::Quota;
    use crate::algorithm::TokenBucket;
    use crate::clock::ManualClock;
    use crate::rate::Rate;

    fn limiter(clock: &ManualClock) -> Limiter<u64, Quota, 1, ManualClock> {
        let quota: Quota = TokenBucket::new(Rate::per_second(10)).into();
        Limiter::builder(quota).per().clock(clock.clone()).build().unwrap()
    }

    #[test]
    fn a_glance_and_its_charge_are_a_check() {
        let clock = ManualClock::new();
        let (limiter, model) = (limiter(&clock), limiter(&clock));
        assert!(limiter.glance(7, 1, limiter.now()).is_none(), "a new key has no home slot");
        assert!(limiter.check(7).is_allowed() && model.check(7).is_allowed());
        let mut glances = 0;
        for cost in [1, 1, 3, 2, 4, 0, 11, 1, 1, 1, 3, 1, 1, 1] {
            let now = limiter.now();
            let receipt = limiter.glance(7, cost, now).and_then(|glance| glance.charge());
            let checked = model.account(7).at(now).check_n(cost);
            if let Some(receipt) = receipt {
                assert!(checked.is_allowed() && cost > 0);
                glances += 1;
                let recalled = limiter.recall(&receipt, now).unwrap();
                assert_eq!(format!("{recalled:?}"), format!("{checked:?}"));
                assert_eq!(recalled.receipt().left(), 0, "one receipt of a request");
            } else {
                // Such as the first check after the clock has come far.
                let recalled = match limiter.check_only(7, cost, now).unwrap() {
                    Ok(receipt) => limiter.recall(&receipt, now),
                    Err(refusal) => limiter.recall_refusal(&refusal),
                };
                assert_eq!(format!("{:?}", recalled.unwrap()), format!("{checked:?}"));
            }
            assert_eq!(format!("{:?}", limiter.peek(7)), format!("{:?}", model.peek(7)));
            clock.advance(Duration::from_micros(300 * cost));
        }
        assert!(glances > 4, "{glances}");
    }

    #[test]
    fn an_overtaken_glance_charges_nothing() {
        let clock = ManualClock::new();
        let limiter = limiter(&clock);
        assert!(limiter.check(7).is_allowed());
        let glance = limiter.glance(7, 5, limiter.now()).unwrap();
        assert!(limiter.check_n(7, 6).is_allowed());
        assert!(glance.charge().is_none());
        assert_eq!(limiter.peek(7).remaining(), 2);
    }

    #[test]
    fn the_receipt_of_a_glance_gives_back_once() {
        let clock = ManualClock::new();
        let (limiter, other) = (limiter(&clock), limiter(&clock));
        assert!(limiter.check(7).is_allowed() && other.check(7).is_allowed());
        let charge = || limiter.glance(7, 5, limiter.now()).unwrap().charge().unwrap();
        assert_eq!((limiter.refund(charge()), limiter.peek(7).remaining()), (5, 8));
        assert_eq!(other.refund(charge()), 0, "another limiter's");
        let receipt = charge_one(&limiter);
        assert!(limiter.account(7).reset());
        assert_eq!(limiter.refund(receipt), 0, "it is forgiven already");
    }

    fn charge_one(limiter: &Limiter<u64, Quota, 1, ManualClock>) -> Receipt {
        limiter.glance(7, 1, limiter.now()).unwrap().charge().unwrap()
    }
}
