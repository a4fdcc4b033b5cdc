//! Several limits on each key, all or nothing.
//!
//! Each limit has a table of its own, so that a slot stays one word, and a bucket that is full in
//! one table concerns no other limit. A check reads the clock once and goes through the tables
//! twice; each limit has its own ask, see `asks`:
//!
//! ```text
//!   peek at every limit ---- some refuse ----> refused; only `CountPolicy::All` writes anything
//!        |
//!        | all admit
//!        v
//!   charge them in order --- one refuses ----> undo the charges: refused
//!        |                   (another thread came in between)
//!        v
//!     admitted
//! ```
//!
//! What must stay true:
//!
//! * An admitted request has been charged to each limit by one compare-exchange from a word on
//!   which the limit's rule admits it. So no limit ever admits more than it would alone, even when
//!   charges are undone: a refund takes no more off a word than the charge certainly still adds to
//!   it.
//! * All requests charge in one order. The last limit holds nothing but admitted requests, so of
//!   requests that race for the last unit there one is admitted.
//! * What can be undone only in part is charged last, see `reluctance`. A limit keeps its place
//!   over a change of its quota, or requests would charge in two orders.
//! * A request is decided by one version of all quotas, see `charge`.

mod as_much;
mod asks;
mod charge;
mod decision;
mod glance;
mod short_way;
mod tables;

use crate::algorithm::{AnyRule, Booking, Each, Quota, Ringed, Rule};
use crate::clock::Clock;
use crate::core::version::{Compiled, Version, Versions};
use crate::core::{Asked, Core, DebitError, Limits, Manner, Patient, ReserveError, Space, Turn};
use crate::decision::Outcome;
use crate::error::{BuildError, within};
use crate::receipt::{MOST, Receipt};
use crate::saved::Kind;
use crate::table::dated::Dated;
use crate::table::ruling::Ask;
use crate::table::{Fingerprint, Table};
use crate::time::{Timestamp, nanos};
use asks::OneKey;

pub use decision::{LimitDecision, MultiDecision};
pub use glance::{Glance, Refusal};
pub(crate) use glance::{recall, recall_refusal};
pub use tables::Several;
pub(crate) use tables::Tables;

/// The rules by which a verb decides: the version's own, or what it makes of them.
#[expect(
    clippy::large_enum_variant,
    reason = "it lies on the stack of a slow path, and nothing is allocated there"
)]
enum By {
    Current,
    InManner(Manner, [Option<AnyRule>; MOST]),
}

impl By {
    /// The version's own without a manner. `None`: a limit has no rule in this manner.
    fn in_manner(manner: Option<Manner>, version: &Version<AnyRule>) -> Option<Self> {
        let Some(manner) = manner else { return Some(Self::Current) };
        let mut rules = [const { None }; MOST];
        for (place, compiled) in rules.iter_mut().zip(version.all()) {
            *place = Some(manner.rule(compiled.rule())?);
        }
        Some(Self::InManner(manner, rules))
    }

    #[inline]
    fn rule<'r>(&'r self, version: &'r Version<AnyRule>, index: usize) -> Dated<'r, AnyRule> {
        let dated = version.dated(index);
        match self {
            Self::Current => dated,
            Self::InManner(_, rules) => Dated { rule: rules[index].as_ref().unwrap_or(dated.rule), ..dated },
        }
    }
}

/// How much of a charge may have to stay when another request was charged since; the least is
/// charged first. Buckets and windows can undo any charge. A queue and a log undo the newest only,
/// and a log forgets which that was when a refused request was counted.
fn reluctance(limit: Quota) -> u8 {
    match limit {
        Quota::SlidingLog(_) => 2,
        limit => u8::from(limit.is_queue()),
    }
}

impl Limits for Several {
    type Quota = Each;
    type Places = Tables;
    type Tier<'l> = ();
    type Decision<'l> = MultiDecision<'l>;
    type Receipt = Receipt<MOST>;

    const KIND: Kind = Kind::Several;

    fn in_order(quotas: Vec<Each>) -> (Vec<Each>, Vec<usize>) {
        let mut given: Vec<_> = quotas.into_iter().enumerate().collect();
        given.sort_by_key(|(_, limit)| reluctance(limit.0));
        given.into_iter().map(|(number, limit)| (limit, number)).unzip()
    }

    fn bytes(space: &Space, rules: &[AnyRule]) -> Result<usize, BuildError> {
        within("limits", rules.len() as u64, 1_u64, MOST as u64)?;
        let bytes = |rule: &AnyRule| Ok(space.size(rule.ring_len())?.bytes());
        let add = |sum: usize, bytes: Result<usize, BuildError>| Ok(sum.saturating_add(bytes?));
        rules.iter().map(bytes).try_fold(0, add)
    }

    fn reserve_memory(
        space: &Space,
        rules: &[AnyRule],
        numbers: &[usize],
        is_observed: bool,
    ) -> Result<Tables, BuildError> {
        let table = |rule: &AnyRule| space.table(space.size(rule.ring_len())?);
        let tables: Box<[Table]> = rules.iter().map(table).collect::<Result<_, _>>()?;
        let is_brief = rules.iter().all(AnyRule::is_brief) && !is_observed;
        let brief = if is_brief { tables.len() } else { 0 };
        Ok(Tables { tables, numbers: numbers.into(), brief })
    }

    #[inline]
    fn each(tables: &Tables) -> &[Table] {
        tables
    }

    fn as_given(tables: &Tables, _: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..tables.len()).collect();
        places.sort_by_key(|&place| tables.numbers[place]);
        places
    }

    fn tier(_: &Versions<Each>, number: usize) -> Option<()> {
        (number == 0).then_some(())
    }

    fn default_tier(_: &Versions<Each>) {}

    fn compiled(version: &Version<AnyRule>, (): (), index: usize) -> &Compiled<AnyRule> {
        version.compiled(index)
    }

    fn limit<C: Clock>(core: &Core<Self, C>, (): ()) -> u64 {
        core.versions.current().all().map(|limit| limit.rule().limit()).min().unwrap_or(0)
    }

    #[inline(always)]
    fn check<'l, C: Clock>(
        core: &'l Core<Self, C>,
        Asked { fingerprint, .. }: Asked<'l, Self>,
        cost: u64,
        time: impl Fn() -> Timestamp + Copy,
    ) -> MultiDecision<'l> {
        core.charge(OneKey { fingerprint, cost }, time)
    }

    fn peek<'l, C: Clock>(
        core: &'l Core<Self, C>,
        Asked { fingerprint, .. }: Asked<'l, Self>,
        cost: u64,
        now: Timestamp,
    ) -> MultiDecision<'l> {
        core.look(OneKey { fingerprint, cost }, now)
    }

    fn reserve<'l, C: Clock>(
        core: &'l Core<Self, C>,
        Asked { fingerprint, .. }: Asked<'l, Self>,
        request: Patient,
    ) -> Result<Turn<MultiDecision<'l>>, ReserveError> {
        core.reserve_turn(fingerprint, request)
    }

    fn take_ahead<'l, C: Clock>(
        core: &'l Core<Self, C>,
        Asked { fingerprint, .. }: Asked<'l, Self>,
        permits: u64,
        time: impl Fn() -> Timestamp,
    ) -> Option<MultiDecision<'l>> {
        core.charge_in_manner(OneKey { fingerprint, cost: permits }, Some(Manner::Ahead), &time)
    }

    fn take_up_to<'l, C: Clock>(
        core: &'l Core<Self, C>,
        Asked { fingerprint, .. }: Asked<'l, Self>,
        most: u64,
        time: impl Fn() -> Timestamp,
    ) -> MultiDecision<'l> {
        core.take_up_to_each(fingerprint, most, &time)
    }

    fn debit<'l, C: Clock>(
        core: &'l Core<Self, C>,
        Asked { fingerprint, .. }: Asked<'l, Self>,
        cost: u64,
        time: impl Fn() -> Timestamp,
    ) -> Result<MultiDecision<'l>, DebitError> {
        core.debit_each(fingerprint, cost, &time)
    }

    fn give_back<C: Clock>(
        core: &Core<Self, C>,
        receipt: &mut Receipt<MOST>,
        units: u64,
        time: impl Fn() -> Timestamp,
    ) -> u64 {
        core.give_back(receipt, units, time)
    }
}

impl<C: Clock> Core<Several, C> {
    /// Charges a request that may wait for its turn: the first instant at which every limit admits
    /// it.
    ///
    /// Each limit is charged as at that instant, the departure. Charged as of now, a limit whose
    /// own turn comes sooner could be passed by requests that other limits hold back for
    /// different times, more densely than it admits.
    ///
    /// A departure is computed from a probe of each limit and then charged by plain rules. When
    /// another thread was faster, it is computed anew: some thread has then been admitted.
    fn reserve_turn(
        &self,
        fingerprint: Fingerprint,
        Patient { cost, max_wait, now }: Patient,
    ) -> Result<Turn<MultiDecision<'_>>, ReserveError> {
        let (request, manner) =
            (OneKey { fingerprint, cost }, Manner::Patient(Patient { cost, max_wait, now }));
        let steps = self.versions.current().default.shown.any.refills_by_steps();
        if self.places.len() == 1 && !steps {
            let decision = self.charge_untold(request, Some(manner), now).ok_or(ReserveError::NoTurns)?;
            let wait = decision.wait_for_turn();
            return Ok(Turn { decision, wait });
        }
        let mut refused_after = None;
        loop {
            let version = self.versions.current();
            let (mut wait, mut is_full) = (0, false);
            for (table, compiled) in self.each().iter().zip(version.all()) {
                let (rule, dated) = (compiled.rule(), compiled.dated());
                if rule.is_queue() || manner.rule(rule).is_none() {
                    return Err(ReserveError::NoTurns);
                }
                let cost = cost.min(rule.limit());
                match table.probe(Ask { rule: dated, fingerprint, cost: 1 }, dated.moment_to_read(now)) {
                    Ok(standing) => wait = wait.max(rule.wait(standing.payload, now, cost)),
                    Err(full) => is_full |= !full.allowed,
                }
            }
            if is_full || wait > max_wait || !version.has_room_for(cost) {
                let decision = self.look(request, now);
                if decision.is_allowed() && cost > 0 {
                    // Another thread gave something back meanwhile.
                    continue;
                }
                if decision.outcome == Outcome::Denied {
                    let refused = (0..self.places.len()).filter(|&index| decision.refused.has(index));
                    refused.for_each(|index| self.count_full(&decision, index));
                }
                let wait = nanos(decision.retry_after().unwrap_or_default());
                return Ok(Turn { decision, wait });
            }
            let decision = self.charge_untold(request, Some(Manner::Departing(now, wait)), now);
            let Some(decision) = decision else { continue };
            // The clock of a version ends: for a turn beyond that there is no departure.
            let is_without_turn = refused_after.replace(wait) == Some(wait);
            if decision.is_allowed() || is_without_turn {
                let later = nanos(decision.retry_after().unwrap_or_default());
                return Ok(Turn { decision, wait: wait.max(later) });
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;
    use crate::algorithm::{Inherit, TokenBucket};
    use crate::clock::ManualClock;
    use crate::key::KeyHasher;
    use crate::observe::Observer;
    use crate::rate::Rate;

    /// Given back out of order, two requests before the turn would pay for a third.
    #[test]
    fn a_turn_that_a_change_makes_possible_counts_as_booked() {
        let quota = |burst| Each(TokenBucket::new(Rate::per_second(1)).burst(burst).into());
        let (space, hasher) = (Space::default(), KeyHasher::random(false));
        let core: Core<Several, _> =
            Core::new(vec![quota(5)], &[], &space, hasher, ManualClock::new, Observer::NONE).unwrap();
        let ask = |cost| OneKey { fingerprint: Fingerprint::from_bits(core.hasher.short(7)), cost };
        let (is_old, receipts) = (Cell::new(true), RefCell::new(Vec::new()));
        let time = || {
            if is_old.take() {
                core.change(|_| Ok((vec![quota(10)], vec![Inherit::Additive]))).unwrap();
                let charge = || core.charge(ask(4), || core.clock.now()).receipt();
                receipts.replace(vec![charge(), charge()]);
            }
            core.clock.now()
        };
        let patient = Patient { cost: 8, max_wait: u64::MAX, now: Timestamp::ZERO };
        let turn = core.charge_in_manner(ask(8), Some(Manner::Patient(patient)), &time).unwrap();
        assert_eq!((turn.is_allowed(), turn.wait_for_turn()), (true, 6_000_000_000));
        let give_back = |mut receipt| core.give_back(&mut receipt, u64::MAX, || core.clock.now());
        let back: Vec<u64> = receipts.take().into_iter().map(give_back).collect();
        assert_eq!(back, [0, 0]);
    }
}
