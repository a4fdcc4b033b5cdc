//! Finding a key: by its fingerprint, then by the headers and a scan of the bucket.

use super::Machine;
use crate::mutant::Mutant;
use crate::scenario::Op;
use crate::state::{Pc, Slot, Split, State, Thread};
use crate::values::{Header, Key, Name, SLOTS, number_at, parent};

/// The place that is looked at in the given step of a probe: home first.
pub(super) fn probe(key: Key, step: u8) -> u8 {
    ((key >> 2) + step) % SLOTS as u8
}

impl Machine<'_> {
    /// `enter`'s load of the overflow word, and `at_home`.
    pub(super) fn home(self, state: &mut State, nth: usize) {
        let State { buckets, threads, .. } = state;
        let thread = &mut threads[nth];
        let key = thread.op.key();
        if thread.pc == Pc::Overflow {
            thread.overflow = buckets[usize::from(thread.view)].overflow;
            (thread.at, thread.pc) = (thread.view, Pc::Home);
            return;
        }
        let is_opening = thread.pc == Pc::Open;
        let number = if is_opening { parent(usize::from(thread.child)) } else { usize::from(thread.at) };
        let header = buckets[number].header;
        match header.level_of(number) {
            None if is_opening => thread.child = number as u8,
            None => (thread.child, thread.pc) = (number as u8, Pc::Open),
            Some(level) if is_opening => {
                let child = thread.child;
                (thread.child, thread.pc) = (0, Pc::Home);
                if u32::from(level) <= child.ilog2() {
                    self.begin_split(thread, number as u8, level, header, Pc::Home);
                }
            }
            Some(level) if header.splitting => {
                self.begin_split(thread, number as u8, level, header, Pc::Home);
            }
            Some(level) if number_at(level, key) == number => self.arrive(thread, header),
            Some(level) => thread.at = number_at(level, key) as u8,
        }
    }

    fn arrive(self, thread: &mut Thread, header: crate::values::Header) {
        if thread.checks() && thread.at != thread.view {
            // The overflow word that was read is another bucket's.
            self.comes_to_another(thread);
            thread.view = thread.at;
            thread.again();
            return;
        }
        thread.header = header;
        (thread.place, thread.pc) = (0, if thread.untried { Pc::Displaced } else { Pc::ScanWord });
    }

    /// `scan`: the key in all slots of its bucket.
    pub(super) fn scan(self, state: &mut State, nth: usize) {
        let State { buckets, threads, .. } = state;
        let thread = &mut threads[nth];
        let bucket = &buckets[usize::from(thread.at)];
        let key = thread.op.key();
        let place = probe(key, thread.place);
        let slot = bucket.slots[usize::from(place)];
        match thread.pc {
            Pc::ScanWord => (thread.seen, thread.pc) = (slot.word, Pc::ScanName),
            Pc::ScanName
                if self.is_at_rest(thread, slot.name) && self.is_skewed(thread, slot.name, place) =>
            {
                thread.pc = Pc::ScanSkewed;
            }
            Pc::ScanName if slot.name != Name::Key(key) => {
                let is_at_rest = self.is_at_rest(thread, slot.name);
                let rest = Slot { word: thread.seen, name: slot.name };
                thread.others[usize::from(place)] = is_at_rest.then_some(rest);
                Self::scan_on(thread);
            }
            Pc::ScanName if !thread.seen.frozen || self.is(Mutant::ChargePending) => {
                thread.just = slot.word == thread.seen;
                self.found(thread, place);
            }
            Pc::ScanName => thread.pc = Pc::ScanHeader,
            Pc::ScanHeader if bucket.header.commits(usize::from(place), thread.seen) => {
                thread.pc = Pc::ScanAgain;
                if self.is(Mutant::NoNameAfterHeader) {
                    thread.just = slot.word == thread.seen && slot.name.is_of(key);
                    self.found(thread, place);
                }
            }
            // Another insertion of the key has not committed: compete with it.
            Pc::ScanHeader => Self::scan_on(thread),
            _ if slot.name == Name::Key(key) => {
                thread.just = slot.word == thread.seen;
                self.found(thread, place);
            }
            _ => thread.again(),
        }
    }

    /// Whether the slot that was read is at rest: a key's or vacant, and not claimed.
    pub(super) fn is_at_rest(self, thread: &Thread, name: Name) -> bool {
        match name {
            Name::Emptied => false,
            Name::Moved(_) => !thread.seen.frozen && self.has_left(thread.header, thread.at, name),
            _ => !thread.seen.frozen,
        }
    }

    /// Whether a slot of this name was left by its key.
    pub(super) fn has_left(self, header: Header, bucket: u8, name: Name) -> bool {
        let level = header.level_of(usize::from(bucket));
        matches!((name, level), (Name::Moved(key), Some(level)) if number_at(level, key) != usize::from(bucket))
    }

    /// Whether the word that was read, of a slot at rest, does not count.
    fn is_skewed(self, thread: &Thread, name: Name, place: u8) -> bool {
        let counts = thread.header.commits(usize::from(place), thread.seen);
        matches!(name, Name::Moved(_)) || !counts && !self.is(Mutant::SkewedTaken)
    }

    /// A word at rest that does not count: either the bucket has changed, or a helper has detached
    /// a word that was no longer the one that it meant. Then its parity is repaired.
    pub(super) fn repair(self, state: &mut State, nth: usize) {
        let thread = state.threads[nth];
        let place = probe(thread.op.key(), thread.place);
        let is_same = state.buckets[usize::from(thread.at)].header == thread.header;
        if thread.pc == Pc::ScanSkewed && is_same {
            state.threads[nth].pc = Pc::Straighten;
            return;
        }
        let name = state.buckets[usize::from(thread.at)].slots[usize::from(place)].name;
        if thread.pc == Pc::Straighten && self.has_left(thread.header, thread.at, name) {
            let split = Split { bucket: thread.at, header: thread.header, ..Split::default() };
            (state.threads[nth].split, state.threads[nth].pc) = (split, Pc::VacateSeen);
            return;
        }
        if thread.pc == Pc::Straighten && name != Name::Emptied {
            Self::swap_word(state, (thread.at, place), thread.seen, thread.seen.detached());
        }
        state.threads[nth].again();
    }

    fn scan_on(thread: &mut Thread) {
        thread.seen = Default::default();
        thread.place += 1;
        thread.pc = Pc::ScanWord;
        if usize::from(thread.place) == SLOTS {
            thread.place = 0;
            thread.pc = if thread.checks() { Pc::InsertClock } else { Pc::Gone };
        }
    }

    /// The key has a slot, and `seen` is its word.
    fn found(self, thread: &mut Thread, place: u8) {
        thread.place = place;
        thread.others = [None; SLOTS];
        thread.pc = match thread.op {
            Op::Reset(_) if self.log().is_some() => Pc::EraseEntry,
            Op::Reset(_) => Pc::Settle,
            _ if thread.taken.is_some() => {
                let skips = thread.seen.frozen || self.is(Mutant::RefundWithoutHold);
                if skips { Pc::HoldName } else { Pc::Hold }
            }
            _ => Pc::Attempt,
        };
    }

    /// A reset or a refund that finds no slot ends here, unless the key may have been on its way.
    pub(super) fn gone(self, state: &mut State, nth: usize) {
        let thread = &mut state.threads[nth];
        let header = state.buckets[usize::from(thread.at)].header;
        if header == thread.header {
            self.finish(state, nth);
        } else {
            thread.again();
        }
    }
}
