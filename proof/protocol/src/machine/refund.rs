//! Giving back and forgiving: the two that lower a word.

use super::Machine;
use crate::mutant::Mutant;
use crate::ring::Log;
use crate::state::{MOMENTS, Pc, State};

impl Machine<'_> {
    /// `reset`: holds the slot, asks whose it is, and lowers the word to no debt.
    pub(super) fn settle(self, state: &mut State, nth: usize) {
        let thread = state.threads[nth];
        let place = (thread.at, thread.place);
        let key = thread.op.key();
        match thread.pc {
            Pc::Settle
                if thread.seen.frozen || Self::swap_word(state, place, thread.seen, thread.seen.held()) =>
            {
                state.threads[nth].pc = Pc::SettleName;
            }
            Pc::SettleName => {
                let name = state.buckets[usize::from(thread.at)].slots[usize::from(thread.place)].name;
                state.threads[nth].just = name.is_of(key);
                state.threads[nth].pc = Pc::Settled;
            }
            Pc::Settled => {
                let payload = thread.seen.payload;
                let forgiven = match () {
                    () if !thread.just => payload,
                    () if self.is(Mutant::ResetZeroesTheTime) => Log::head(payload),
                    () => self.scenario.rule.forgiven(payload, self.now(&thread)),
                };
                let settled = thread.seen.charged(forgiven);
                if !Self::swap_word(state, place, thread.seen.held(), settled) || !thread.just {
                    return state.threads[nth].again();
                }
                // All charges until now are forgiven, also those whose threads have not returned
                // yet.
                state.admitted[usize::from(key)] = [0; MOMENTS];
                state.forgiven[usize::from(key)] = true;
                let others = state.threads.iter_mut().filter(|thread| thread.op.key() == key);
                others.for_each(|thread| thread.paid = false);
                self.finish(state, nth);
            }
            _ => state.threads[nth].again(),
        }
    }

    /// `refund`: holds the slot, asks whose it is and what may come back, and lowers the word.
    pub(super) fn refund(self, state: &mut State, nth: usize) {
        let thread = state.threads[nth];
        let (key, cost) = (thread.op.key(), thread.op.cost());
        let Some(mut taken) = thread.taken else { return };
        let since = self.time(taken.since);
        let place = (thread.at, thread.place);
        let mut next = match thread.pc {
            Pc::Hold => {
                if !Self::swap_word(state, place, thread.seen, thread.seen.held()) {
                    return state.threads[nth].again();
                }
                Pc::HoldName
            }
            Pc::HoldName => {
                let name = state.buckets[usize::from(thread.at)].slots[usize::from(thread.place)].name;
                taken.mine = name.is_of(key) || self.is(Mutant::RefundAnyName);
                if taken.mine { Pc::RefundClock } else { Pc::Lower }
            }
            // A log does not ask for the order.
            Pc::RefundClock => {
                taken.at = state.clock;
                if self.log().is_some() { Pc::Lower } else { Pc::MarkLoad }
            }
            Pc::MarkLoad => {
                taken.kept = !taken.marked && state.mark <= since;
                let reorders = thread.seen.payload != taken.charged;
                if !taken.kept || reorders { Pc::MarkMax } else { Pc::Lower }
            }
            Pc::MarkMax => {
                taken.kept &= state.mark <= since;
                taken.marked = true;
                state.mark = state.mark.max(self.time(taken.at).max(since) + 1);
                Pc::Lower
            }
            _ => return self.lower(state, nth),
        };
        if next == Pc::MarkLoad && self.is(Mutant::NoMarks) {
            (taken.kept, next) = (true, Pc::Lower);
        }
        let thread = &mut state.threads[nth];
        (thread.taken, thread.pc) = (Some(taken), next);
        debug_assert!(cost > 0, "nothing is taken for nothing");
    }

    fn lower(self, state: &mut State, nth: usize) {
        let thread = state.threads[nth];
        let Some(taken) = thread.taken else { return };
        let (key, cost) = (thread.op.key(), thread.op.cost());
        let times = (self.time(taken.since), self.time(taken.at));
        let payload = thread.seen.payload;
        let rule = self.scenario.rule;
        let (less, back) = rule.give_back(payload, taken.charged, times, cost, taken.kept);
        let (less, back) = if taken.mine { (less, back) } else { (payload, 0) };
        let held = if self.is(Mutant::RefundWithoutHold) { thread.seen } else { thread.seen.held() };
        let lowered = thread.seen.charged(less);
        let swapped = Self::swap_word(state, (thread.at, thread.place), held, lowered);
        if !swapped || !taken.mine {
            return state.threads[nth].again();
        }
        debug_assert!(back <= cost * rule.unit(), "no more comes back than was taken");
        let admitted = &mut state.admitted[usize::from(key)];
        if self.log().is_none() {
            let since = &mut admitted[usize::from(taken.since)];
            *since = since.saturating_sub(back);
        } else if back > 0 {
            let units = &mut admitted[self.moment(taken.decided)];
            *units = units.saturating_sub(cost);
        }
        self.finish(state, nth);
    }
}
