//! A program played by one thread: the engine answers, the judge and the model look for a contradiction.

use std::cell::{OnceCell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tollgate::Inherit;

use super::clock::{Interrupted, interrupted};
use super::engine::{self, Engine, KEYS, Kept, Lent, Room, Sort, Told, Turn, Way};
use super::limits::{Limit, SHORTEST};
use super::program::{Change, Cost, Go, Inner, Line, Program, Verb};
use super::specification::Specification;
use super::table::{Met, Table, Word};
use super::world::{Event, Judge, Lease, Rules};

/// A clock must run for ten years; the programs stay far below.
const LATEST: u64 = 31_557_600_000_000_000;

/// Each interruption doubles the worlds that are followed.
const INTERRUPTIONS: usize = 4;

/// What an admitted request took.
struct Receipt {
    id: usize,
    key: usize,
    kept: Kept,
    /// Whether a part was asked back.
    is_part: bool,
}

/// A turn that somebody may take.
struct Booked<'l> {
    id: usize,
    key: usize,
    turn: Box<dyn Turn<'l> + 'l>,
}

/// A turn that is waited for.
struct Waiting<'l> {
    id: usize,
    key: usize,
    departs: u64,
    future: Pin<Box<dyn Future<Output = ()> + 'l>>,
}

struct Leased<'l> {
    key: usize,
    tier: usize,
    ttl: u64,
    /// What it acquired last, and when.
    acquired: Option<usize>,
    at: u64,
    lease: Box<dyn Lent + 'l>,
}

type Arena = Vec<OnceCell<Arc<Engine>>>;

struct Player<'l> {
    program: &'l Program,
    arena: &'l Arena,
    /// Which engine of the arena is in use.
    number: usize,
    limits: Vec<Limit>,
    clock: Interrupted,
    now: u64,
    /// The clock does not go back behind this.
    floor: u64,
    reached: u64,
    retry: u64,
    judge: Judge,
    model: Specification,
    receipts: Vec<Receipt>,
    booked: Vec<Booked<'l>>,
    waiting: Vec<Waiting<'l>>,
    leases: Vec<Leased<'l>>,
    next: usize,
    strangers: u64,
    interruptions: usize,
    met: Met,
}

/// Plays the program: which verbs met, or where it is contradicted.
pub(crate) fn play(program: &Program) -> Result<Table, String> {
    let restores = program.lines.iter().filter(|line| matches!(line.verb, Verb::Restore)).count();
    let arena: Arena = (0..=restores).map(|_| OnceCell::new()).collect();
    let clock = engine::clock();
    let (sort, limits) = (program.sort, program.limits.clone());
    let first = Engine::new(sort, program.room, &limits, &clock);
    let _ = arena[0].set(Arc::new(first));
    let rules =
        Rules { is_multi: sort == Sort::Multi, is_apart: sort == Sort::Global, is_roomy: program.is_roomy() };
    let mut player = Player {
        program,
        arena: &arena,
        number: 0,
        judge: Judge::new(rules, &limits),
        model: Specification::new(program),
        limits,
        clock,
        now: 0,
        floor: 0,
        reached: 0,
        retry: 0,
        receipts: Vec::new(),
        booked: Vec::new(),
        waiting: Vec::new(),
        leases: Vec::new(),
        next: 0,
        strangers: 0,
        interruptions: 0,
        met: Met::new(),
    };
    for (number, line) in program.lines.iter().enumerate() {
        player.line(line).map_err(|why| format!("line {}, at {}: {why}", number + 1, player.now))?;
    }
    Ok(player.met.table.clone())
}

impl<'l> Player<'l> {
    fn engine(&self) -> &'l Arc<Engine> {
        self.arena[self.number].get().expect("it was made before it was used")
    }

    fn id(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    fn tier(&self, line: &Line) -> usize {
        if self.program.sort == Sort::Keyed { line.tier % self.limits.len() } else { 0 }
    }

    fn tiers(&self) -> usize {
        if self.program.sort == Sort::Keyed { self.limits.len() } else { 1 }
    }

    /// The tightest limit that a request meets.
    fn most(&self, tier: usize) -> u64 {
        match self.program.sort {
            Sort::Multi => self.limits.iter().map(|limit| limit.most).min().expect("there is one"),
            _ => self.limits[tier].most,
        }
    }

    fn cost(&self, cost: Cost, tier: usize) -> u64 {
        match cost {
            Cost::Units(units) => units,
            Cost::All(more) => self.most(tier) + more,
        }
    }

    fn go(&mut self, go: Go) {
        let eighths = |eighths: u64, nudge: i64| {
            (self.limits[0].nanos * eighths / 8).saturating_add_signed(nudge).min(LATEST)
        };
        let now = match go {
            Go::Stay => self.now,
            Go::Ahead(by, nudge) => self.now + eighths(by, nudge),
            Go::Retry => self.now.max(self.retry),
            Go::Back(by, nudge) => self.now.saturating_sub(eighths(by, nudge)),
        };
        self.set(now.max(self.floor).min(LATEST));
    }

    fn set(&mut self, now: u64) {
        if now < self.now {
            self.met.all_meet(&[Word::Back]);
            self.model.clock_stepped_back();
        }
        self.now = now;
        self.reached = self.reached.max(now);
        engine::set(&self.clock, now);
    }

    fn hear(&mut self, event: Event) -> Result<(), String> {
        self.judge.hear(&event)
    }

    /// What every key has left, under every tier.
    fn sight(&self) -> Vec<Vec<Told>> {
        let of = |key| (0..self.tiers()).map(|tier| self.engine().peek(key, tier, 0, self.now)).collect();
        (0..KEYS).map(of).collect()
    }

    fn line(&mut self, line: &Line) -> Result<(), String> {
        self.go(line.go);
        let resets = |inner: &Inner| matches!(inner, Inner::Reset(_) | Inner::Change(_));
        let is_reset = matches!(line.verb, Verb::Reset | Verb::Change(_) | Verb::Restore);
        // A word only ever grows: what is forgiven is forgiven at the latest time that there was.
        if is_reset || line.within.as_ref().is_some_and(|(_, inner)| inner.iter().any(resets)) {
            self.set(self.reached);
        }
        let before = self.sight();
        self.hear_sight(&before)?;
        let touches = self.verb(line, &before)?;
        let after = self.sight();
        for key in 0..KEYS {
            if !touches.contains(&key) && before[key] != after[key] && self.program.is_roomy() {
                return Err(format!(
                    "key {key} was changed by what is not its own: {:?}, then {:?}",
                    before[key], after[key]
                ));
            }
        }
        self.hear_sight(&after)
    }

    fn hear_sight(&mut self, sight: &[Vec<Told>]) -> Result<(), String> {
        for (key, tiers) in sight.iter().enumerate() {
            for (tier, told) in tiers.iter().enumerate() {
                let remaining = told.remaining.clone();
                self.hear(Event::Seen { key, tier, at: self.now, remaining })?;
            }
        }
        Ok(())
    }

    /// Does `work`, with others in the middle of it where the line says so. What they did is `events`.
    fn with_others<T>(&mut self, line: &Line, may_change: bool, work: impl FnOnce() -> T) -> (T, Vec<Event>) {
        let Some((reading, inner)) = &line.within else { return (work(), Vec::new()) };
        // Limiters without keys are changed one after the other: that is not one verb.
        let is_apart = self.program.sort == Sort::Global && matches!(line.verb, Verb::Change(_));
        if self.interruptions == INTERRUPTIONS || is_apart {
            return (work(), Vec::new());
        }
        let mut steps: Vec<Box<dyn FnOnce() -> (Event, Option<Receipt>)>> = Vec::new();
        for step in inner {
            let (engine, now) = (self.engine().clone(), self.now);
            match step {
                Inner::Check(key, cost) => {
                    let (id, key, cost) = (self.id(), *key, self.cost(*cost, 0));
                    steps.push(Box::new(move || {
                        let (told, kept) = engine.check(key, 0, cost, Way::Plain);
                        let event = Event::Decided {
                            id,
                            key,
                            tier: 0,
                            cost,
                            at: now,
                            allowed: told.allowed,
                            delay: told.delay,
                        };
                        (event, told.allowed.then_some(Receipt { id, key, kept, is_part: false }))
                    }));
                }
                Inner::Refund(pick) => {
                    let Some(Receipt { id, key, kept, .. }) = picked(&mut self.receipts, *pick) else {
                        continue;
                    };
                    steps.push(Box::new(move || {
                        let back = engine.refund(key, kept);
                        (Event::Back { id, units: u64::MAX, back, at: now }, None)
                    }));
                }
                Inner::Reset(key) => {
                    let key = *key;
                    steps.push(Box::new(move || (Event::Reset { key, known: engine.reset(key) }, None)));
                }
                Inner::Change(change) => {
                    // The engine makes one change after the other.
                    let is_last = steps.len() + 1 == inner.len();
                    let Some((limits, only, inherits)) =
                        self.changed(change).filter(|_| may_change && is_last)
                    else {
                        continue;
                    };
                    let inherit = change.inherit;
                    let old = self.limits.clone();
                    steps.push(Box::new(move || {
                        let event = match engine.reconfigure(&limits, only, inherit) {
                            Ok(()) => Event::Changed { limits, inherits, at: now },
                            Err(_) => {
                                let inherits = vec![Inherit::Additive; old.len()];
                                Event::Changed { limits: old, inherits, at: now }
                            }
                        };
                        (event, None)
                    }));
                }
            }
        }
        let results = Rc::new(RefCell::new(Vec::new()));
        let told = results.clone();
        let (done, has_run) = interrupted(
            *reading,
            move || told.borrow_mut().extend(steps.into_iter().map(|step| step())),
            work,
        );
        let results = std::mem::take(&mut *results.borrow_mut());
        if has_run {
            self.interruptions += 1;
            self.model.lost();
            // No receipt is older than this.
            self.floor = self.floor.max(self.now);
        }
        let mut events = Vec::new();
        for (event, receipt) in results {
            if let Event::Changed { limits, .. } = &event {
                self.limits.clone_from(limits);
            }
            self.receipts.extend(receipt);
            events.push(event);
        }
        (done, events)
    }

    /// The judge hears of a verb, and of what was done in the middle of it.
    fn heard(&mut self, outer: &[Event], inner: Vec<Event>) -> Result<(), String> {
        if inner.is_empty() {
            return outer.iter().try_for_each(|event| self.judge.hear(event));
        }
        self.judge.hear_within(outer, &inner)
    }

    /// Does the verb, and says which keys it may have changed.
    fn verb(&mut self, line: &Line, before: &[Vec<Told>]) -> Result<Vec<usize>, String> {
        let (key, tier, now) = (line.key, self.tier(line), self.now);
        let engine = self.engine();
        let all: Vec<usize> = (0..KEYS).collect();
        let touched = |inner: &[Event], key: usize| if inner.is_empty() { vec![key] } else { all.clone() };
        match &line.verb {
            Verb::Check(cost, way) => {
                let (cost, id) = (self.cost(*cost, tier), self.id());
                let foreseen = engine.peek(key, tier, cost, now);
                let ((told, kept), inner) =
                    self.with_others(line, true, || engine.check(key, tier, cost, *way));
                let is_alone = inner.is_empty();
                let touches = touched(&inner, key);
                self.heard(&[decided(id, key, tier, cost, now, &told)], inner)?;
                if is_alone && self.program.is_roomy() && now >= self.reached && told != foreseen {
                    return Err(format!("a peek foresaw {foreseen:?}, and the check was told {told:?}"));
                }
                self.model.check(id, key, tier, cost, now, &told)?;
                self.meets_check(line, cost, *way == Way::Prepared);
                if is_alone {
                    self.refused_until(key, tier, cost, &told)?;
                    if !told.allowed && self.program.is_roomy() && self.sight() != before {
                        return Err("a refusal changed something".into());
                    }
                }
                if told.allowed {
                    self.receipts.push(Receipt { id, key, kept, is_part: false });
                }
                Ok(touches)
            }
            Verb::Peek(cost) => {
                let cost = self.cost(*cost, tier);
                let told = engine.peek(key, tier, cost, now);
                self.model.peek(key, tier, cost, now, &told)?;
                self.meets(line, &[Word::Peek]);
                Ok(vec![])
            }
            Verb::Refund(pick) => {
                let Some(Receipt { id, key, kept, is_part }) = picked(&mut self.receipts, *pick) else {
                    return Ok(vec![]);
                };
                let (back, inner) = self.with_others(line, true, || engine.refund(key, kept));
                let touches = touched(&inner, key);
                self.heard(&[Event::Back { id, units: u64::MAX, back, at: now }], inner)?;
                self.model.refund(id, key, (!is_part).then_some(u64::MAX), now, back)?;
                self.meets_key(key, &[Word::Refund]);
                Ok(touches)
            }
            Verb::Part(pick, units) => {
                let Some(mut receipt) = picked(&mut self.receipts, *pick) else { return Ok(vec![]) };
                let (id, key, units) = (receipt.id, receipt.key, *units);
                let (back, inner) =
                    self.with_others(line, true, || engine.refund_part(key, &mut receipt.kept, units));
                let touches = touched(&inner, key);
                self.heard(&[Event::Back { id, units, back, at: now }], inner)?;
                self.model.refund(id, key, (!receipt.is_part).then_some(units), now, back)?;
                receipt.is_part = true;
                self.receipts.push(receipt);
                self.meets_key(key, &[Word::Part]);
                Ok(touches)
            }
            Verb::Foreign(pick) => {
                let Some(mut receipt) = picked(&mut self.receipts, *pick) else { return Ok(vec![]) };
                let Program { sort, room, .. } = *self.program;
                let other = engine.restored(sort, room, &self.limits, &self.clock);
                let seen = other.peek(receipt.key, 0, 0, now);
                let back = other.refund_part(receipt.key, &mut receipt.kept, u64::MAX);
                if back > 0 || other.peek(receipt.key, 0, 0, now) != seen {
                    return Err(format!("another limiter gave back {back} units"));
                }
                // Of limiters without keys, another one of the same program.
                let neighbour = (receipt.key + 1) % KEYS;
                if sort == Sort::Global {
                    let back = engine.refund_part(neighbour, &mut receipt.kept, u64::MAX);
                    if back > 0 {
                        return Err(format!("the limiter of another key gave back {back} units"));
                    }
                }
                self.receipts.push(receipt);
                Ok(vec![])
            }
            Verb::Reserve(cost, wait) | Verb::Wait(cost, wait) => {
                let (cost, id) = (self.cost(*cost, tier), self.id());
                let max_wait = self.limits[0].expires() / 8 * wait;
                let (turn, inner) =
                    self.with_others(line, true, || engine.reserve(key, tier, cost, max_wait));
                let touches = touched(&inner, key);
                let departs = turn.as_ref().ok().map(|turn| turn.departs());
                self.heard(&[Event::Turn { id, key, tier, cost, at: now, max_wait, departs }], inner)?;
                self.model.reserve(id, key, tier, cost, now, max_wait, departs)?;
                let Ok(turn) = turn else { return Ok(touches) };
                if let Verb::Reserve(..) = line.verb {
                    self.meets(line, &[Word::Reserve]);
                    self.booked.push(Booked { id, key, turn });
                } else {
                    self.meets(line, &[Word::Wait]);
                    let (departs, future) = (turn.departs(), turn.ready(self.clock.clone()));
                    self.waiting.push(Waiting { id, key, departs, future });
                }
                Ok(touches)
            }
            Verb::Cancel(pick) => {
                let Some(Booked { id, key, turn }) = picked(&mut self.booked, *pick) else {
                    return Ok(vec![]);
                };
                let (back, inner) = self.with_others(line, true, || turn.cancel());
                let touches = touched(&inner, key);
                self.heard(&[Event::Back { id, units: u64::MAX, back, at: now }], inner)?;
                self.model.cancel(id, key, now, back)?;
                self.meets_key(key, &[Word::Cancel]);
                Ok(touches)
            }
            Verb::Poll => {
                let mut waker = Context::from_waker(Waker::noop());
                let mut early = None;
                self.waiting.retain_mut(|waiting| {
                    let is_ready = waiting.future.as_mut().poll(&mut waker) == Poll::Ready(());
                    if is_ready != (now >= waiting.departs) {
                        early = Some(waiting.departs);
                    }
                    !is_ready
                });
                early.map_or(Ok(vec![]), |departs| {
                    Err(format!("a turn that departs at {departs} was or was not ready"))
                })
            }
            Verb::Leave(pick) => {
                let Some(Waiting { id, key, future, .. }) = picked(&mut self.waiting, *pick) else {
                    return Ok(vec![]);
                };
                let ((), inner) = self.with_others(line, true, || drop(future));
                let touches = touched(&inner, key);
                self.heard(&[Event::Left { id, at: now }], inner)?;
                self.model.lose(key);
                self.meets_key(key, &[Word::Wait]);
                Ok(touches)
            }
            Verb::Lease(permits, ttl) => {
                let ttl = self.limits[0].nanos * ttl / 8;
                let lease = engine.lease(key, tier, *permits, ttl);
                self.leases.push(Leased { key, tier, ttl, acquired: None, at: 0, lease });
                Ok(vec![])
            }
            Verb::Spend(pick, cost) => {
                let Some(mut leased) = picked(&mut self.leases, *pick) else { return Ok(vec![]) };
                let (key, tier) = (leased.key, leased.tier);
                let (cost, id) = (self.cost(*cost, tier), self.id());
                let (lease, most) = (self.lease(&leased), self.most(tier));
                let (decision, inner) = self.with_others(line, true, || leased.lease.check(cost));
                let touches = touched(&inner, key);
                let (after, permit) = (leased.lease.held(), decision.is_none());
                let allowed = decision.as_ref().is_none_or(|(told, _)| told.allowed);
                // Neither nothing nor more than the limit is of the lease's business.
                if cost == 0 || cost > most && after == lease.held && !allowed {
                    if after != lease.held || cost == 0 && !allowed {
                        return Err(format!("a lease that held {} holds {after} after {cost}", lease.held));
                    }
                    self.heard(&[], inner)?;
                    self.leases.push(leased);
                    return Ok(touches);
                }
                let has_spent = permit && lease.is_fresh && after + cost == lease.held;
                self.heard(
                    &[
                        Event::LeaseReturns { lease: lease.clone(), cost, permit },
                        Event::LeaseDecides { lease: lease.clone(), id, cost, after, permit, allowed },
                    ],
                    inner,
                )?;
                self.model.lose(key);
                if permit && !has_spent {
                    (leased.acquired, leased.at) = (Some(id), now);
                } else if !permit {
                    leased.acquired = None;
                }
                if let Some((told, kept)) = decision
                    && told.allowed
                {
                    self.receipts.push(Receipt { id, key, kept, is_part: false });
                }
                self.leases.push(leased);
                self.meets_key(key, &[Word::Lease]);
                Ok(touches)
            }
            Verb::Release(pick) => {
                let Some(mut leased) = picked(&mut self.leases, *pick) else { return Ok(vec![]) };
                let key = leased.key;
                let held = leased.lease.held();
                let (back, inner) = self.with_others(line, true, || leased.lease.release());
                let touches = touched(&inner, key);
                if let Some(id) = leased.acquired.take() {
                    self.heard(&[Event::Back { id, units: held, back, at: now }], inner)?;
                } else {
                    self.heard(&[], inner)?;
                }
                self.model.lose(key);
                self.leases.push(leased);
                self.meets_key(key, &[Word::Lease]);
                Ok(touches)
            }
            Verb::EndLease(pick) => {
                let Some(Leased { key, acquired, lease, .. }) = picked(&mut self.leases, *pick) else {
                    return Ok(vec![]);
                };
                let ((), inner) = self.with_others(line, true, || drop(lease));
                let touches = touched(&inner, key);
                let left: Vec<Event> = acquired.into_iter().map(|id| Event::Left { id, at: now }).collect();
                self.heard(&left, inner)?;
                self.model.lose(key);
                self.meets_key(key, &[Word::Lease]);
                Ok(touches)
            }
            Verb::Batch(keys) => {
                let ids: Vec<usize> = keys.iter().map(|_| self.id()).collect();
                let Some(answers) = engine.batch(keys) else { return Ok(vec![]) };
                for ((key, id), (told, kept)) in keys.iter().zip(ids).zip(answers) {
                    self.hear(decided(id, *key, 0, 1, now, &told))?;
                    self.model.check(id, *key, 0, 1, now, &told)?;
                    if told.allowed {
                        self.receipts.push(Receipt { id, key: *key, kept, is_part: false });
                    }
                    self.meets_key(*key, &[Word::Batch]);
                }
                Ok(keys.clone())
            }
            Verb::Reset => {
                let (known, inner) = self.with_others(line, true, || engine.reset(key));
                let touches = touched(&inner, key);
                self.heard(&[Event::Reset { key, known }], inner)?;
                self.model.reset(key);
                self.floor = self.floor.max(self.reached);
                self.meets(line, &[Word::Reset]);
                Ok(touches)
            }
            Verb::Change(change) => {
                let Some((limits, only, inherits)) = self.changed(change) else { return Ok(vec![]) };
                let inherit = change.inherit;
                let (done, inner) =
                    self.with_others(line, false, || engine.reconfigure(&limits, only, inherit));
                self.floor = self.floor.max(self.reached);
                let outer = match done {
                    Ok(()) => {
                        self.model.change(&limits, only, inherit, now);
                        self.limits.clone_from(&limits);
                        self.met.all_meet(&[Word::Change]);
                        vec![Event::Changed { limits, inherits, at: now }]
                    }
                    Err(_) => vec![],
                };
                self.heard(&outer, inner)?;
                Ok(all)
            }
            Verb::Restore => {
                let Program { sort, room, .. } = *self.program;
                let restored = engine.restored(sort, room, &self.limits, &self.clock);
                self.hear(Event::Restored)?;
                let _ = self.arena[self.number + 1].set(Arc::new(restored));
                self.number += 1;
                // What the old limiter is given back now is not the new one's.
                let sight = self.sight();
                for Receipt { key, mut kept, .. } in std::mem::take(&mut self.receipts) {
                    if self.engine().refund_part(key, &mut kept, u64::MAX) > 0 {
                        return Err("the restored limiter took a receipt of the saved one".into());
                    }
                }
                self.booked.drain(..).for_each(|booked| {
                    let _ = booked.turn.cancel();
                });
                self.waiting.clear();
                self.leases.clear();
                if self.sight() != sight {
                    return Err("what was given back to the saved limiter changed the restored one".into());
                }
                self.floor = self.floor.max(self.reached);
                self.model.restored();
                self.met.all_meet(&[Word::Save]);
                Ok(all)
            }
            Verb::Strangers if self.program.room == Room::Enough => Ok(vec![]),
            Verb::Strangers => {
                let count = if self.program.is_roomy() { 300 } else { 20 };
                engine.strangers(self.strangers, count, self.most(0));
                self.strangers += count;
                let word = if self.program.is_roomy() { Word::Growth } else { Word::Full };
                self.met.all_meet(&[word]);
                Ok(if self.program.is_roomy() { vec![] } else { all })
            }
            Verb::Expire => self.expire(key).map(|()| all),
        }
    }

    /// Once all debts are paid every key has all of its limits.
    fn expire(&mut self, key: usize) -> Result<(), String> {
        let longest = self.sight().into_iter().flatten().map(|told| told.reset_after).max().unwrap_or(0);
        if longest >= LATEST - self.now {
            return Ok(());
        }
        self.set(self.reached.max(self.now + longest));
        if !self.program.is_roomy() {
            return Ok(());
        }
        for (key, tiers) in self.sight().iter().enumerate() {
            for (tier, told) in tiers.iter().enumerate() {
                let most: Vec<u64> = match self.program.sort {
                    Sort::Multi => self.limits.iter().map(|limit| limit.most).collect(),
                    _ => vec![self.limits[tier].most],
                };
                if told.remaining != most || told.reset_after != 0 {
                    return Err(format!("key {key} was to be as good as new by now: {told:?}"));
                }
            }
        }
        let (cost, now) = (self.most(0), self.now);
        for (cost, allowed) in
            [(cost, true), (1, self.limits[0].most > cost && self.program.sort != Sort::Multi)]
        {
            let id = self.id();
            let (told, kept) = self.engine().check(key, 0, cost, Way::Plain);
            self.hear(decided(id, key, 0, cost, now, &told))?;
            self.model.check(id, key, 0, cost, now, &told)?;
            if told.allowed != allowed {
                return Err(format!("of a key as good as new {cost} was decided so: {told:?}"));
            }
            if allowed {
                self.receipts.push(Receipt { id, key, kept, is_part: false });
            }
        }
        Ok(())
    }

    /// Refused one nanosecond before the time that was told, and admitted then.
    fn refused_until(&mut self, key: usize, tier: usize, cost: u64, told: &Told) -> Result<(), String> {
        // Beyond the ten years that a clock must run a wait is not exact.
        let Some(wait) = told.retry_after.filter(|wait| *wait < LATEST) else { return Ok(()) };
        self.retry = self.now + wait;
        if !self.program.is_roomy() || self.now < self.reached {
            return Ok(());
        }
        let engine = self.engine();
        let (sooner, then) = (
            engine.peek(key, tier, cost, self.now + wait - 1),
            engine.peek(key, tier, cost, self.now + wait),
        );
        if sooner.allowed || !then.allowed {
            return Err(format!("told to wait {wait}: before it {sooner:?}, then {then:?}"));
        }
        Ok(())
    }

    /// What a lease is before a verb.
    fn lease(&self, leased: &Leased<'_>) -> Lease {
        let age = self.now.checked_sub(leased.at);
        Lease {
            key: leased.key,
            tier: leased.tier,
            acquired: leased.acquired,
            held: leased.lease.held(),
            is_fresh: age.is_some_and(|age| age < leased.ttl),
            at: self.now,
        }
    }

    /// The limits after a change, which of them alone is changed, and what each inherits.
    fn changed(&self, change: &Change) -> Option<(Vec<Limit>, Option<usize>, Vec<Inherit>)> {
        let only = change.only.filter(|only| *only < self.limits.len() && self.program.sort != Sort::Global);
        // A keyed limiter changes its first tier alone, or all.
        let only = only.filter(|only| self.program.sort == Sort::Multi || *only == 0);
        let (mut limits, mut inherits) = (self.limits.clone(), Vec::new());
        for (number, limit) in limits.iter_mut().enumerate() {
            if only.is_some_and(|only| only != number) {
                inherits.push(Inherit::Additive);
                continue;
            }
            let (most, nanos) = change.numbers[number];
            if limit.kind.converts() {
                limit.most = most;
                limit.nanos = if limit.kind.is_bucket() { nanos } else { SHORTEST.max(nanos * 4) };
            } else {
                limit.most = most.min(self.program.limits[number].most);
            }
            inherits.push(change.inherit);
        }
        Some((limits, only, inherits))
    }

    fn meets_check(&mut self, line: &Line, cost: u64, is_prepared: bool) {
        let mut words = vec![if cost > 1 { Word::Cost } else { Word::Check }];
        if is_prepared {
            words.push(Word::Prepare);
        }
        self.meets(line, &words);
    }

    fn meets(&mut self, line: &Line, words: &[Word]) {
        let mut words = words.to_vec();
        if self.tier(line) > 0 {
            words.push(Word::Tier);
        }
        self.meets_key(line.key, &words);
    }

    fn meets_key(&mut self, key: usize, words: &[Word]) {
        let mut words = words.to_vec();
        if self.program.sort == Sort::Multi && self.limits.len() > 1 {
            words.push(Word::Multi);
        }
        self.met.meets(key, &words);
    }
}

fn decided(id: usize, key: usize, tier: usize, cost: u64, at: u64, told: &Told) -> Event {
    Event::Decided { id, key, tier, cost, at, allowed: told.allowed, delay: told.delay }
}

/// Counted from the newest, which is what small numbers and so simple programs take.
fn picked<T>(of: &mut Vec<T>, pick: usize) -> Option<T> {
    let back = pick.checked_rem(of.len())?;
    Some(of.remove(of.len() - 1 - back))
}
