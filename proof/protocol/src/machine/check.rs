//! A check: how it begins, finds its key, and charges its word.

use super::{Fault, Machine};
use crate::mutant::Mutant;
use crate::scenario::Op;
use crate::state::{Pc, Slot, Split, State, Thread};
use crate::values::{Header, Key, Name, SLOTS, number_at, parent};

/// The place that is looked at in the given step of a probe: home first.
fn probe(key: Key, step: u8) -> u8 {
    ((key >> 2) + step) % SLOTS as u8
}

impl Machine<'_> {
    // How a check begins: by the key's fingerprint alone, and if no slot has it, by the fast path
    // of an insertion. `check`, `check_displaced` and `recycle`, as
    // `src/table/{bucket,recycle}.rs` have them.

    /// `check`: the key in its home slot.
    pub(super) fn home_slot(self, state: &mut State, nth: usize) {
        let State { buckets, threads, .. } = state;
        let thread = &mut threads[nth];
        let home = probe(thread.op.key(), 0);
        let slot = buckets[usize::from(thread.view)].slots[usize::from(home)];
        if thread.pc == Pc::HomeWord {
            (thread.seen, thread.pc) = (slot.word, Pc::HomeName);
        } else if slot.name == Name::Key(thread.op.key()) && !thread.seen.frozen {
            (thread.at, thread.place, thread.pc) = (thread.view, home, Pc::Attempt);
            (thread.quickly, thread.just) = (true, slot.word == thread.seen);
        } else {
            self.look_elsewhere(thread);
        }
    }

    /// Goes on to `check_displaced`.
    pub(super) fn look_elsewhere(self, thread: &mut Thread) {
        thread.again();
        let is_late = self.is(Mutant::RecycleReadsTheHeaderLate);
        thread.pc = if is_late { Pc::Displaced } else { Pc::Header };
    }

    /// `check_displaced`: the header, then the fingerprints of all slots. A thread that comes from
    /// `find_or_insert` has the header already.
    pub(super) fn displaced(self, state: &mut State, nth: usize) {
        let State { buckets, threads, .. } = state;
        let thread = &mut threads[nth];
        let bucket = &buckets[usize::from(thread.at)];
        let slot = bucket.slots[usize::from(thread.place)];
        let is_key = slot.name == Name::Key(thread.op.key());
        match thread.pc {
            Pc::Header => {
                (thread.header, thread.pc) = (bucket.header, Pc::Displaced);
                if self.is(Mutant::RecycleReadsTheHeaderLate) {
                    self.begin_recycle(thread);
                } else if self.is(Mutant::RecycleReadsTheClockBeforeTheNames) {
                    thread.now = state.clock;
                }
            }
            // The engine reads the names of the home slot's line twice. Only the second reading
            // says that the key has no slot.
            Pc::Displaced => {
                if is_key {
                    thread.chosen = thread.place + 1;
                }
                thread.place += 1;
                if usize::from(thread.place) == SLOTS {
                    let is_late = self.is(Mutant::RecycleReadsTheHeaderLate) && !thread.untried;
                    thread.place = thread.chosen.saturating_sub(1);
                    match std::mem::take(&mut thread.chosen) {
                        0 if is_late => thread.pc = Pc::Header,
                        0 => self.begin_recycle(thread),
                        _ if thread.untried => self.give_up(thread),
                        _ => thread.pc = Pc::DisplacedWord,
                    }
                }
            }
            Pc::DisplacedWord => (thread.seen, thread.pc) = (slot.word, Pc::DisplacedName),
            _ if is_key && !thread.seen.frozen => {
                (thread.just, thread.pc) = (slot.word == thread.seen, Pc::Attempt);
            }
            _ => thread.again(),
        }
    }

    /// `recycle`, once all fingerprints were read: goes on if the bucket `is_quiet`.
    fn begin_recycle(self, thread: &mut Thread) {
        let (key, number) = (thread.op.key(), usize::from(thread.at));
        let level = thread.header.level_of(number);
        let is_home =
            level.is_some_and(|level| number_at(level, key) == number) || self.is(Mutant::RecycleInAnyBucket);
        let is_shared = thread.header.shared && !self.is(Mutant::RecycleForgetsTheOverflow);
        let is_splitting = thread.header.splitting && !self.is(Mutant::RecycleInASplit);
        if self.log().is_some() || is_shared || is_splitting || !is_home {
            return self.give_up(thread);
        }
        (thread.place, thread.pc) = (0, Pc::RecycleClock);
    }

    /// `find_or_insert` goes on: with its scan, if it has tried the fast path itself; or from its
    /// beginning.
    pub(super) fn give_up(self, thread: &mut Thread) {
        let goes_on = thread.untried && (thread.short || thread.pc == Pc::Displaced);
        let header = thread.header;
        thread.again();
        if goes_on {
            (thread.header, thread.pc) = (header, Pc::ScanWord);
        }
    }

    /// Notes that the key's bucket is another than the thread thought: there it tries the fast path
    /// once more.
    pub(super) fn comes_to_another(self, thread: &mut Thread) {
        thread.untried |= self.scenario.quick && thread.checks();
    }

    /// `recycle`: the clock, and whether the header commits all words.
    pub(super) fn recycle(self, state: &mut State, nth: usize) {
        let clock = state.clock;
        let State { buckets, threads, .. } = state;
        let thread = &mut threads[nth];
        let place = usize::from(thread.place);
        let word = buckets[usize::from(thread.at)].slots[place].word;
        thread.short = true;
        if thread.pc == Pc::RecycleClock {
            let is_early = self.is(Mutant::RecycleReadsTheClockEarly)
                || self.is(Mutant::RecycleReadsTheClockBeforeTheNames);
            thread.now = if is_early { thread.now } else { clock };
            thread.pc = Pc::Intact;
            if self.is(Mutant::RecyclePassesSkewedWords) {
                thread.pc = Pc::VacancyWord;
                thread.place = probe(thread.op.key(), 0);
            }
        } else if !thread.header.commits(place, word) {
            self.give_up(thread);
        } else {
            thread.place += 1;
            if usize::from(thread.place) == SLOTS {
                (thread.place, thread.pc) = (probe(thread.op.key(), 0), Pc::VacancyWord);
            }
        }
    }

    /// `vacancy`: the home slot; or the first without a key; or the longest idle key's.
    pub(super) fn vacancy(self, state: &mut State, nth: usize) {
        let State { buckets, threads, .. } = state;
        let thread = &mut threads[nth];
        let bucket = &buckets[usize::from(thread.at)];
        let slot_at = |place: u8| bucket.slots[usize::from(place)];
        match thread.pc {
            Pc::VacancyWord => {
                (thread.seen, thread.pc) = (slot_at(thread.place).word, Pc::VacancyName);
            }
            Pc::VacancyName if self.is_vacant(thread, slot_at(thread.place).name) => {
                let (rule, now) = (self.scenario.rule, self.now(thread));
                let Some(payload) = rule.decide(now, now, thread.op.cost()) else {
                    return self.give_up(thread);
                };
                (thread.chosen, thread.new) = (0, self.claimed(thread, payload));
                thread.pc = Pc::ClaimHeader;
            }
            Pc::VacancyName if thread.chosen > 0 => self.give_up(thread),
            Pc::VacancyName => {
                (thread.place, thread.seen, thread.pc) = (0, Default::default(), Pc::WithoutKey)
            }
            Pc::WithoutKey => {
                let place = probe(thread.op.key(), thread.place);
                thread.place += 1;
                if slot_at(place).name.is_vacant() {
                    (thread.chosen, thread.place, thread.pc) = (place + 1, place, Pc::VacancyWord);
                } else if usize::from(thread.place) == SLOTS {
                    (thread.place, thread.pc) = (0, Pc::LongestIdle);
                }
            }
            _ => {
                let word = slot_at(thread.place).word;
                let rank = |word: crate::values::Word| (word.frozen, word.payload);
                if thread.chosen == 0 || rank(word) < rank(thread.seen) {
                    (thread.chosen, thread.seen) = (thread.place + 1, word);
                }
                thread.place += 1;
                if usize::from(thread.place) == SLOTS {
                    (thread.place, thread.pc) = (thread.chosen - 1, Pc::VacancyWord);
                    thread.seen = Default::default();
                }
            }
        }
    }

    /// Whether the slot that was read is at rest, committed, and has no debt.
    fn is_vacant(self, thread: &Thread, name: Name) -> bool {
        let counts = thread.header.commits(usize::from(thread.place), thread.seen);
        let is_idle = self.scenario.rule.expired(thread.seen.payload, self.now(thread));
        let is_at_rest = self.is_at_rest(thread, name) && !matches!(name, Name::Moved(_));
        let is_emptied = name == Name::Emptied && self.is(Mutant::RecycleTakesAnEmptiedSlot);
        (is_at_rest || is_emptied || self.is(Mutant::RecycleTakesAClaim))
            && (counts || self.is(Mutant::RecycleTakesASkewedWord))
            && (name.is_vacant() || is_idle || self.is(Mutant::RecycleTakesASlotInDebt))
    }

    // Finding a key: by its fingerprint, then by the headers and a scan of the bucket.

    /// `find_or_insert`'s load of the overflow word, and `at_home`.
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

    // Charging a slot's word, and the bucket's overflow word.

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
            log.won(state, nth)?;
        }
        let thread = state.threads[nth];
        let name = state.buckets[usize::from(thread.at)].slots[usize::from(thread.place)].name;
        if name.is_of(thread.op.key()) {
            return self.admit(state, nth, thread.new.payload);
        }
        if let Some(log) = self.log() {
            log.lose(state, nth);
        }
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
