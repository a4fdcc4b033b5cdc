//! A new key: where it goes, and the four steps of its insertion.

use super::{Fault, Machine};
use crate::mutant::Mutant;
use crate::scenario::Full;
use crate::state::{Pc, Slot, State, Thread};
use crate::values::{BUCKETS, Name, SLOTS, Word};

/// How often a slot with its debt is tried to be had, and then the overflow word to be charged,
/// before the request is refused.
const TRIES: u8 = 3;

impl Machine<'_> {
    /// The clock, then `place`: where the key would go.
    pub(super) fn place(self, state: &mut State, nth: usize) {
        let clock = state.clock;
        let thread = &mut state.threads[nth];
        if !self.is(Mutant::ClockBeforeScan) {
            thread.now = clock;
        }
        let (now, rule) = (self.now(thread), self.scenario.rule);
        let home = usize::from(thread.op.key() >> 2);
        let places = (0..SLOTS).map(|step| (home + step) % SLOTS);
        let rest = places.filter_map(|place| thread.others[place].map(|slot| (place, slot)));
        let vacant = rest.clone().find(|(_, slot)| slot.name.is_vacant());
        let least =
            rest.reduce(|least, next| if next.1.word.payload < least.1.word.payload { next } else { least });
        let expired = least.filter(|(_, slot)| rule.expired(slot.word.payload, now));
        if let Some(slot) = vacant.or(expired) {
            return self.begin_insert(state, nth, slot, false);
        }
        if let Some(level) = thread.header.level_of(usize::from(thread.at))
            && 1 << level < self.scenario.buckets.min(BUCKETS)
        {
            thread.others = [None; SLOTS];
            thread.pc = Pc::Widen;
            thread.split.level = level;
            return;
        }
        let forever = self.is(Mutant::HandoversForever);
        match least {
            None => self.deny(state, nth),
            Some(_) if self.scenario.full == Full::Deny => self.deny(state, nth),
            Some(slot) if slot.1.word.payload <= rule.half(now) && (thread.handovers < TRIES || forever) => {
                thread.handovers = (thread.handovers + 1).min(TRIES);
                self.begin_insert(state, nth, slot, true);
            }
            Some(_) if thread.shares == TRIES => self.deny(state, nth),
            Some(_) => {
                thread.shares += 1;
                let debt = thread.overflow.max(rule.half(now));
                let Some(payload) = rule.decide(debt, now, thread.op.cost()) else {
                    return self.deny(state, nth);
                };
                thread.others = [None; SLOTS];
                thread.new = Word::default().charged(payload);
                let is_first = self.is(Mutant::ShareMovesHeaderFirst) || self.is(Mutant::NoLookAfterShare);
                thread.pc = if is_first { Pc::ShareHeader } else { Pc::Share };
            }
        }
    }

    fn begin_insert(self, state: &mut State, nth: usize, (place, slot): (usize, Slot), owed: bool) {
        let thread = &mut state.threads[nth];
        thread.place = place as u8;
        thread.seen = slot.word;
        // Only a mutant remembers the name.
        thread.others = [None; SLOTS];
        if self.is(Mutant::AbandonRestoresTheName) {
            thread.others[place] = Some(slot);
        }
        thread.owed = owed;
        if self.log().is_some() {
            thread.log.inserts = true;
            thread.pc = Pc::Attempt;
            return;
        }
        let base = if owed { slot.word.payload } else { self.now(thread) };
        thread.overflow = Default::default();
        if thread.header.shared && !self.is(Mutant::OverflowForgotten) {
            thread.new.payload = base;
            thread.pc = Pc::InsertDebt;
        } else {
            self.decide_insert(state, nth, base);
        }
    }

    /// The insertion inherits the overflow word's debt.
    pub(super) fn insert_debt(self, state: &mut State, nth: usize) {
        let thread = &mut state.threads[nth];
        let debt = state.buckets[usize::from(thread.at)].overflow;
        let now = self.now(thread);
        thread.shared = !self.scenario.rule.expired(debt, now);
        let base = thread.new.payload;
        let owed = if thread.shared { base.max(debt) } else { base };
        self.decide_insert(state, nth, owed);
    }

    /// The word of a claim of the thread's place.
    pub(super) fn claimed(self, thread: &Thread, payload: u8) -> Word {
        let mut new = thread.seen.claimed(payload);
        new.parity ^= self.is(Mutant::ClaimKeepsParity);
        new
    }

    fn decide_insert(self, state: &mut State, nth: usize, owed: u8) {
        let thread = &mut state.threads[nth];
        let (now, cost) = (self.now(thread), thread.op.cost());
        let Some(payload) = self.scenario.rule.decide(owed, now, cost) else {
            return self.deny(state, nth);
        };
        thread.new = self.claimed(thread, payload);
        let parts = thread.owed && !self.is(Mutant::NoPartWith) && !self.is(Mutant::PartWithAfterClaim);
        thread.pc = if parts { Pc::PartWithLoad } else { Pc::ClaimHeader };
    }

    /// `leave_debt`: the evicted key leaves its debt in the overflow word.
    pub(super) fn leave_debt(self, state: &mut State, nth: usize) {
        let thread = state.threads[nth];
        let overflow = &mut state.buckets[usize::from(thread.at)].overflow;
        let mut next = Pc::PartWith;
        match thread.pc {
            Pc::PartWithLoad => state.threads[nth].overflow = *overflow,
            Pc::PartWith if *overflow == thread.overflow => {
                *overflow = (*overflow).max(thread.seen.payload);
                state.threads[nth].overflow = Default::default();
                next = Pc::PartWithHeader;
            }
            Pc::PartWithHeader if Self::advance(state, thread.at, thread.header, thread.header.sharing()) => {
                state.threads[nth].header = thread.header.sharing();
                next = if self.is(Mutant::PartWithAfterClaim) { Pc::Commit } else { Pc::ClaimHeader };
            }
            _ if self.is(Mutant::PartWithAfterClaim) => next = Pc::AbandonName,
            _ => return state.threads[nth].again(),
        }
        state.threads[nth].pc = next;
    }

    /// `take_slot`: a look at the header, then claim, rename, commit, publish.
    pub(super) fn insert(self, state: &mut State, nth: usize) -> Result<(), Fault> {
        let thread = state.threads[nth];
        let (number, place) = (usize::from(thread.at), usize::from(thread.place));
        let key = thread.op.key();
        let next = match thread.pc {
            // The word may come back under a later owner: then the header has changed.
            Pc::ClaimHeader => {
                if state.buckets[number].header != thread.header && !self.is(Mutant::ClaimBlindly) {
                    self.give_up(&mut state.threads[nth]);
                    return Ok(());
                }
                Pc::Claim
            }
            Pc::Claim => {
                let word = &mut state.buckets[number].slots[place].word;
                let any = self.is(Mutant::ClaimTakesAnyWord) && !word.frozen;
                if *word != thread.seen && !any {
                    self.give_up(&mut state.threads[nth]);
                    return Ok(());
                }
                *word = thread.new;
                if let Some(log) = self.log() {
                    self.won(log, state, nth)?;
                }
                if self.is(Mutant::RenameAfterCommit) { Pc::Commit } else { Pc::Rename }
            }
            Pc::Rename => {
                state.buckets[number].slots[place].name = Name::Key(key);
                match self.mutant {
                    Mutant::RenameAfterCommit | Mutant::PublishBeforeCommit => Pc::Publish,
                    Mutant::PartWithAfterClaim if thread.owed => Pc::PartWithLoad,
                    _ => Pc::Commit,
                }
            }
            Pc::Commit => {
                let shared = thread.shared || thread.owed;
                let header = &mut state.buckets[number].header;
                if *header != thread.header && !self.is(Mutant::CommitIgnoresTheHeader) {
                    Pc::AbandonName
                } else {
                    *header = header.committing(place, shared);
                    if self.is(Mutant::PublishBeforeCommit) {
                        state.threads[nth].paid = true;
                        return self.admit(state, nth, thread.new.payload);
                    }
                    // From here on the key is charged, and the caller will be told so.
                    if !thread.log.refused {
                        self.credit(state, nth)?;
                    }
                    if self.is(Mutant::RenameAfterCommit) { Pc::Rename } else { Pc::Publish }
                }
            }
            _ => {
                let published = thread.new.charged(thread.new.payload);
                Self::swap_word(state, (thread.at, thread.place), thread.new, published);
                if self.is(Mutant::PublishBeforeCommit) {
                    state.threads[nth].new = published;
                    Pc::Commit
                } else {
                    // Counted when it was committed.
                    state.threads[nth].paid = false;
                    return self.admit(state, nth, thread.new.payload);
                }
            }
        };
        state.threads[nth].pc = next;
        Ok(())
    }

    /// Abandons a claimed slot: it is vacant.
    pub(super) fn abandon(self, state: &mut State, nth: usize) {
        let thread = state.threads[nth];
        let slot = &mut state.buckets[usize::from(thread.at)].slots[usize::from(thread.place)];
        if thread.pc == Pc::AbandonName {
            let old = thread.others[usize::from(thread.place)];
            slot.name = match old {
                Some(old) => old.name,
                None if thread.owed => Name::Owed,
                None => Name::Vacant,
            };
            state.threads[nth].pc = Pc::AbandonWord;
        } else {
            let payload = thread.seen.payload;
            let keeps = self.is(Mutant::AbandonKeepsTheWord);
            slot.word = thread.seen.charged(if keeps { payload } else { self.scenario.rule.bumped(payload) });
            self.give_up(&mut state.threads[nth]);
        }
    }
}
