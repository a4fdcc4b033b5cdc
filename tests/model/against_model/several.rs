//! Several limits compared with their model, verb by verb.
//!
//! After every operation each limit is asked what its key has left. The verbs are those of one
//! limit but for reservations, which the model of several limits does not have.
//!
//! A refund may give back less where the engine remembers less than the model (see `shared`): then
//! its key is not compared any more.

use std::fmt;
use std::time::Duration;

use tollgate::{DebitError, Decision, Limiter, MOST_LIMITS, ManualClock, Quota, Receipt, Timestamp};
use tollgate_model::{MultiAnswer, MultiModel, Receipt as ModelReceipt};
use tollgate_testing::keys::Placed;
use tollgate_testing::limits::{Kind, Limit};

use super::answers::{nanos, same_wait};
use super::contest::{APART, TOGETHER};
use super::ledger::counted_back;
use super::script::{Case, KEYS, Move, Op, Verb};

/// Limits and operations on them. Costs and times are relative to one limit after the other.
#[derive(Clone)]
pub(crate) struct SeveralCase {
    pub(crate) limits: Vec<Limit>,
    /// The Unix time of the clock's zero, in nanoseconds.
    pub(crate) origin: u64,
    pub(crate) ops: Vec<Op>,
}

/// The most limits of a limiter.
const MOST: usize = 8;

/// Runs a case. `Ok(false)` if the engine rejects all limits; the error describes the difference.
pub(crate) fn contest_of_several(case: &SeveralCase) -> Result<bool, String> {
    let cases: Vec<Case> = case.cases();
    if cases.is_empty() {
        return Ok(false);
    }
    Contest::new(case, &cases, 64, &APART, false).play("keys in buckets of their own")?;
    Contest::new(case, &cases, 64, &APART, true).play("keys with an observer")?;
    if !case.ops.iter().any(|op| matches!(op.go, Move::Back { .. })) {
        Contest::new(case, &cases, 1, &TOGETHER, false).play("keys in one bucket")?;
    }
    Ok(true)
}

/// What a request may still give back, on both sides.
struct Held {
    key: usize,
    model: Vec<ModelReceipt>,
    engine: Receipt<8>,
}

struct Contest<'c> {
    case: &'c SeveralCase,
    /// The limits that the engine accepts, each as a case of its own.
    cases: &'c [Case],
    keys: &'c [Placed; 3],
    clock: ManualClock,
    limiter: Limiter<Placed, Quota, MOST_LIMITS, ManualClock>,
    model: MultiModel,
    held: Vec<Held>,
    /// Whether the key's debt may differ from the model's.
    parted: [bool; 3],
    /// What may make a refund give back less: something came back before, to the key or to any.
    gave_back: [bool; 3],
    /// A debit of any key, or a reset.
    is_careful: bool,
    /// When the last refused request may pass.
    wait: u64,
}

impl SeveralCase {
    fn cases(&self) -> Vec<Case> {
        let of = |&limit| Case { limit, origin: self.origin, ops: Vec::new() };
        self.limits.iter().map(of).filter(|case| case.resolution().is_some()).take(MOST).collect()
    }
}

impl<'c> Contest<'c> {
    fn new(
        case: &'c SeveralCase,
        cases: &'c [Case],
        max_keys: usize,
        keys: &'c [Placed; 3],
        is_observed: bool,
    ) -> Self {
        let clock = ManualClock::starting_at(Duration::from_nanos(case.origin));
        let quotas: Vec<_> = cases.iter().map(|case| case.limit.quota()).collect();
        let builder = Limiter::builder(quotas).per();
        let builder = builder.max_keys(max_keys).memory_budget(usize::MAX).clock(clock.clone());
        let builder = if is_observed { builder.on_decision(|_| ()) } else { builder };
        let model = |case: &Case| {
            let resolution = case.resolution().expect("it was accepted before");
            case.limit.algorithm(resolution, case.origin)
        };
        let model = MultiModel::new(&cases.iter().map(model).collect::<Vec<_>>());
        Self {
            case,
            cases,
            keys,
            clock,
            limiter: builder.build().expect("each limit is accepted alone"),
            model,
            held: Vec::new(),
            parted: [false; 3],
            gave_back: [false; 3],
            is_careful: false,
            wait: 0,
        }
    }

    fn play(&mut self, name: &str) -> Result<(), String> {
        let (mut now, mut latest, mut reset_at) = (0, 0, 0);
        for (number, op) in self.case.ops.iter().enumerate() {
            // A word remembers the latest time of the clock, across resets too.
            let floor = if let Verb::Reset = op.verb { latest } else { reset_at };
            let near = &self.cases[number % self.cases.len()];
            now = near.moved(op.go, now, self.wait).max(floor);
            latest = now.max(latest);
            if let Verb::Reset = op.verb {
                reset_at = now;
            }
            self.clock.set(Timestamp::from_nanos(now));
            let key = op.key % KEYS.len();
            let done = self.perform(near, op.verb, key, now).and_then(|()| self.compare_keys(now));
            done.map_err(|why| format!("{name}, operation {} at {now}: {why}", number + 1))?;
        }
        Ok(())
    }

    fn perform(&mut self, near: &Case, verb: Verb, key: usize, now: u64) -> Result<(), String> {
        let (name, at) = (KEYS[key], Timestamp::from_nanos(now));
        let limiter = &self.limiter;
        let prepared = limiter.account(&self.keys[key]).at(at);
        match verb {
            Verb::Check(cost) | Verb::Reserve(cost, _) => {
                let cost = near.cost(cost);
                let (right, receipts) = self.model.admit(name, now, cost);
                let decision = limiter.check_n(&self.keys[key], cost);
                self.wait = right.refusal.and_then(|refusal| refusal.retry_after_ns).unwrap_or(self.wait);
                let same = self.same(key, now, right, &decision);
                self.hold(key, receipts, decision.receipt());
                same
            }
            Verb::Peek(cost) => {
                let cost = near.cost(cost);
                self.same(key, now, self.model.peek(name, now, cost), &prepared.peek_n(cost))
            }
            Verb::UpTo(most) => {
                let most = near.cost(most);
                let (right, units, receipts) = self.model.check_up_to(name, now, most);
                let decision = prepared.check_up_to(most);
                let took = decision.cost();
                let same = self.same(key, now, right, &decision);
                self.hold(key, receipts, decision.receipt());
                same.and(self.equal(key, "units taken", units, took))
            }
            Verb::Debit(cost) => {
                let room = |(case, limit): (&Case, &tollgate_model::Model)| {
                    case.payable(now, limit.peek(name, now, 0))
                };
                let room = self.cases.iter().zip(self.model.limits()).map(room).min().unwrap_or(0);
                let cost = near.cost(cost).min(room);
                self.is_careful = true;
                let right = self.model.debit(name, now, cost);
                match (right, prepared.debit(cost)) {
                    (None, Err(DebitError::NoDebt)) => Ok(()),
                    (Some(receipts), Ok(decision)) => {
                        let (units, took) = (receipts[0].cost(), decision.cost());
                        self.hold(key, receipts, decision.receipt());
                        self.equal(key, "units debited", units, took)
                    }
                    (right, found) => Err(format!("model: {right:?}, engine: {found:?}")),
                }
            }
            Verb::Credit(units) => {
                let units = near.cost(units);
                let (right, given) = (self.model.credit(name, now, units), prepared.credit(units));
                self.gave_back[key] |= units > 0;
                self.equal(key, "units credited", right, given)
            }
            Verb::Reset => {
                self.model.reset(name);
                prepared.reset();
                self.held.retain(|held| held.key != key);
                self.is_careful = true;
                Ok(())
            }
            Verb::Refund(pick) | Verb::Cancel(pick) => self.give_back(pick, u64::MAX, now),
            Verb::Part(pick, units) => self.give_back(pick, near.cost(units), now),
        }
    }

    /// Gives back up to `units` of one of the requests.
    fn give_back(&mut self, pick: u8, units: u64, now: u64) -> Result<(), String> {
        let Some(number) = counted_back(&self.held, pick) else { return Ok(()) };
        let Held { key, model, engine } = &mut self.held[number];
        let (key, left) = (*key, engine.left().min(units));
        let right = self.model.refund_part(model, units, now);
        let back =
            self.limiter.account(&self.keys[key]).at(Timestamp::from_nanos(now)).refund_part(engine, units);
        if units == u64::MAX {
            self.held.remove(number);
        }
        let may_differ = self.may_differ(key);
        self.gave_back[key] = true;
        if !may_differ || self.parted[key] {
            return self.equal(key, "units given back", right, back);
        }
        self.parted[key] = true;
        if back > left { Err(format!("{back} of {left} units came back")) } else { Ok(()) }
    }

    fn may_differ(&self, key: usize) -> bool {
        let is_log = |case: &&Case| case.limit.kind == Kind::Log;
        let logs: Vec<&Case> = self.cases.iter().filter(is_log).collect();
        let counts = |case: &&Case| case.limit.policy == tollgate::CountPolicy::All;
        // Keys of one bucket share their mark: a reset of one ends the receipts of all.
        let is_apart = std::ptr::eq(self.keys, &APART);
        let shares = !is_apart && (self.is_careful || self.gave_back.contains(&true));
        logs.iter().any(counts) || shares || self.gave_back[key] && (self.is_careful || !logs.is_empty())
    }

    fn hold(&mut self, key: usize, model: Vec<ModelReceipt>, engine: Receipt<8>) {
        if !model.is_empty() {
            self.held.push(Held { key, model, engine });
        }
    }

    fn equal(&self, key: usize, what: &str, right: u64, found: u64) -> Result<(), String> {
        if right == found || self.parted[key] {
            return Ok(());
        }
        Err(format!("{what}: {right} by the model, {found} by the engine"))
    }

    fn same(
        &self,
        key: usize,
        now: u64,
        right: MultiAnswer,
        found: &Decision<'_, MOST_LIMITS>,
    ) -> Result<(), String> {
        let (refused_by, wait) = (found.refused_by(), found.retry_after().map(nanos));
        let limit = right.refusal.map(|refusal| refusal.limit);
        let right_wait = right.refusal.and_then(|refusal| refusal.retry_after_ns);
        let is_same = right.allowed() == found.is_allowed()
            && right.remaining == found.remaining()
            && right_wait.is_some() == wait.is_some()
            && same_wait(now, right_wait.unwrap_or(0), wait.unwrap_or(0))
            // Beyond the ten years two waits may be equally long.
            && (limit == refused_by || wait == Some(u64::MAX));
        if is_same || self.parted[key] {
            return Ok(());
        }
        Err(format!("model: {right:?}\n  engine: {found:?}"))
    }

    /// What every key has left of every limit.
    fn compare_keys(&self, now: u64) -> Result<(), String> {
        for key in (0..KEYS.len()).filter(|&key| !self.parted[key]) {
            let decision = self.limiter.account(&self.keys[key]).at(Timestamp::from_nanos(now)).peek_n(0);
            for (part, limit) in decision.parts().zip(self.model.limits()) {
                let right = limit.peek(KEYS[key], now, 0);
                let is_same = part.remaining() == right.remaining
                    && same_wait(now, right.reset_after_ns, nanos(part.reset_after()));
                if !is_same {
                    let (number, name) = (part.number(), KEYS[key]);
                    return Err(format!(
                        "then {name} has, of limit {number}:\n   model: {right:?}\n  engine: {part:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for SeveralCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quotas: Vec<String> = self.cases().iter().map(|case| case.limit.to_string()).collect();
        write!(
            f,
            "{}, clock zero at Unix time {:?}",
            quotas.join(" and "),
            Duration::from_nanos(self.origin)
        )?;
        (1..).zip(&self.ops).try_for_each(|(number, op)| write!(f, "\n  {number}. {op:?}"))
    }
}
