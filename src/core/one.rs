//! One limit: how a request is decided and charged.

use std::marker::PhantomData;

use crate::algorithm::{Algorithm, Booking, Ringed, Rule};
use crate::clock::Clock;
use crate::core::version::{Compiled, MOST_TIERS, Version, Versions};
use crate::core::{
    Answer, Asked, Core, DebitError, Limits, Manner, Patient, ReserveError, Space, Turn, sealed,
};
use crate::decision::{Decision, Outcome};
use crate::error::{BuildError, within};
use crate::receipt::Receipt;
use crate::saved::Kind;
use crate::table::dated::Dated;
use crate::table::ruling::{Ask, Standing};
use crate::table::{Size, Table};
use crate::time::Timestamp;

/// One limit of the algorithm `A` for each of many keys: what a [`Limiter`](crate::Limiter) decides
/// by.
///
/// It is named in the types that a limiter hands out, such as `Prepared<'_, Keyed<TokenBucket>,
/// TscClock>`. There is no value of it.
pub type Keyed<A> = One<A, true>;

/// One limit of the algorithm `A` for everything: what a [`GlobalLimiter`](crate::GlobalLimiter)
/// decides by.
pub type Global<A> = One<A, false>;

/// One limit of the algorithm `A`: for each of many keys, or for everything.
pub struct One<A, const KEYED: bool>(PhantomData<A>);

impl<A, const KEYED: bool> sealed::Sealed for One<A, KEYED> {}

/// The size of the table.
fn size<const KEYED: bool>(space: &Space, rules: &[impl Rule]) -> Result<Size, BuildError> {
    let ring_len = rules.first().map_or(0, Ringed::ring_len);
    if KEYED { space.size(ring_len) } else { Ok(Size::of_one_key(ring_len)) }
}

impl<A: Algorithm, const KEYED: bool> Limits for One<A, KEYED> {
    type Quota = A;
    type Places = Table;
    type Tier<'l> = &'l Compiled<A::Rule>;
    type Decision<'l> = Decision<'l>;
    type Receipt = Receipt;

    const KIND: Kind = if KEYED { Kind::Keyed } else { Kind::Global };

    fn in_order(quotas: Vec<A>) -> (Vec<A>, Vec<usize>) {
        (quotas, Vec::new())
    }

    fn bytes(space: &Space, rules: &[A::Rule]) -> Result<usize, BuildError> {
        within("tiers", rules.len() as u64, 1_u64, MOST_TIERS as u64)?;
        Ok(size::<KEYED>(space, rules)?.bytes())
    }

    fn reserve_memory(space: &Space, rules: &[A::Rule], _: &[usize], _: bool) -> Result<Table, BuildError> {
        let may_share = rules.iter().all(Rule::may_share);
        let when_full = if may_share { space.when_full } else { space.when_full.unshared() };
        Space { when_full, ..*space }.table(size::<KEYED>(space, rules)?)
    }

    #[inline]
    fn each(table: &Table) -> &[Table] {
        std::slice::from_ref(table)
    }

    fn as_given(_: &Table, rules: usize) -> Vec<usize> {
        (0..rules).collect()
    }

    #[inline]
    fn tier(versions: &Versions<A>, number: usize) -> Option<&Compiled<A::Rule>> {
        versions.first().tier(number)
    }

    #[inline]
    fn default_tier(versions: &Versions<A>) -> &Compiled<A::Rule> {
        &versions.first().default
    }

    fn compiled<'v>(
        version: &'v Version<A::Rule>,
        tier: &'v Compiled<A::Rule>,
        _: usize,
    ) -> &'v Compiled<A::Rule> {
        if tier.is_lent() { tier } else { version.compiled(tier.shown.index.into()) }
    }

    fn limit<C: Clock>(core: &Core<Self, C>, tier: &Compiled<A::Rule>) -> u64 {
        core.versions.renewed(tier).rule().limit()
    }

    // A call would keep the decision in memory, which costs as much as the check; and a time that
    // is lent instead of copied would be written to the stack.
    #[inline(always)]
    fn check<'l, C: Clock>(
        core: &'l Core<Self, C>,
        asked: Asked<'l, Self>,
        cost: u64,
        time: impl Fn() -> Timestamp + Copy,
    ) -> Decision<'l> {
        let Asked { fingerprint, tier } = asked;
        let state = core.versions.state();
        // Every limit is at least 1: a check of cost 1 compares nothing here.
        if cost != 1 && (cost == 0 || cost > tier.rule().limit()) || !state.is_plain() {
            return core.charge_special(asked, cost, time).by_fields();
        }
        let (ruling, now) = core.places.check(&tier.current, fingerprint, cost, time);
        if !ruling.allowed && !core.versions.stands(tier, now) {
            return core.charge_special(asked, cost, time).by_fields();
        }
        let by = (&tier.shown, core.versions.limiter());
        Decision::of(ruling, by, now, cost, fingerprint, state.resets())
    }

    #[cold]
    #[inline(never)]
    fn peek<'l, C: Clock>(
        core: &'l Core<Self, C>,
        Asked { fingerprint, tier }: Asked<'l, Self>,
        cost: u64,
        now: Timestamp,
    ) -> Decision<'l> {
        let (mut compiled, limiter) = (core.versions.renewed(tier), core.versions.limiter());
        loop {
            let (rule, shown) = (compiled.dated(), &compiled.shown);
            let ask = Ask { rule, fingerprint, cost };
            let decision = if cost > 0 && cost <= rule.limit() {
                Decision::of(core.places.peek(ask, now), (shown, limiter), now, cost, fingerprint, 0)
            } else {
                // Nothing to decide: only the numbers, as they are.
                let found = core.places.probe(Ask { cost: 1, ..ask }, rule.moment_to_read(now));
                Decision::trivial(found.unwrap_or_else(Standing::from), shown, now, cost)
            };
            match core.versions.after(compiled, now) {
                Some(newer) => compiled = newer,
                None => return decision,
            }
        }
    }

    fn reserve<'l, C: Clock>(
        core: &'l Core<Self, C>,
        asked: Asked<'l, Self>,
        request: Patient,
    ) -> Result<Turn<Decision<'l>>, ReserveError> {
        if core.versions.renewed(asked.tier).shown.any.refills_by_steps() {
            core.reserve_departure(asked, request)
        } else {
            core.reserve_now(asked, request)
        }
    }

    fn take_ahead<'l, C: Clock>(
        core: &'l Core<Self, C>,
        asked: Asked<'l, Self>,
        permits: u64,
        time: impl Fn() -> Timestamp,
    ) -> Option<Decision<'l>> {
        core.charge_by(asked, Some(Manner::Ahead), permits, time)
    }

    fn take_up_to<'l, C: Clock>(
        core: &'l Core<Self, C>,
        asked: Asked<'l, Self>,
        most: u64,
        time: impl Fn() -> Timestamp,
    ) -> Decision<'l> {
        core.take_up_to_one(asked, most, &time)
    }

    fn debit<'l, C: Clock>(
        core: &'l Core<Self, C>,
        asked: Asked<'l, Self>,
        cost: u64,
        time: impl Fn() -> Timestamp,
    ) -> Result<Decision<'l>, DebitError> {
        core.debit_one(asked, cost, &time)
    }

    fn give_back<C: Clock>(
        core: &Core<Self, C>,
        receipt: &mut Receipt,
        units: u64,
        time: impl Fn() -> Timestamp,
    ) -> u64 {
        core.give_back(receipt, units, time)
    }
}

impl<A: Algorithm, const KEYED: bool, C: Clock> Core<One<A, KEYED>, C> {
    /// Decides a request of any cost by the current quota, which need not be the first, and tells
    /// the observer.
    #[inline(never)]
    fn charge_special<'l>(
        &'l self,
        Asked { fingerprint, tier }: Asked<'l, One<A, KEYED>>,
        cost: u64,
        time: impl Fn() -> Timestamp + Copy,
    ) -> Decision<'l> {
        let state = self.versions.state();
        let compiled = self.versions.renewed(tier);
        if cost > 0 && cost <= compiled.rule().limit() {
            let (ruling, now) = self.places.check(&compiled.current, fingerprint, cost, time);
            if ruling.allowed || self.versions.after(compiled, now).is_none() {
                let by = (&compiled.shown, self.versions.limiter());
                let decision = Decision::of(ruling, by, now, cost, fingerprint, state.resets());
                return if self.observer.is_some() { self.observer.tell(decision) } else { decision };
            }
        }
        let decision = self.charge_by(Asked { fingerprint, tier: compiled }, None, cost, time);
        let Some(decision) = decision else { unreachable!("every rule decides plain requests") };
        self.observer.tell(decision)
    }

    /// Charges a request for its turn as of now.
    fn reserve_now<'l>(
        &'l self,
        asked: Asked<'l, One<A, KEYED>>,
        request: Patient,
    ) -> Result<Turn<Decision<'l>>, ReserveError> {
        let decision = self.charge_by(asked, Some(Manner::Patient(request)), request.cost, || request.now);
        let decision = decision.ok_or(ReserveError::NoTurns)?;
        let wait = decision.wait_for_turn();
        Ok(Turn { decision, wait })
    }

    /// Charges a request as at its departure. There a bucket by intervals may be full before the
    /// request, and then holds no more than that: charged as of now, later turns would have what
    /// was lost.
    ///
    /// The departure is computed from a probe, and charged by a plain rule. When another thread was
    /// faster, it is computed anew: that thread has then been admitted.
    fn reserve_departure<'l>(
        &'l self,
        asked: Asked<'l, One<A, KEYED>>,
        request: Patient,
    ) -> Result<Turn<Decision<'l>>, ReserveError> {
        let Patient { cost, max_wait, now } = request;
        let mut refused_after = None;
        loop {
            let compiled = self.versions.renewed(asked.tier);
            let (rule, dated) = (compiled.rule(), compiled.dated());
            let asked = Asked { tier: compiled, ..asked };
            let ask = Ask { rule: dated, fingerprint: asked.fingerprint, cost: 1 };
            let found = self.places.probe(ask, dated.moment_to_read(now)).ok();
            let is_departure = compiled.shown.any.refills_by_steps() && (1..=rule.limit()).contains(&cost);
            let Some(Standing { payload, .. }) = found.filter(|_| is_departure) else {
                return self.reserve_now(asked, request);
            };
            let wait = rule.wait(payload, now, cost);
            if wait > max_wait {
                let decision = <One<A, KEYED>>::peek(self, asked, cost, now);
                if decision.outcome() == Outcome::Denied {
                    let wait = decision.wait_for_turn();
                    return Ok(Turn { decision, wait });
                }
                // Another thread gave something back meanwhile.
                continue;
            }
            let decision = self.charge_by(asked, Some(Manner::Departing(now, wait)), cost, || now);
            let Some(decision) = decision else { continue };
            // The clock of a version ends: for a turn beyond that there is no departure.
            let is_without_turn = refused_after.replace(wait) == Some(wait);
            if decision.outcome() == Outcome::Allowed || is_without_turn {
                let wait = decision.wait_for_turn();
                return Ok(Turn { decision, wait });
            }
        }
    }

    /// Decides by the rule that a verb's `manner` makes of the current one, on the same word. The
    /// observer is not told. `None`: the algorithm has no such rule.
    #[cold]
    #[inline(never)]
    fn charge_by<'l>(
        &'l self,
        Asked { fingerprint, tier }: Asked<'l, One<A, KEYED>>,
        manner: Option<Manner>,
        cost: u64,
        time: impl Fn() -> Timestamp,
    ) -> Option<Decision<'l>> {
        let state = self.versions.state();
        let mut compiled = self.versions.renewed(tier);
        loop {
            let rule = match manner {
                None => *compiled.rule(),
                Some(manner) => manner.rule(compiled.rule())?,
            };
            if cost == 0 || cost > compiled.rule().limit() {
                let decision =
                    <One<A, KEYED>>::peek(self, Asked { fingerprint, tier: compiled }, cost, time());
                if cost == 0 || decision.is_never() {
                    return Some(decision);
                }
                // The peek used a newer quota, which has room for it, but nothing was charged.
                compiled = self.versions.renewed(compiled);
                continue;
            }
            if let Some(until) = manner.and_then(Manner::departs_until) {
                self.places.refunds.book(fingerprint, until);
            }
            // Not the function above: one that is called from two places is inlined into neither.
            let rule = Dated { rule: &rule, ..compiled.dated() };
            let ask = Ask { rule, fingerprint, cost };
            let (ruling, now) = self.places.check_anywhere(ask, &time);
            if !ruling.allowed
                && let Some(newer) = self.versions.after_all(compiled)
            {
                compiled = newer;
                continue;
            }
            let by = (&compiled.shown, self.versions.limiter());
            return Some(Decision::of(ruling, by, now, cost, fingerprint, state.resets()));
        }
    }
}

impl Answer for Decision<'_> {
    fn outcome(&self) -> Outcome {
        self.outcome()
    }

    fn cost(&self) -> u64 {
        self.cost()
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn remaining(&self) -> u64 {
        self.remaining()
    }

    fn limit(&self) -> u64 {
        self.limit()
    }
}
