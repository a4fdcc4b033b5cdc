//! Joint charges: what the engine is asked, and what the judge and the model hear of it.

use tollgate::Outcome;

use super::{Player, Receipt, comes_between};
use crate::engine::joint::{self, Offered, Part};
use crate::engine::{KEYS, Sort, Told};
use crate::judge::{Asked, Event};
use crate::program::{Joint, Line};
use crate::table::Word;

/// A change in the middle doubles the orders for each limit that is charged.
const CHANGED: usize = 4;

impl Player<'_> {
    /// Does the verb, and says which keys it may have changed.
    pub(super) fn joint(
        &mut self,
        line: &Line,
        joint: &Joint,
        before: &[Vec<Told>],
    ) -> Result<Vec<usize>, String> {
        let parts: Vec<Part> = joint.parts.iter().map(|part| self.part(line.key, part)).collect();
        let (engine, now, refuses) = (self.engine(), self.now, joint.refuses);
        let (uncounted, short) = (engine.uncounted(), engine.short());
        let limits: usize = parts.iter().map(|part| self.met(part.tier).len()).sum();
        let (done, inner) =
            self.with_others(line, limits <= CHANGED, || engine.joint(&parts, refuses, joint.way));
        let (is_alone, is_short) = (inner.is_empty(), engine.short() > short);
        let has_refused = refuses.is_some_and(|after| done.asked.contains(&after));
        self.is_all_or_nothing(&done, has_refused)?;
        for part in &parts {
            let words = if has_refused { vec![Word::Joint, Word::Caller] } else { vec![Word::Joint] };
            self.meets_key(part.key, &words);
        }
        if engine.uncounted() > uncounted {
            // Some may be charged, and others not.
            return Ok((0..KEYS).collect());
        }
        let asked: Vec<Asked> = done.offers.iter().map(|offered| self.asked(offered)).collect();
        let ids: Vec<usize> = asked.iter().map(|_| self.id()).collect();
        let charged: Vec<Event> = ids
            .iter()
            .zip(asked.iter().zip(&done.offers))
            .map(|(id, (asked, Offered { told, .. }))| {
                let delay = Some(told.delay).filter(|_| told.allowed);
                Event::Offered { id: *id, asked: *asked, at: now, delay }
            })
            .take(done.charges())
            .collect();
        let mut ways = in_orders(charged, &inner);
        if done.outcome != Outcome::Allowed {
            // A queue and a log give back the newest only.
            let is_reluctant = asked.iter().any(|asked| !self.is_undone_always(*asked));
            let may_stay = is_short || !is_alone && is_reluctant || comes_between(&inner);
            let back = |(id, asked): (&usize, &Asked)| match may_stay {
                true => Event::Left { id: *id, at: now },
                false => Event::Back { id: *id, units: u64::MAX, back: asked.cost, at: now },
            };
            let backs: Vec<Event> = ids.iter().zip(&asked).take(done.charges()).map(back).collect();
            for way in &mut ways {
                if !has_refused {
                    way.insert(0, Event::JointlyRefused { asked: asked.clone(), at: now });
                }
                way.extend(backs.iter().rev().cloned());
            }
        }
        self.heard_in_one_way(&ways, inner)?;
        let offered: Vec<_> = ids.iter().copied().zip(&done.offers).collect();
        self.model.joint(&offered, refuses, now, done.outcome)?;
        if is_short {
            parts.iter().for_each(|part| self.model.lose(part.key));
        }
        if is_alone && !is_short && self.program.is_roomy() {
            self.is_right(&done, &asked, has_refused, before)?;
        }
        if done.outcome == Outcome::Allowed {
            let receipts = ids.into_iter().zip(done.offers);
            self.receipts.extend(receipts.map(|(id, offered)| {
                let Offered { part: Part { key, .. }, kept, .. } = offered;
                Receipt { id, key, kept }
            }));
        }
        Ok(if is_alone { parts.iter().map(|part| part.key).collect() } else { (0..KEYS).collect() })
    }

    fn part(&self, first: usize, &(key, tier, cost): &(usize, usize, crate::program::Cost)) -> Part {
        let (key, tier) = ((first + key) % KEYS, tier % self.tiers());
        Part { key, tier, cost: self.cost(cost, key, tier) }
    }

    fn asked(&self, offered: &Offered) -> Asked {
        let Part { key, tier, cost } = offered.part;
        let first = if self.program.sort == Sort::Keyed { 0 } else { self.met(tier).start };
        Asked { key, tier, slot: first + offered.number, cost }
    }

    fn limit_of(&self, asked: Asked) -> crate::limits::Limit {
        self.limits[if self.program.sort == Sort::Keyed { asked.tier } else { asked.slot }]
    }

    fn is_undone_always(&self, asked: Asked) -> bool {
        use tollgate_testing::limits::Kind;
        !matches!(self.limit_of(asked).kind, Kind::Queue | Kind::Log)
    }

    /// What the answers of one joint charge say holds together.
    fn is_all_or_nothing(&self, done: &joint::Joint, has_refused: bool) -> Result<(), String> {
        let joint::Joint { outcome, asked, offers } = done;
        let is_allowed = *outcome == Outcome::Allowed;
        if has_refused && *outcome != Outcome::Denied {
            return Err(format!("the caller refused, and the request is {outcome:?}"));
        }
        if !asked.iter().copied().eq(0..asked.len()) || is_allowed && asked.len() != offers.len() + 1 {
            return Err(format!("of {} offers the caller was asked after {asked:?} charges", offers.len()));
        }
        for Offered { outcome: own, part, kept, .. } in offers {
            let is_whole = kept.left() == if is_allowed { part.cost } else { 0 };
            if own != outcome || !(is_whole || is_allowed && !self.program.is_roomy()) {
                let left = kept.left();
                return Err(format!("of a request that is {outcome:?}, {part:?} is {own:?}, {left} charged"));
            }
        }
        Ok(())
    }

    /// What no other verb came into.
    fn is_right(
        &self,
        done: &joint::Joint,
        asked: &[Asked],
        has_refused: bool,
        before: &[Vec<Told>],
    ) -> Result<(), String> {
        let outcome = &done.outcome;
        let is_never = asked.iter().any(|asked| asked.cost > self.limit_of(*asked).most);
        if is_never != (*outcome == Outcome::Never) || has_refused && is_never {
            return Err(format!("{asked:?} is {outcome:?}"));
        }
        if *outcome == Outcome::Allowed {
            return Ok(());
        }
        let after = self.sight();
        let remaining = |sight: &[Vec<Told>]| -> Vec<_> {
            sight.iter().flatten().map(|told| told.remaining.clone()).collect()
        };
        // What was charged at an earlier time may come back twice: see `World::lower`. And by a
        // charge under one tier a key inherits a debt for all, also if the charge is given back.
        let is_lax = self.now < self.reached || self.program.sort == Sort::Keyed && self.tiers() > 1;
        let is_same = match done.charges() {
            0 => after == before,
            _ => is_lax || remaining(&after) == remaining(before),
        };
        if is_same { Ok(()) } else { Err(format!("a refusal changed {before:?} to {after:?}")) }
    }
}

/// The orders in which the limits may have been charged. A change in the middle may come before the
/// charge of any limit, and after that of any other: a word that is as it was offered is charged by
/// the quota of the offer, as if that had been before the change.
fn in_orders(charged: Vec<Event>, inner: &[Event]) -> Vec<Vec<Event>> {
    if !inner.iter().any(|event| matches!(event, Event::Changed { .. })) {
        return vec![charged];
    }
    let order = |first: u32| {
        let numbered = || charged.iter().enumerate();
        let is_first = |number: usize| first & (1 << number) != 0;
        let then = numbered().filter(|(number, _)| !is_first(*number));
        let all = numbered().filter(|(number, _)| is_first(*number)).chain(then);
        all.map(|(_, event)| event.clone()).collect()
    };
    (0..1 << charged.len()).map(order).collect()
}
