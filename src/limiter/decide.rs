//! A check: where the key's home slots decide it, in the caller's own code; otherwise the slow
//! path, [`charge`](crate::limiter::charge).
//!
//! One limit is decided and charged at once. Of several limits each is looked at, and then each is
//! charged. Of a number of limits that the compiler knows, each limit's word stays in registers,
//! and each bucket is found once.
//!
//! What must stay true:
//!
//! * Until every limit has been looked at, nothing is written. So a request that the home slots do
//!   not decide (a key that is new, or not at home; a refusal that counts; a cost that is 0 or
//!   above a limit) begins anew on the slow path.
//! * A refusal is an answer only when the version has been looked at after the words (edge V1 of
//!   `version`). If it is another by then, the slow path goes on to that.
//! * Each limit is charged by one compare-exchange from the word that was looked at. Where the word
//!   is another by now, the limits before are charged: the request goes on from there.
//!
//! What keeps it fast: cold calls share no memory with the hot path (`by_fields`), and there is no
//! closure that is called from two places.

use crate::algorithm::{Algorithm, Payload, Ringed};
use crate::clock::Clock;
use crate::limiter::core::Core;
use crate::limiter::decision::Decision;
use crate::limiter::version::Tier;
use crate::outcome::Outcome;
use crate::receipt::{MOST_LIMITS, Set};
use crate::table::look::Look;
use crate::table::ruling::{Ask, Ruling};
use crate::table::{DecidedOn, Fingerprint};
use crate::time::Timestamp;

impl<A: Algorithm, const N: usize, C: Clock> Core<A, N, C> {
    /// Decides a request and charges it, and tells the observer. Every check comes here.
    // A call would keep the decision in memory, which costs as much as the check; and a time that
    // is lent instead of copied would be written to the stack.
    #[inline(always)]
    pub(super) fn check<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        cost: u64,
        time: impl Fn() -> Timestamp + Copy,
    ) -> Decision<'l, N> {
        match N {
            1 => self.check_one(tier, fingerprint, cost, time),
            MOST_LIMITS => self.check_list(tier, fingerprint, cost, time),
            _ => self.check_several::<N>(tier, fingerprint, cost, time),
        }
    }

    /// Decides by the only limit.
    #[inline(always)]
    fn check_one<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        cost: u64,
        time: impl Fn() -> Timestamp + Copy,
    ) -> Decision<'l, N> {
        let state = self.versions.state();
        if !tier.has_room_for(cost) || !state.is_plain() {
            return self.check_closely(tier, fingerprint, cost, time).by_fields();
        }
        let (ruling, now) = self.tables.first.check(&tier.rules[0], fingerprint, cost, time);
        // A charge shows that the version was current: its word was. A refusal writes nothing.
        if !ruling.allowed && !self.versions.stands(tier, now) {
            return self.check_closely(tier, fingerprint, cost, time).by_fields();
        }
        self.decided(tier, ruling, now, cost, fingerprint, state.resets())
    }

    /// The decision of an only limit.
    #[inline(always)]
    pub(super) fn decided<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        ruling: Ruling<'l>,
        now: Timestamp,
        cost: u64,
        fingerprint: Fingerprint,
        resets: u32,
    ) -> Decision<'l, N> {
        let Ruling { allowed, payload, ring, basis } = ruling;
        let place = match A::Rule::RINGED {
            true => self.tables.first.decided_on(ring, basis),
            false => DecidedOn::NONE.on(basis),
        };
        let mut refused = Set::default();
        refused.add_if(!allowed, 0);
        let outcome = if allowed { Outcome::Allowed } else { Outcome::Denied };
        let answer = self.answer(tier, fingerprint, cost, now, resets, [payload; N]);
        Decision { outcome, refused, decided_on: [place; N], ..answer }
    }

    /// Decides by a list of limits, whose number is known when the limiter is built.
    // A function: its code would be as long as all others together at each place of a call.
    #[inline(never)]
    fn check_list<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        cost: u64,
        time: impl Fn() -> Timestamp + Copy,
    ) -> Decision<'l, N> {
        match self.tables.limits() {
            1 => self.check_several::<1>(tier, fingerprint, cost, time),
            2 => self.check_several::<2>(tier, fingerprint, cost, time),
            3 => self.check_several::<3>(tier, fingerprint, cost, time),
            _ => {
                let state = self.versions.state();
                self.check_anywhere(state, self.versions.renewed(tier), fingerprint, cost, time(), time)
            }
        }
    }

    /// Decides by `M` limits, which are all that there are.
    #[inline(always)]
    pub(super) fn check_several<'l, const M: usize>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        cost: u64,
        time: impl Fn() -> Timestamp + Copy,
    ) -> Decision<'l, N> {
        let state = self.versions.state();
        let (tier, is_observed) = match state.is_plain() {
            true => (tier, false),
            // A later version is decided here, too.
            false => (self.versions.renewed(tier), state.is_observed()),
        };
        let others = self.tables.others(M - 1);
        let mut views = [self.tables.first.view(fingerprint); M];
        views[0].prefetch_all();
        for place in 1..M {
            views[place] = others[place - 1].view(fingerprint);
            views[place].prefetch_all();
        }
        let now = time();
        if !tier.has_room_for(cost) || is_observed {
            return self.check_anywhere(state, tier, fingerprint, cost, now, time).by_fields();
        }
        let ask = |place| Ask { rule: tier.by_ref(place), fingerprint, cost };
        let Some(first) = Look::quickly(views[0], ask(0), now) else {
            return self.check_anywhere(state, tier, fingerprint, cost, now, time).by_fields();
        };
        let mut looks = [first; M];
        for place in 1..M {
            let Some(look) = Look::quickly(views[place], ask(place), now) else {
                return self.check_anywhere(state, tier, fingerprint, cost, now, time).by_fields();
            };
            looks[place] = look;
        }
        let mut refused = Set::default();
        for (place, look) in looks.iter().enumerate() {
            refused.add_if(!look.allowed, place);
        }
        if !refused.is_empty() {
            // No answer before the version was looked at again: edge V1.
            if self.versions.after(tier, now).is_some() {
                return self.check_anywhere(state, tier, fingerprint, cost, now, time).by_fields();
            }
            let payloads = payloads(&looks, |look| look.before);
            let answer = self.answer(tier, fingerprint, cost, now, state.resets(), payloads);
            return Decision { outcome: Outcome::Denied, refused, ..answer };
        }
        let answer =
            self.answer(tier, fingerprint, cost, now, state.resets(), payloads(&looks, |look| look.payload));
        for (place, look) in looks.iter().enumerate() {
            if !look.charge(fingerprint) {
                // Lost to another thread: go on by the word that it left.
                return self.go_on(tier, answer, place, time).by_fields();
            }
        }
        answer
    }
}

impl<A: Algorithm, const N: usize, C> Core<A, N, C> {
    /// An answer that admits, to be completed.
    #[inline(always)]
    pub(super) fn answer<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
        resets: u32,
        payloads: [Payload; N],
    ) -> Decision<'l, N> {
        Decision {
            tables: &self.tables,
            by: &tier.decided_by,
            fingerprint,
            cost,
            now,
            since: now,
            resets,
            outcome: Outcome::Allowed,
            refused: Set::default(),
            decided_on: [DecidedOn::NONE; N],
            payloads,
        }
    }
}

/// The payloads of these looks.
#[inline(always)]
fn payloads<const N: usize>(looks: &[Look<'_>], of: impl Fn(&Look<'_>) -> Payload) -> [Payload; N] {
    let mut payloads = [Payload::UNSEEN; N];
    for (payload, look) in payloads.iter_mut().zip(looks) {
        *payload = of(look);
    }
    payloads
}
