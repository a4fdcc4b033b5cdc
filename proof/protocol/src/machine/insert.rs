//! Who is in the table: new keys, and buckets that are split.

use super::{Fault, Machine};
use crate::mutant::Mutant;
use crate::scenario::Full;
use crate::state::{Pc, Slot, Split, State, Thread};
use crate::values::{BUCKETS, Header, Name, SLOTS, Word, number_at};

/// How often a slot with its debt is tried to be had, and then the overflow word to be charged,
/// before the request is refused.
const TRIES: u8 = 3;

impl Machine<'_> {
    // A new key: where it goes, and the four steps of its insertion.

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
                    log.won(state, nth)?;
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

    // A bucket that is split, and the threads that help.

    /// `split` from this header, at this level; afterwards the thread goes on at `then`.
    pub(super) fn begin_split(self, thread: &mut Thread, bucket: u8, level: u8, header: Header, then: Pc) {
        let announced = header.splitting || self.is(Mutant::SplitUnannounced);
        let pc = if announced { Pc::SplitOverflow } else { Pc::Split };
        self.comes_to_another(thread);
        thread.split = Split { bucket, level, header, then, ..Split::default() };
        thread.pc = pc;
    }

    fn sibling(split: &Split) -> u8 {
        split.bucket | 1 << split.level
    }

    /// Back to where it was needed.
    fn end_split(thread: &mut Thread) {
        match thread.split.then {
            Pc::Home => (thread.split, thread.pc) = (Split::default(), Pc::Home),
            _ => thread.again(),
        }
    }

    /// The hint, the announcement, and the overflow word.
    pub(super) fn split(self, state: &mut State, nth: usize) {
        let thread = state.threads[nth];
        let split = thread.split;
        let sibling = usize::from(Self::sibling(&split));
        match thread.pc {
            Pc::Widen => {
                // A hint: that its load and its compare-exchange are one step here changes nothing.
                if split.level >= state.hint {
                    state.hint += 1;
                }
                let thread = &mut state.threads[nth];
                let header = thread.header;
                self.begin_split(thread, thread.at, split.level, header, Pc::Overflow);
            }
            Pc::Split => {
                let splitting = split.header.splitting();
                let advanced = Self::advance(state, split.bucket, split.header, splitting);
                let thread = &mut state.threads[nth];
                if !advanced {
                    return Self::end_split(thread);
                }
                thread.split.header = splitting;
                thread.pc = Pc::SplitOverflow;
            }
            Pc::SplitOverflow => {
                let overflow = state.buckets[usize::from(split.bucket)].overflow;
                let thread = &mut state.threads[nth];
                // A compare-exchange from 0 to 0 is no step.
                thread.split.debt = overflow;
                thread.pc = if overflow == 0 { Pc::PartWord } else { Pc::SplitShare };
                if self.is(Mutant::SiblingOpensFirst) && overflow == 0 {
                    thread.pc = Pc::SiblingOpen;
                }
            }
            _ => {
                let overflow = &mut state.buckets[sibling].overflow;
                if *overflow == 0 {
                    *overflow = split.debt;
                }
                let first = if self.is(Mutant::SiblingOpensFirst) { Pc::SiblingOpen } else { Pc::PartWord };
                (state.threads[nth].split.debt, state.threads[nth].pc) = (0, first);
            }
        }
    }

    /// `detach`: takes a key that leaves out of its slot.
    pub(super) fn part(self, state: &mut State, nth: usize) {
        let now = self.time(state.clock);
        let State { buckets, threads, .. } = state;
        let thread = &mut threads[nth];
        let split = &mut thread.split;
        let bucket = &mut buckets[usize::from(split.bucket)];
        let place = usize::from(split.place);
        let slot = &mut bucket.slots[place];
        let counts = split.header.commits(place, split.word);
        thread.pc = match thread.pc {
            Pc::PartWord => {
                split.word = slot.word;
                Pc::PartName
            }
            Pc::PartName => {
                split.name = slot.name;
                let sibling = usize::from(Self::sibling(split));
                let leaves = |key| number_at(split.level + 1, key) == sibling;
                let is_pending = split.word.frozen && !counts && !self.is(Mutant::HelperMovesPending);
                let dropped = self.is(Mutant::HelperDropsExpired) && split.word.payload <= now;
                let stays = split.name.key().is_none_or(|key| !leaves(key));
                match () {
                    () if is_pending || stays || dropped => Pc::SplitOver,
                    () if self.is(Mutant::PartBlindly) => self.parting(split),
                    () => Pc::PartOver,
                }
            }
            Pc::PartOver if bucket.header != split.header => Pc::SplitOver,
            Pc::PartOver => self.parting(split),
            Pc::PartNameCas => {
                if let Name::Key(key) = split.name
                    && slot.name == split.name
                {
                    slot.name = Name::Moved(key);
                }
                Pc::PartWord
            }
            _ => {
                if slot.word == split.word {
                    slot.word = split.word.detached();
                }
                Pc::PartWord
            }
        };
        if matches!(thread.pc, Pc::PartWord | Pc::SplitOver) && thread.split.moved.is_none() {
            let split = &mut thread.split;
            (split.word, split.name) = Default::default();
        }
    }

    /// The next step for a key that leaves, by the slot as it was read.
    fn parting(self, split: &mut Split) -> Pc {
        let counts = split.header.commits(usize::from(split.place), split.word);
        let is_key = matches!(split.name, Name::Key(_));
        let moved = split.name.key().map(|key| (key, split.word));
        let (name_first, copies) = (!self.is(Mutant::WordPartsFirst), self.is(Mutant::ParityNotFlipped));
        match () {
            () if is_key && (name_first || !counts) => Pc::PartNameCas,
            () if counts && !copies => Pc::PartWordCas,
            () => {
                split.moved = moved;
                Pc::SplitOver
            }
        }
    }

    /// `receive`, and the end of the split.
    pub(super) fn receive(self, state: &mut State, nth: usize) {
        let thread = &mut state.threads[nth];
        let split = &mut thread.split;
        let place = usize::from(split.place);
        let bucket = usize::from(split.bucket);
        let sibling = usize::from(Self::sibling(split));
        let name_first = self.is(Mutant::NameArrivesFirst);
        match thread.pc {
            Pc::SplitOver => {
                if state.buckets[bucket].header != split.header {
                    return Self::end_split(thread);
                }
                let has_word = split.moved.is_some() && !name_first;
                thread.pc = if has_word { Pc::ReceiveWord } else { Pc::ReceiveName };
            }
            Pc::ReceiveWord => {
                let word = &mut state.buckets[sibling].slots[place].word;
                if let Some((_, moved)) = split.moved
                    && *word == Word::default()
                {
                    *word = Word::default().charged(moved.payload).held();
                }
                thread.pc = if name_first { Pc::ReceiveRelease } else { Pc::ReceiveName };
            }
            Pc::ReceiveName => {
                let name = &mut state.buckets[sibling].slots[place].name;
                if *name == Name::Untouched {
                    *name = split.moved.map_or(Name::Vacant, |(key, _)| Name::Key(key));
                }
                match split.moved {
                    Some(_) if name_first => thread.pc = Pc::ReceiveWord,
                    Some(_) => thread.pc = Pc::ReceiveRelease,
                    None => self.next_place(thread),
                }
            }
            Pc::ReceiveRelease => {
                let word = &mut state.buckets[sibling].slots[place].word;
                if let Some((_, moved)) = split.moved
                    && *word == Word::default().charged(moved.payload).held()
                {
                    *word = word.charged(moved.payload);
                }
                self.next_place(thread);
            }
            Pc::SiblingOpen => {
                let header = split.header.sibling(split.level + 1);
                let first = self.is(Mutant::SiblingOpensFirst);
                thread.pc = if first { Pc::PartWord } else { Pc::Finish };
                Self::advance(state, sibling as u8, Header::default(), header);
            }
            _ => {
                let (number, header) = (split.bucket, split.header);
                let done = header.split(split.level + 1);
                Self::end_split(thread);
                Self::advance(state, number, header, done);
            }
        }
    }

    /// `vacate_left`: empties the slots that keys have left.
    pub(super) fn vacate(self, state: &mut State, nth: usize) {
        let split = state.threads[nth].split;
        let slot = &mut state.buckets[usize::from(split.bucket)].slots[usize::from(split.place)];
        let thread = &mut state.threads[nth];
        let left = self.has_left(split.header, split.bucket, slot.name);
        match thread.pc {
            Pc::VacateSeen => (thread.split.word, thread.pc) = (slot.word, Pc::Vacate),
            // A claim that cannot commit: its owner vacates the slot.
            Pc::Vacate if left && (!split.word.frozen || self.is(Mutant::VacatesAClaim)) => {
                (slot.name, thread.pc) = (Name::Emptied, Pc::VacateWord)
            }
            Pc::VacateWord => {
                let parity = split.header.parity[usize::from(split.place)] ^ self.is(Mutant::VacateFlips);
                let payload = if self.is(Mutant::VacateKeepsTheWord) { slot.word.payload } else { 0 };
                (slot.word, thread.pc) = (Word { frozen: false, parity, payload }, Pc::Vacated);
            }
            pc => {
                if pc == Pc::Vacated {
                    slot.name = Name::Vacant;
                }
                thread.split.place += 1;
                thread.split.word = Word::default();
                thread.pc = Pc::VacateSeen;
                if usize::from(thread.split.place) == SLOTS {
                    thread.again();
                }
            }
        }
    }

    fn next_place(self, thread: &mut Thread) {
        let split = &mut thread.split;
        (split.word, split.name, split.moved) = Default::default();
        split.place += 1;
        thread.pc = match usize::from(split.place) {
            SLOTS if self.is(Mutant::SiblingOpensFirst) => Pc::Finish,
            SLOTS => Pc::SiblingOpen,
            _ => Pc::PartWord,
        };
    }
}
