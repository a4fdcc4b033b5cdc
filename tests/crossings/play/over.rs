//! The verbs that take what there is, charge over the limit, or give on top of it.

use tollgate_testing::limits::Kind;

use super::{Player, Receipt};
use crate::engine::KEYS;
use crate::judge::Event;
use crate::limits::TEN_YEARS;
use crate::program::{Line, Verb};
use crate::table::Word;

impl Player<'_> {
    /// Does the verb, and says which keys it may have changed.
    pub(super) fn over(&mut self, line: &Line) -> Result<Vec<usize>, String> {
        match line.verb {
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
        let uncounted = engine.uncounted();
        let ((told, cost, kept), inner) = self.with_others(line, true, || engine.up_to(key, tier, most));
        if engine.uncounted() > uncounted {
            self.meets(line, &[Word::UpTo]);
            return self.admitted_uncounted(key, kept).map(|()| (0..KEYS).collect());
        }
        let is_alone = inner.is_empty();
        if is_alone && self.program.is_roomy() && cost != left.max(1).min(most) {
            return Err(format!("of {left} units and at most {most}, {cost} were taken"));
        }
        if told.allowed && cost == 0 && most > 0 || cost > most {
            return Err(format!("of at most {most} units {cost} were taken"));
        }
        let (allowed, delay) = (told.allowed, Some(told.delay));
        self.heard(&[Event::Decided { id, key, tier, cost, at: now, late: 0, allowed, delay }], inner)?;
        self.model.up_to(id, key, most, now, &told, cost)?;
        self.meets(line, &[Word::UpTo]);
        if told.allowed {
            self.receipts.push(Receipt { id, key, kept });
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
        // A first-hit window counts up to twice its limit, or a little more.
        let has_ceiling = self.limits.iter().any(|limit| limit.kind == Kind::FirstHitWindow);
        let is_cut = is_at_the_end || has_ceiling;
        if self.program.is_roomy() && !is_cut && units.is_some_and(|units| units != cost) {
            return Err(format!("of {cost} units {units:?} were debited"));
        }
        let event = match units {
            Some(units) => Event::Debited { id, key, tier, units, cost, at: now },
            None => Event::Passed { at: now },
        };
        self.heard(&[event], inner)?;
        self.model.debit(id, key, cost, now, done.as_ref().map(|(told, ..)| told))?;
        if let Some((_, _, kept)) = done {
            self.meets(line, &[Word::Debit]);
            self.receipts.push(Receipt { id, key, kept });
        }
        Ok(self.touched(is_alone, key))
    }

    fn credit(&mut self, line: &Line, units: u64) -> Result<Vec<usize>, String> {
        let (key, tier, now) = (line.key, self.tier(line), self.now);
        let engine = self.engine();
        let (given, inner) = self.with_others(line, true, || engine.credit(key, tier, units));
        let is_alone = inner.is_empty();
        // One limit after the other, those first whose charges can always be undone.
        let mut limits: Vec<usize> =
            if self.program.sort.is_list() { self.met(tier).collect() } else { vec![0] };
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

    fn touched(&self, is_alone: bool, key: usize) -> Vec<usize> {
        if is_alone { vec![key] } else { (0..KEYS).collect() }
    }
}
