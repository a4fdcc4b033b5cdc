//! Charges over the limit, and the units that an operator gives on top of it.

use tollgate_testing::limits::Kind;

use super::back::{newest, take};
use super::{State, World};

impl World {
    /// A debit of `cost` finds room always, for so many `units` of each limit. Of several limits
    /// each is debited as far as its own word has room.
    pub(super) fn debited(&mut self, (id, key, tier): (usize, usize, usize), units: u64, cost: u64, at: u64) {
        let at = self.clamped(at);
        let most = if self.met(tier).len() > 1 { cost } else { units };
        if most == 0 {
            return;
        }
        let next = self.met(tier).into_iter().map(|(slot, rule)| {
            let limit = self.limit(rule);
            match self.read(key, slot, rule) {
                State::Bucket { version, lo, hi } => {
                    let (lo, hi) = (lo.max(at) + units * limit.nanos, hi.max(at) + most * limit.nanos);
                    State::Bucket { version, lo, hi }
                }
                State::Fixed { version, end, lo, hi } => {
                    let (end, lo, hi) =
                        if at < end { (end, lo, hi) } else { (limit.end_of_window(at), 0, 0) };
                    State::Fixed { version, end, lo: lo + units, hi: hi + most }
                }
                acts @ State::Acts(_) => acts,
            }
        });
        let next = next.collect();
        self.commit(id, key, tier, at, units, next);
        if let Some(taken) = self.taken.get_mut(&id) {
            taken.left = most;
        }
        // The remaining units after a window's debit are unknown once the next window begins.
        for (slot, rule) in self.met(tier) {
            let kind = self.limit(rule).kind;
            if let State::Acts(acts) = &mut self.states[key][slot]
                && kind == Kind::FirstHitWindow
            {
                acts.retain(|act| act.0 != id);
            }
        }
    }

    /// Lowers the debt by at most as much as was given, of several limits as was asked for, and by
    /// at least a part of the last unit less than was given.
    pub(super) fn credited(
        &mut self,
        (key, tier, only): (usize, usize, Option<usize>),
        units: u64,
        given: u64,
        at: u64,
    ) -> Result<(), String> {
        let at = self.clamped(at);
        if given > units {
            return Err(format!("{given} of {units} units were given"));
        }
        let most = if self.met(tier).len() > 1 { units } else { given };
        self.credited[key] |= most > 0;
        let met = self.met(tier).into_iter().filter(|(slot, _)| only.is_none_or(|only| only == *slot));
        for (slot, rule) in met {
            let limit = self.limit(rule);
            let mut state = self.read(key, slot, rule);
            let debt = match &mut state {
                State::Bucket { lo, hi, .. } => {
                    let debt = hi.saturating_sub(at).div_ceil(limit.nanos);
                    *lo = lo.saturating_sub(most * limit.nanos);
                    *hi = hi.saturating_sub(given.saturating_sub(1) * limit.nanos).max(*lo);
                    debt
                }
                State::Fixed { end, .. } if at >= *end => 0,
                State::Fixed { lo, hi, .. } => {
                    let debt = *hi;
                    (*lo, *hi) = (lo.saturating_sub(most), hi.saturating_sub(given));
                    debt
                }
                State::Acts(acts) => {
                    take(most, newest(acts));
                    // How much more there may be is not known.
                    u64::MAX
                }
            };
            if self.rules.is_roomy && given > debt {
                return Err(format!("key {key} was given {given} at {at}: {}", self.shown(key)));
            }
            // What gave nothing is as it was, also of an older version.
            if given > 0 {
                self.states[key][slot] = state;
            } else if most > 0 {
                self.may_have_given(key, slot, state);
            }
        }
        Ok(())
    }

    /// The limit told nothing: it is as it was, or in this `state`.
    fn may_have_given(&mut self, key: usize, slot: usize, state: State) {
        match (&mut self.states[key][slot], state) {
            (State::Bucket { version, lo, .. }, State::Bucket { version: now, lo: less, .. })
            | (State::Fixed { version, lo, .. }, State::Fixed { version: now, lo: less, .. }) => {
                *lo = if *version == now { less.min(*lo) } else { 0 };
            }
            (acts, state) => *acts = state,
        }
    }
}
