//! Charging a slot's word, and the bucket's overflow word.

use super::{Fault, Machine};
use crate::mutant::Mutant;
use crate::state::{Pc, State, Thread};
use crate::values::Name;

impl Machine<'_> {
    /// `attempt`: decides on the word seen, and then one access.
    pub(super) fn attempt(self, state: &mut State, nth: usize) -> Result<(), Fault> {
        let thread = state.threads[nth];
        let (key, cost) = (thread.op.key(), thread.op.cost());
        let place = (thread.at, thread.place);
        let slot = state.buckets[usize::from(thread.at)].slots[usize::from(thread.place)];
        let Some(payload) = self.scenario.rule.decide(thread.seen.payload, self.now(&thread), cost) else {
            if slot.word != thread.seen && !self.is(Mutant::NoLookAfterDenial) {
                self.changed(&mut state.threads[nth]);
                return Ok(());
            }
            let own = slot.word == thread.seen && slot.name.is_of(key);
            if !own && !thread.just && !self.scenario.lowers() {
                return Err("a key was refused for what another owed");
            }
            self.deny(state, nth);
            return Ok(());
        };
        let charged = thread.seen.charged(payload);
        if !Self::swap_word(state, place, thread.seen, charged) {
            self.changed(&mut state.threads[nth]);
            return Ok(());
        }
        let thread = &mut state.threads[nth];
        thread.paid = true;
        thread.new = charged;
        thread.pc = Pc::Look;
        if self.is(Mutant::NoLookAfterCharge) {
            return self.admit(state, nth, payload);
        }
        Ok(())
    }

    /// Whether the word that was charged was the key's.
    pub(super) fn look(self, state: &mut State, nth: usize) -> Result<(), Fault> {
        if let Some(log) = self.log()
            && self.is(Mutant::HeadBeforeTime)
        {
            self.won(log, state, nth)?;
        }
        let thread = state.threads[nth];
        let name = state.buckets[usize::from(thread.at)].slots[usize::from(thread.place)].name;
        if name.is_of(thread.op.key()) {
            return self.admit(state, nth, thread.new.payload);
        }
        self.lose(state, nth);
        let thread = &mut state.threads[nth];
        if thread.quickly {
            self.look_elsewhere(thread)
        } else {
            thread.again()
        }
        Ok(())
    }

    /// The word is not the one any more that was decided on.
    pub(super) fn changed(self, thread: &mut Thread) {
        if thread.quickly { self.look_elsewhere(thread) } else { thread.pc = Pc::ReloadWord }
    }

    /// The word as it is now, if the slot is still the key's.
    pub(super) fn reload(self, state: &mut State, nth: usize) {
        let thread = &mut state.threads[nth];
        let slot = state.buckets[usize::from(thread.at)].slots[usize::from(thread.place)];
        if thread.pc == Pc::ReloadWord {
            (thread.seen, thread.pc) = (slot.word, Pc::ReloadName);
        } else if slot.name == Name::Key(thread.op.key()) && !thread.seen.frozen {
            thread.just = slot.word == thread.seen;
            thread.pc = Pc::Attempt;
        } else {
            thread.again();
        }
    }

    /// `share`: charges the overflow word that was read before the header.
    pub(super) fn share(self, state: &mut State, nth: usize) -> Result<(), Fault> {
        let thread = state.threads[nth];
        let number = usize::from(thread.at);
        match thread.pc {
            Pc::ShareHeader => {
                let sharing = thread.header.sharing();
                let advanced = Self::advance(state, thread.at, thread.header, sharing);
                let thread = &mut state.threads[nth];
                if !advanced {
                    thread.again();
                } else if !self.is(Mutant::ShareMovesHeaderFirst) && !self.is(Mutant::NoLookAfterShare) {
                    thread.paid = true;
                    let charged = thread.new.payload;
                    return self.admit(state, nth, charged);
                } else {
                    (thread.header, thread.pc) = (sharing, Pc::Share);
                }
            }
            Pc::Share => {
                let overflow = &mut state.buckets[number].overflow;
                if *overflow != thread.overflow {
                    state.threads[nth].again();
                    return Ok(());
                }
                *overflow = thread.new.payload;
                let looks = self.is(Mutant::ShareMovesHeaderFirst) || self.is(Mutant::ShareWithoutHeader);
                state.threads[nth].pc = if looks { Pc::ShareLook } else { Pc::ShareHeader };
                if self.is(Mutant::NoLookAfterShare) {
                    state.threads[nth].paid = true;
                    return self.admit(state, nth, thread.new.payload);
                }
            }
            _ if state.buckets[number].header == thread.header => {
                state.threads[nth].paid = true;
                return self.admit(state, nth, thread.new.payload);
            }
            _ => state.threads[nth].again(),
        }
        Ok(())
    }
}
