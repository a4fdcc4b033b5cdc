//! A bucket that is split, and the threads that help.

use super::Machine;
use crate::mutant::Mutant;
use crate::state::{Pc, Split, State, Thread};
use crate::values::{Header, Name, SLOTS, Word, number_at};

impl Machine<'_> {
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
