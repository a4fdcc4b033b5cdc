//! The verbs that take what there is, charge over the limit, or give on top of it.

use super::{Player, Receipt};
use crate::engine::{KEYS, Sort};
use crate::judge::Event;
use crate::limits::{Kind, Limit, TEN_YEARS};
use crate::program::{Line, Verb};
use crate::table::Word;

impl Player<'_> {
    /// Does the verb, and says which keys it may have changed.
    pub(super) fn over(&mut self, line: &Line) -> Result<Vec<usize>, String> {
        match line.verb {
            // The judge's bounds of first hits know neither; `tests/model` compares both exactly.
            Verb::Debit(_) | Verb::Credit(_) if self.has_first_hits() => Ok(vec![]),
            Verb::UpTo(most) => {
                let most = self.cost(most, line.key, self.tier(line));
                self.up_to(line, most)
            }
            Verb::Debit(cost) => {
                let cost = self.cost(cost, line.key, self.tier(line));
                self.debit(line, cost)
            }
            Verb::Credit(units) => {
                let units = self.cost(units, line.key, self.tier(line));
                self.credit(line, units)
            }
            _ => unreachable!("the others are in `verbs`"),
        }
    }

    fn up_to(&mut self, line: &Line, most: u64) -> Result<Vec<usize>, String> {
        let (key, tier, now, id) = (line.key, self.tier(line), self.now, self.id());
        let engine = self.engine();
        let left = engine.peek(key, tier, 0, now).remaining.into_iter().min().unwrap_or(0);
        let ((told, cost, kept), inner) = self.with_others(line, true, || engine.up_to(key, tier, most));
        let is_alone = inner.is_empty();
        if is_alone && self.program.is_roomy() && cost != left.max(1).min(most) {
            return Err(format!("of {left} units and at most {most}, {cost} were taken"));
        }
        if told.allowed && cost == 0 && most > 0 || cost > most {
            return Err(format!("of at most {most} units {cost} were taken"));
        }
        let (allowed, delay) = (told.allowed, Some(told.delay));
        self.heard(&[Event::Decided { id, key, tier, cost, at: now, allowed, delay }], inner)?;
        self.model.up_to(id, key, most, now, &told, cost)?;
        self.meets(line, &[Word::UpTo]);
        if told.allowed {
            self.receipts.push(Receipt { id, key, kept, is_part: false });
        }
        Ok(self.touched(is_alone, key))
    }

    fn debit(&mut self, line: &Line, cost: u64) -> Result<Vec<usize>, String> {
        let (key, tier, now, id) = (line.key, self.tier(line), self.now, self.id());
        let engine = self.engine();
        let (done, inner) = self.with_others(line, true, || engine.debit(key, tier, cost));
        let is_alone = inner.is_empty();
        let units = done.as_ref().map(|(_, units, _)| *units);
        // A short debt of a slow tier is a long one of a fast tier, which a change may slow.
        let is_at_the_end = done.as_ref().is_some_and(|(told, ..)| told.reset_after >= TEN_YEARS);
        if self.program.is_roomy() && !is_at_the_end && units.is_some_and(|units| units != cost) {
            return Err(format!("of {cost} units {units:?} were debited"));
        }
        let event = match units {
            Some(cost) => Event::Debited { id, key, tier, cost, at: now },
            None => Event::Passed { at: now },
        };
        self.heard(&[event], inner)?;
        self.model.debit(id, key, cost, now, done.as_ref().map(|(told, ..)| told))?;
        if let Some((_, _, kept)) = done {
            self.meets(line, &[Word::Debit]);
            self.receipts.push(Receipt { id, key, kept, is_part: false });
        }
        Ok(self.touched(is_alone, key))
    }

    fn credit(&mut self, line: &Line, units: u64) -> Result<Vec<usize>, String> {
        let (key, tier, now) = (line.key, self.tier(line), self.now);
        let engine = self.engine();
        let (given, inner) = self.with_others(line, true, || engine.credit(key, tier, units));
        let is_alone = inner.is_empty();
        // One limit after the other, those first whose charges can always be undone.
        let mut limits: Vec<usize> = match self.program.sort {
            Sort::Multi => (0..self.limits.len()).collect(),
            _ => vec![0],
        };
        limits.sort_by_key(|&limit| match self.limits[limit].kind {
            Kind::Log => 2,
            Kind::Queue => 1,
            _ => 0,
        });
        let credited = |limit| Event::Credited { key, tier, only: Some(limit), units, given, at: now };
        let credited: Vec<Event> = limits.into_iter().map(credited).collect();
        self.heard(&credited, inner)?;
        self.model.credit(key, units, now, given)?;
        self.meets(line, &[Word::Credit]);
        Ok(self.touched(is_alone, key))
    }

    fn has_first_hits(&self) -> bool {
        let is_first_hit = |limit: &Limit| matches!(limit.kind, Kind::FirstHitBucket | Kind::FirstHitWindow);
        self.limits.iter().any(is_first_hit)
    }

    fn touched(&self, is_alone: bool, key: usize) -> Vec<usize> {
        if is_alone { vec![key] } else { (0..KEYS).collect() }
    }
}
