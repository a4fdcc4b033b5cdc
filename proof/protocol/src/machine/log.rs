//! A log: the times behind the head are read one by one, times are proposed ahead of it, and the
//! head is won by the word.
//!
//! `Rule::decide`, `Rule::stage` and `Rule::erase` of `src/algorithm/sliding_log.rs`, and the
//! charge of `Slot::attempt`.

use std::ops::Deref;

use super::{Fault, Machine};
use crate::mutant::Mutant;
use crate::ring::{Entry, Log, Seen};
use crate::scenario::Op;
use crate::state::{Look, Pc, State};
use crate::values::Key;

/// Whether this is a step of a log's.
pub(super) fn is_ringed(pc: Pc) -> bool {
    use Pc::{
        Attempt, Erase, EraseEntry, EraseStill, LogCharge, LogDenied, LogOldest, StageEntry, StageNewest,
        StagePropose, StageStill,
    };
    matches!(
        pc,
        Attempt
            | LogOldest
            | LogDenied
            | StageNewest
            | StageEntry
            | StageStill
            | StagePropose
            | LogCharge
            | EraseEntry
            | EraseStill
            | Erase
    )
}

/// The threads of a machine whose keys a log limits.
#[derive(Clone, Copy)]
pub(super) struct Ringed<'s> {
    pub(super) machine: Machine<'s>,
    pub(super) log: Log,
}

impl<'s> Deref for Ringed<'s> {
    type Target = Machine<'s>;

    fn deref(&self) -> &Self::Target {
        &self.machine
    }
}

impl Ringed<'_> {
    /// The steps of a log.
    pub(super) fn step(self, state: &mut State, nth: usize) -> Result<(), Fault> {
        let thread = state.threads[nth];
        let (look, payload, cost) = (thread.log, thread.seen.payload, thread.op.cost());
        let ring = state.rings[usize::from(thread.place)];
        let slot = state.buckets[usize::from(thread.at)].slots[usize::from(thread.place)];
        let is_still = slot.word == thread.seen;
        match thread.pc {
            Pc::Attempt | Pc::StageNewest => {
                let newest = self.log.read(&ring, self.log.over(payload, 1));
                let logged =
                    if newest.proposed || self.is(Mutant::NewestIgnored) { 0 } else { newest.entry.when };
                let thread = &mut state.threads[nth];
                thread.log.now = self.now(thread).max(logged.saturating_sub(1));
                if thread.pc == Pc::Attempt {
                    thread.log.decided = thread.log.now;
                    thread.pc = Pc::LogOldest;
                } else {
                    self.stage(state, nth);
                }
            }
            Pc::LogOldest => {
                let mut oldest = self.log.read(&ring, self.log.over(payload, self.log.limit + 1 - cost));
                oldest.proposed &= !self.is(Mutant::ProposalsCount);
                let refused = self.log.is_inside(oldest, look.decided);
                let thread = &mut state.threads[nth];
                thread.log.refused = refused;
                // It had left by the time of the proposal.
                if !refused && oldest.proposed && !self.is(Mutant::ProposalTimeIgnored) {
                    thread.log.decided = look.decided.max(oldest.entry.when.saturating_sub(1));
                }
                thread.new = thread.seen.charged(self.log.logged(payload, thread.log.decided, cost));
                if look.inserts {
                    thread.new = self.claimed(thread, thread.new.payload);
                }
                thread.pc = match () {
                    () if refused && !self.log.all => Pc::LogDenied,
                    () if self.is(Mutant::HeadBeforeTime) && !look.inserts => Pc::LogCharge,
                    () => Pc::StageNewest,
                };
            }
            Pc::LogDenied if is_still => return self.refuse(state, nth),
            Pc::LogDenied if look.inserts && self.is(Mutant::NewcomerRefusedBlindly) => {
                return self.refuse(state, nth);
            }
            Pc::LogDenied => self.lost(state, nth),
            Pc::StageEntry => {
                let seen = self.log.read(&ring, Log::head(payload) + look.unit);
                let thread = &mut state.threads[nth];
                thread.log.seen = seen;
                thread.pc = Pc::StageStill;
                if self.is(Mutant::NoLookBeforePropose) || self.is(Mutant::HeadBeforeTime) {
                    self.propose(state, nth);
                }
            }
            Pc::StageStill if is_still => self.propose(state, nth),
            Pc::StageStill => self.lost(state, nth),
            Pc::StagePropose => {
                let (index, lap) = self.log.place(Log::head(payload) + look.unit);
                let entry = &mut state.rings[usize::from(thread.place)][index];
                if *entry == look.seen.entry || self.is(Mutant::ProposalOverwrites) {
                    let live = self.log.is_inside(look.seen, look.now) && !self.is(Mutant::LiveUnsaid);
                    *entry = Entry { lap, live, when: look.now + 1 };
                    state.threads[nth].log.unit += 1;
                    self.stage(state, nth);
                } else {
                    self.lost(state, nth);
                }
            }
            Pc::LogCharge => {
                if !Machine::swap_word(state, (thread.at, thread.place), thread.seen, thread.new) {
                    self.lost(state, nth);
                } else {
                    let thread = &mut state.threads[nth];
                    let is_first = self.is(Mutant::HeadBeforeTime);
                    thread.paid = slot.name.is_of(thread.op.key()) && !look.refused;
                    thread.pc = if is_first { Pc::StageNewest } else { Pc::Look };
                    if !is_first {
                        return self.won(state, nth);
                    }
                }
            }
            _ => return self.erase(state, nth),
        }
        Ok(())
    }

    /// Goes on to the next unit that is proposed, or to win them all.
    fn stage(self, state: &mut State, nth: usize) {
        let thread = &mut state.threads[nth];
        thread.log.seen = Seen::default();
        thread.pc = match () {
            () if thread.log.unit < thread.op.cost() => Pc::StageEntry,
            () if thread.log.inserts => Pc::ClaimHeader,
            () if self.is(Mutant::HeadBeforeTime) => Pc::Look,
            () => Pc::LogCharge,
        };
        debug_assert!(self.log.ring > 0, "a ring has entries");
    }

    /// The entry may be late enough already.
    fn propose(self, state: &mut State, nth: usize) {
        let look = &mut state.threads[nth].log;
        let is_late = look.seen.entry.when > look.now || self.is(Mutant::ProposalsStay);
        if look.seen.proposed && is_late && look.seen.entry.when > 0 {
            look.unit += 1;
            self.stage(state, nth);
        } else {
            state.threads[nth].pc = Pc::StagePropose;
        }
    }

    /// The word is not the one any more that it was decided on.
    fn lost(self, state: &mut State, nth: usize) {
        let thread = &mut state.threads[nth];
        if thread.log.inserts {
            thread.again();
        } else {
            thread.log = Look::default();
            self.changed(thread);
        }
    }

    /// Refuses by what the ring says, which must be the key's own.
    fn refuse(self, state: &mut State, nth: usize) -> Result<(), Fault> {
        let thread = state.threads[nth];
        let key = thread.op.key();
        let logged: u8 = state.admitted[usize::from(key)].iter().sum();
        let before = self.scenario.logged(key).len() as u8;
        if logged + before + thread.op.cost() <= self.log.limit && !self.scenario.lowers() {
            return Err("a key was refused for what another owed");
        }
        self.deny(state, nth);
        Ok(())
    }

    /// The positions that were proposed are the request's: from here on their times may only become
    /// later. It was admitted at the time that the word says, which is no later than those.
    pub(super) fn won(self, state: &mut State, nth: usize) -> Result<(), Fault> {
        let thread = state.threads[nth];
        let ring = state.rings[usize::from(thread.place)];
        let logged = |unit| self.log.read(&ring, Log::head(thread.seen.payload) + unit);
        let is_logged = |seen: Seen| seen.proposed && seen.entry.when > thread.log.decided;
        let is_logged = (0..thread.op.cost()).map(logged).all(is_logged);
        match () {
            // A reset that is on its way forgives it, too. What the reset erased may have put off
            // the request's time.
            () if Self::is_reset(state, thread.op.key()) => state.threads[nth].paid = false,
            () if !is_logged && thread.log.refused => return Err("a refused request is not counted"),
            () if !is_logged => return Err("an admission is logged earlier than it was made"),
            () if thread.paid => return self.credit(state, nth),
            () => {}
        }
        Ok(())
    }

    /// Whether times of the key are being erased.
    fn is_reset(state: &State, key: Key) -> bool {
        let is_erasing = |pc| {
            matches!(
                pc,
                Pc::EraseEntry | Pc::EraseStill | Pc::Erase | Pc::Settle | Pc::SettleName | Pc::Settled
            )
        };
        state.threads.iter().any(|thread| thread.op == Op::Reset(key) && is_erasing(thread.pc))
    }

    /// The slot that was won was another key's.
    pub(super) fn lose(self, state: &mut State, nth: usize) {
        let thread = state.threads[nth];
        if thread.paid {
            let admitted = &mut state.admitted[usize::from(thread.op.key())];
            let units = &mut admitted[self.moment(thread.log.decided)];
            *units = units.saturating_sub(thread.op.cost());
        }
    }

    /// Counts the admitted units, and checks every window.
    pub(super) fn credit(self, state: &mut State, nth: usize) -> Result<(), Fault> {
        let thread = state.threads[nth];
        let (key, moment) = (usize::from(thread.op.key()), self.moment(thread.log.decided));
        let admitted = &mut state.admitted[key];
        if admitted.iter().skip(moment + 1).any(|&later| later > 0) {
            return Err("an admission is logged before one that came earlier");
        }
        admitted[moment] += thread.op.cost();
        let (admitted, times) = (*admitted, self.scenario.times);
        let before = if state.forgiven[key] { &[] } else { self.scenario.logged(thread.op.key()) };
        for &end in times {
            let is_in = |time: u8| time <= end && time + self.log.period > end;
            let counts = times.iter().zip(admitted).filter(|(time, _)| is_in(**time));
            let now: u8 = counts.map(|(_, count)| count).sum();
            let old = before.iter().filter(|time| is_in(**time)).count() as u8;
            if now + old > self.log.limit {
                return Err("a key was admitted more than its limit");
            }
        }
        Ok(())
    }

    /// `erase`: forgets all times behind the head, while the slot is still the one that was found.
    /// A proposal is another thread's who may be about to win it: of that, only what it says of the
    /// time that it lies over.
    fn erase(self, state: &mut State, nth: usize) -> Result<(), Fault> {
        let thread = state.threads[nth];
        let (look, position) = (thread.log, Log::head(thread.seen.payload) + thread.log.unit);
        let ring = &mut state.rings[usize::from(thread.place)];
        let word = state.buckets[usize::from(thread.at)].slots[usize::from(thread.place)].word;
        let thread = &mut state.threads[nth];
        let mut is_next = false;
        match thread.pc {
            Pc::EraseEntry => {
                let seen = self.log.read(ring, position);
                let stays = seen.proposed && !seen.entry.live && !self.is(Mutant::EraseProposals);
                (thread.log.seen, thread.pc) = (seen, Pc::EraseStill);
                is_next = stays || seen.entry == Entry::default();
            }
            Pc::EraseStill if word != thread.seen && !self.is(Mutant::EraseBlindly) => thread.again(),
            Pc::EraseStill => thread.pc = Pc::Erase,
            _ => {
                let entry = &mut ring[self.log.place(position).0];
                if *entry == look.seen.entry {
                    let keeps = look.seen.proposed && !self.is(Mutant::EraseProposals);
                    *entry = if keeps { Entry { live: false, ..*entry } } else { Entry::default() };
                }
                is_next = true;
            }
        }
        if is_next {
            thread.log.seen = Seen::default();
            thread.log.unit += 1;
            thread.pc = if thread.log.unit < self.log.ring { Pc::EraseEntry } else { Pc::Settle };
        }
        Ok(())
    }
}
