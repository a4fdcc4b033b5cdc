//! Each verb: what the engine is asked, and what the judge and the model hear of it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tollgate::WhenFull;
use tollgate_testing::clocks::{at_reading, unhook};
use tollgate_testing::limits::Kind;

use super::{Booked, HORIZON, LATEST, Leased, Player, Receipt, Waiting, picked};
use crate::engine::{KEYS, ROOM, Room, Sort, Told, Way};
use crate::judge::{Event, Lease};
use crate::program::{Line, Program, Verb};
use crate::table::Word;

impl<'l> Player<'l> {
    /// Does the verb, and says which keys it may have changed.
    pub(super) fn verb(&mut self, line: &Line, before: &[Vec<Told>]) -> Result<Vec<usize>, String> {
        let (key, tier, now) = (line.key, self.tier(line), self.now);
        let engine = self.engine();
        let uncounted = engine.uncounted();
        let all: Vec<usize> = (0..KEYS).collect();
        let touched = |inner: &[Event], key: usize| if inner.is_empty() { vec![key] } else { all.clone() };
        match &line.verb {
            Verb::Check(cost, way) => {
                let (cost, id) = (self.cost(*cost, key, tier), self.id());
                let (foreseen, full) = (engine.peek(key, tier, cost, now), engine.full());
                let ((told, kept), inner) =
                    self.with_others(line, true, || engine.check(key, tier, cost, *way));
                if engine.uncounted() > uncounted {
                    self.meets_check(line, cost, *way == Way::Prepared);
                    return self.admitted_uncounted(key, kept).map(|()| all);
                }
                let is_alone = inner.is_empty();
                let touches = touched(&inner, key);
                // Of a clock that went ahead meanwhile it has seen either time.
                let mut ways = vec![vec![decided(id, key, tier, cost, now, &told)]];
                if self.now > now {
                    ways.push(vec![decided(id, key, tier, cost, self.now, &told)]);
                    // By the quota before a change until its horizon.
                    ways.push(ways[0].clone());
                    let lates = [0, 0, HORIZON.min(self.now - now)];
                    for (event, later) in ways.iter_mut().flatten().zip(lates) {
                        if let Event::Decided { delay, late, .. } = event {
                            (*delay, *late) = (None, later);
                        }
                    }
                }
                self.heard_in_one_way(&ways, inner)?;
                if is_alone && self.program.is_roomy() && now >= self.reached && told != foreseen {
                    return Err(format!("a peek foresaw {foreseen:?}, and the check was told {told:?}"));
                }
                self.model.check(id, key, tier, cost, now, &told)?;
                self.meets_check(line, cost, *way == Way::Prepared);
                if is_alone {
                    let counted = engine.full() - full;
                    if !told.allowed && self.program.sort.is_list() && tier == 0 && counted != told.full {
                        return Err(format!("{} full tables refused, and {counted} counted it", told.full));
                    }
                    self.refused_until(key, tier, cost, &told)?;
                    if !told.allowed && self.program.is_roomy() && self.sight() != before {
                        return Err("a refusal changed something".into());
                    }
                }
                if told.allowed {
                    self.receipts.push(Receipt { id, key, kept });
                }
                Ok(touches)
            }
            Verb::Peek(cost) => {
                let cost = self.cost(*cost, key, tier);
                let told = engine.peek(key, tier, cost, now);
                self.model.peek(key, tier, cost, now, &told)?;
                self.meets(line, &[Word::Peek]);
                Ok(vec![])
            }
            Verb::Refund(pick) => {
                let Some(Receipt { id, key, kept }) = picked(&mut self.receipts, *pick) else {
                    return Ok(vec![]);
                };
                let (back, inner) = self.with_others(line, true, || engine.refund(key, kept));
                let touches = touched(&inner, key);
                self.heard(&[Event::Back { id, units: u64::MAX, back, at: now }], inner)?;
                self.model.refund(id, key, u64::MAX, now, back)?;
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
                self.model.refund(id, key, units, now, back)?;
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
                let (cost, id) = (self.cost(*cost, key, tier), self.id());
                let max_wait = self.limits[0].expires() / 8 * wait;
                let (turn, inner) =
                    self.with_others(line, true, || engine.reserve(key, tier, cost, max_wait));
                if engine.uncounted() > uncounted {
                    self.meets(line, &[Word::Reserve]);
                    return Ok(all);
                }
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
                let (cost, id) = (self.cost(*cost, key, tier), self.id());
                let (lease, most) = (self.lease(&leased), self.most(tier));
                let (decision, inner) = self.with_others(line, true, || leased.lease.check(cost));
                if engine.uncounted() > uncounted {
                    let left = leased.acquired.map(|id| Event::Left { id, at: now });
                    drop(leased);
                    self.meets_key(key, &[Word::Lease]);
                    return left.map_or(Ok(()), |left| self.hear(left)).map(|()| all);
                }
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
                    self.receipts.push(Receipt { id, key, kept });
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
            Verb::Batch(keys) if self.program.room == Room::Full(WhenFull::Allow) => {
                // One by one, so that it is known which of them was not counted.
                keys.iter().try_for_each(|key| self.batch(&[*key])).map(|()| all)
            }
            Verb::Batch(keys) => self.batch(keys).map(|()| keys.clone()),
            Verb::UpTo(_) | Verb::Debit(_) | Verb::Credit(_) => self.over(line),
            Verb::Joint(joint) => self.joint(line, joint, before),
            Verb::Reset => {
                let (known, inner) = self.with_others(line, true, || engine.reset(key, tier));
                let touches = touched(&inner, key);
                self.heard(&[Event::Reset { key, tier, known }], inner)?;
                self.model.reset(key);
                self.floor = self.floor.max(self.reached);
                self.meets(line, &[Word::Reset]);
                Ok(touches)
            }
            Verb::Change(change) => {
                let Some((limits, only, inherits)) = self.changed(change) else { return Ok(vec![]) };
                let inherit = change.inherit;
                let (done, inner) = self.with_others(line, false, || engine.change(&limits, only, inherit));
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
                // A restart may make a window from the first hit some ticks longer.
                let has_ticks = self.limits.iter().any(|limit| limit.kind == Kind::FirstHitWindow);
                let is_same = |(now, before): (&Told, &Told)| {
                    now == before || has_ticks && now.remaining == before.remaining
                };
                let sight = self.sight();
                let is_one = self.tiers() == 1 || sort == Sort::Beside;
                let mut both = sight.iter().flatten().zip(before.iter().flatten());
                if self.program.is_roomy() && is_one && !both.all(is_same) {
                    return Err(format!("it was {before:?}, and is restored as {sight:?}"));
                }
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
                self.model.restored(self.reached);
                self.met.all_meet(&[Word::Save]);
                Ok(all)
            }
            Verb::Strangers if self.program.room == Room::Enough => Ok(vec![]),
            Verb::Strangers => {
                let count = if self.program.is_roomy() { 300 } else { 80 };
                let _ = engine.strangers(self.strangers, count, self.most(0));
                self.strangers += count;
                let word = if self.program.is_roomy() { Word::Growth } else { Word::Full };
                self.met.all_meet(&[word]);
                Ok(if self.program.is_roomy() { vec![] } else { all })
            }
            Verb::Panics(pick) => self.panics(line, *pick).map(|()| vec![]),
            Verb::Expire => self.expire(key).map(|()| all),
        }
    }

    fn batch(&mut self, keys: &[usize]) -> Result<(), String> {
        let (engine, now) = (self.engine(), self.now);
        let uncounted = engine.uncounted();
        let ids: Vec<usize> = keys.iter().map(|_| self.id()).collect();
        let Some(answers) = engine.batch(keys) else { return Ok(()) };
        let is_counted = engine.uncounted() == uncounted;
        for ((key, id), (told, kept)) in keys.iter().zip(ids).zip(answers) {
            self.meets_key(*key, &[Word::Batch]);
            if !is_counted {
                self.admitted_uncounted(*key, kept)?;
                continue;
            }
            self.hear(decided(id, *key, 0, 1, now, &told))?;
            self.model.check(id, *key, 0, 1, now, &told)?;
            if told.allowed {
                self.receipts.push(Receipt { id, key: *key, kept });
            }
        }
        Ok(())
    }

    /// Once all debts are paid every key has all of its limits.
    fn expire(&mut self, key: usize) -> Result<(), String> {
        let longest = self.sight().into_iter().flatten().map(|told| told.reset_after).max().unwrap_or(0);
        if longest >= LATEST - self.now {
            return Ok(());
        }
        self.set(self.reached.max(self.now + longest));
        if !self.program.is_roomy() {
            return self.all_slots_are_vacant();
        }
        for (key, tiers) in self.sight().iter().enumerate() {
            for (tier, told) in tiers.iter().enumerate() {
                let most: Vec<u64> = self.limits[self.met(tier)].iter().map(|limit| limit.most).collect();
                if told.remaining != most || told.reset_after != 0 {
                    return Err(format!("key {key} was to be as good as new by now: {told:?}"));
                }
            }
        }
        let (cost, now) = (self.most(0), self.now);
        for (cost, allowed) in [(cost, true), (1, self.limits[0].most > cost && !self.program.sort.is_list())]
        {
            let id = self.id();
            let (told, kept) = self.engine().check(key, 0, cost, Way::Plain);
            self.hear(decided(id, key, 0, cost, now, &told))?;
            self.model.check(id, key, 0, cost, now, &told)?;
            if told.allowed != allowed {
                return Err(format!("of a key as good as new {cost} was decided so: {told:?}"));
            }
            if allowed {
                self.receipts.push(Receipt { id, key, kept });
            }
        }
        Ok(())
    }

    /// A full table whose debts are all paid takes as many new keys as it has slots.
    fn all_slots_are_vacant(&mut self) -> Result<(), String> {
        if !self.refuses_when_full() || self.longest >= LATEST - self.now {
            return Ok(());
        }
        self.set(self.now + self.longest);
        // A debt may have become longer by a change, and by another to a slower tier much longer.
        if self.engine().live_keys() > 0 {
            return Ok(());
        }
        let (count, first) = (100, self.strangers);
        self.strangers += count;
        match self.engine().strangers(first, count, self.most(0)) {
            ROOM => Ok(()),
            admitted => Err(format!("an empty table took {admitted} keys, and has {ROOM} slots")),
        }
    }

    /// Nothing comes back, and the slot is not held: see `all_slots_are_vacant`.
    fn panics(&mut self, line: &Line, pick: Option<usize>) -> Result<(), String> {
        let engine = self.engine();
        let panics = |back: &dyn Fn() -> u64| {
            // Without a panic's message.
            let stop = || std::panic::resume_unwind(Box::new("the clock has stopped"));
            let back = catch_unwind(AssertUnwindSafe(|| at_reading(1, stop, back).0));
            unhook();
            back.unwrap_or(0)
        };
        let (key, back) = match pick {
            None => (line.key, panics(&|| engine.credit(line.key, 0, 1))),
            Some(pick) => {
                let Some(Receipt { key, kept, .. }) = picked(&mut self.receipts, pick) else { return Ok(()) };
                let kept = Cell::new(Some(kept));
                (key, panics(&|| kept.take().map_or(0, |kept| engine.refund(key, kept))))
            }
        };
        self.meets_key(key, &[Word::Panic]);
        if back > 0 { Err(format!("{back} units came back, and no clock was read")) } else { Ok(()) }
    }

    /// Refused one nanosecond before the time that was told, and admitted then.
    fn refused_until(&mut self, key: usize, tier: usize, cost: u64, told: &Told) -> Result<(), String> {
        // Beyond the ten years that a clock must run a wait is not exact.
        let Some(wait) = told.retry_after.filter(|wait| *wait < LATEST) else { return Ok(()) };
        self.retry = self.now + wait;
        if self.now < self.reached {
            return Ok(());
        }
        if !self.program.is_roomy() {
            return self.has_room_in_time(key, tier, cost, wait);
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

    /// In a full bucket a key may be told to wait for a slot, and then for what it has used. Each
    /// of several limits may tell it another time, but not again and again.
    fn has_room_in_time(&self, key: usize, tier: usize, cost: u64, wait: u64) -> Result<(), String> {
        let mut then = self.now + wait;
        for _ in 0..8 {
            let told = self.engine().peek(key, tier, cost, then);
            match told.retry_after.filter(|_| then < LATEST) {
                Some(wait) => then += wait,
                None => return Ok(()),
            }
        }
        Err(format!("told to wait {wait}, and again and again until {then}"))
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
}

fn decided(id: usize, key: usize, tier: usize, cost: u64, at: u64, told: &Told) -> Event {
    let (allowed, delay) = (told.allowed, Some(told.delay));
    Event::Decided { id, key, tier, cost, at, late: 0, allowed, delay }
}
