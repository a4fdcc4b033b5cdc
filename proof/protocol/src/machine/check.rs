//! A check: how it begins, finds its key, and charges a word or a ring.

use super::{Fault, Machine};
use crate::mutant::Mutant;
use crate::ring::{Entry, Log, Seen};
use crate::rule::Rule;
use crate::scenario::Op;
use crate::state::{Look, Pc, Slot, Split, State, Thread};
use crate::values::{Header, Key, Name, SLOTS, number_at, parent};

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

/// The place that is looked at in the given step of a probe: home first.
fn probe(key: Key, step: u8) -> u8 {
    ((key >> 2) + step) % SLOTS as u8
}

impl Machine<'_> {
    // How a check begins: by the key's fingerprint alone, and if no slot has it, by the short way
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
    /// `enter` has the header already.
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

    /// `enter` goes on: with its scan, if it has tried the short way itself; or from its beginning.
    pub(super) fn give_up(self, thread: &mut Thread) {
        let goes_on = thread.untried && (thread.short || thread.pc == Pc::Displaced);
        let header = thread.header;
        thread.again();
        if goes_on {
            (thread.header, thread.pc) = (header, Pc::ScanWord);
        }
    }

    /// Notes that the key's bucket is another than the thread thought: there it tries the short way
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

    // A log: the times behind the head are read one by one, times are proposed ahead of it, and the
    // head is won by the word.
    //
    // `Rule::decide`, `Rule::stage` and `Rule::erase` of `src/algorithm/sliding_log.rs`, and the
    // charge of `Slot::attempt`.

    /// The log that limits keys, if one does.
    pub(super) fn log(self) -> Option<Log> {
        match self.scenario.rule {
            Rule::Log(log) if self.is(Mutant::RingOneShort) => Some(Log { ring: log.ring.max(2) - 1, ..log }),
            Rule::Log(log) => Some(log),
            Rule::Bucket { .. } => None,
        }
    }

    /// The steps of a log.
    pub(super) fn ringed(self, log: Log, state: &mut State, nth: usize) -> Result<(), Fault> {
        let thread = state.threads[nth];
        let (look, payload, cost) = (thread.log, thread.seen.payload, thread.op.cost());
        let ring = state.rings[usize::from(thread.place)];
        let slot = state.buckets[usize::from(thread.at)].slots[usize::from(thread.place)];
        let is_still = slot.word == thread.seen;
        match thread.pc {
            Pc::Attempt | Pc::StageNewest => {
                let newest = log.read(&ring, log.over(payload, 1));
                let logged =
                    if newest.proposed || self.is(Mutant::NewestIgnored) { 0 } else { newest.entry.when };
                let thread = &mut state.threads[nth];
                thread.log.now = self.now(thread).max(logged.saturating_sub(1));
                if thread.pc == Pc::Attempt {
                    thread.log.decided = thread.log.now;
                    thread.pc = Pc::LogOldest;
                } else {
                    self.stage(log, state, nth);
                }
            }
            Pc::LogOldest => {
                let mut oldest = log.read(&ring, log.over(payload, log.limit + 1 - cost));
                oldest.proposed &= !self.is(Mutant::ProposalsCount);
                let refused = log.is_inside(oldest, look.decided);
                let thread = &mut state.threads[nth];
                thread.log.refused = refused;
                // It had left by the time of the proposal.
                if !refused && oldest.proposed && !self.is(Mutant::ProposalTimeIgnored) {
                    thread.log.decided = look.decided.max(oldest.entry.when.saturating_sub(1));
                }
                thread.new = thread.seen.charged(log.logged(payload, thread.log.decided, cost));
                if look.inserts {
                    thread.new = self.claimed(thread, thread.new.payload);
                }
                thread.pc = match () {
                    () if refused && !log.all => Pc::LogDenied,
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
                let seen = log.read(&ring, Log::head(payload) + look.unit);
                let thread = &mut state.threads[nth];
                thread.log.seen = seen;
                thread.pc = Pc::StageStill;
                if self.is(Mutant::NoLookBeforePropose) || self.is(Mutant::HeadBeforeTime) {
                    self.propose(log, state, nth);
                }
            }
            Pc::StageStill if is_still => self.propose(log, state, nth),
            Pc::StageStill => self.lost(state, nth),
            Pc::StagePropose => {
                let (index, lap) = log.place(Log::head(payload) + look.unit);
                let entry = &mut state.rings[usize::from(thread.place)][index];
                if *entry == look.seen.entry || self.is(Mutant::ProposalOverwrites) {
                    let live = log.is_inside(look.seen, look.now) && !self.is(Mutant::LiveUnsaid);
                    *entry = Entry { lap, live, when: look.now + 1 };
                    state.threads[nth].log.unit += 1;
                    self.stage(log, state, nth);
                } else {
                    self.lost(state, nth);
                }
            }
            Pc::LogCharge => {
                if !Self::swap_word(state, (thread.at, thread.place), thread.seen, thread.new) {
                    self.lost(state, nth);
                } else {
                    let thread = &mut state.threads[nth];
                    let is_first = self.is(Mutant::HeadBeforeTime);
                    thread.paid = slot.name.is_of(thread.op.key()) && !look.refused;
                    thread.pc = if is_first { Pc::StageNewest } else { Pc::Look };
                    if !is_first {
                        return self.won(log, state, nth);
                    }
                }
            }
            _ => return self.erase(log, state, nth),
        }
        Ok(())
    }

    /// Goes on to the next unit that is proposed, or to win them all.
    fn stage(self, log: Log, state: &mut State, nth: usize) {
        let thread = &mut state.threads[nth];
        thread.log.seen = Seen::default();
        thread.pc = match () {
            () if thread.log.unit < thread.op.cost() => Pc::StageEntry,
            () if thread.log.inserts => Pc::ClaimHeader,
            () if self.is(Mutant::HeadBeforeTime) => Pc::Look,
            () => Pc::LogCharge,
        };
        debug_assert!(log.ring > 0, "a ring has entries");
    }

    /// The entry may be late enough already.
    fn propose(self, log: Log, state: &mut State, nth: usize) {
        let look = &mut state.threads[nth].log;
        let is_late = look.seen.entry.when > look.now || self.is(Mutant::ProposalsStay);
        if look.seen.proposed && is_late && look.seen.entry.when > 0 {
            look.unit += 1;
            self.stage(log, state, nth);
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
        let Some(log) = self.log() else { return Ok(()) };
        let thread = state.threads[nth];
        let key = thread.op.key();
        let logged: u8 = state.admitted[usize::from(key)].iter().sum();
        let before = self.scenario.logged(key).len() as u8;
        if logged + before + thread.op.cost() <= log.limit && !self.scenario.lowers() {
            return Err("a key was refused for what another owed");
        }
        self.deny(state, nth);
        Ok(())
    }

    /// The positions that were proposed are the request's: from here on their times may only become
    /// later. It was admitted at the time that the word says, which is no later than those.
    pub(super) fn won(self, log: Log, state: &mut State, nth: usize) -> Result<(), Fault> {
        let thread = state.threads[nth];
        let ring = state.rings[usize::from(thread.place)];
        let logged = |unit| log.read(&ring, Log::head(thread.seen.payload) + unit);
        let is_logged = |seen: Seen| seen.proposed && seen.entry.when > thread.log.decided;
        let is_logged = (0..thread.op.cost()).map(logged).all(is_logged);
        match () {
            // A reset that is on its way forgives it, too. What the reset erased may have put off
            // the request's time.
            () if Self::is_reset(state, thread.op.key()) => state.threads[nth].paid = false,
            () if !is_logged && thread.log.refused => return Err("a refused request is not counted"),
            () if !is_logged => return Err("an admission is logged earlier than it was made"),
            () if thread.paid => return self.credit_log(state, nth),
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

    /// The number of the tick at which a log's request was decided.
    pub(super) fn moment(self, decided: u8) -> usize {
        self.scenario.times.iter().position(|&time| time == decided).unwrap_or(0)
    }

    /// The slot that was won was another key's.
    pub(super) fn lose(self, state: &mut State, nth: usize) {
        let thread = state.threads[nth];
        if thread.paid && self.log().is_some() {
            let admitted = &mut state.admitted[usize::from(thread.op.key())];
            let units = &mut admitted[self.moment(thread.log.decided)];
            *units = units.saturating_sub(thread.op.cost());
        }
    }

    /// Counts the admitted units, and checks every window.
    pub(super) fn credit_log(self, state: &mut State, nth: usize) -> Result<(), Fault> {
        let Some(log) = self.log() else { return Ok(()) };
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
            let is_in = |time: u8| time <= end && time + log.period > end;
            let counts = times.iter().zip(admitted).filter(|(time, _)| is_in(**time));
            let now: u8 = counts.map(|(_, count)| count).sum();
            let old = before.iter().filter(|time| is_in(**time)).count() as u8;
            if now + old > log.limit {
                return Err("a key was admitted more than its limit");
            }
        }
        Ok(())
    }

    /// `erase`: forgets all times behind the head, while the slot is still the one that was found.
    /// A proposal is another thread's who may be about to win it: of that, only what it says of the
    /// time that it lies over.
    fn erase(self, log: Log, state: &mut State, nth: usize) -> Result<(), Fault> {
        let thread = state.threads[nth];
        let (look, position) = (thread.log, Log::head(thread.seen.payload) + thread.log.unit);
        let ring = &mut state.rings[usize::from(thread.place)];
        let word = state.buckets[usize::from(thread.at)].slots[usize::from(thread.place)].word;
        let thread = &mut state.threads[nth];
        let mut is_next = false;
        match thread.pc {
            Pc::EraseEntry => {
                let seen = log.read(ring, position);
                let stays = seen.proposed && !seen.entry.live && !self.is(Mutant::EraseProposals);
                (thread.log.seen, thread.pc) = (seen, Pc::EraseStill);
                is_next = stays || seen.entry == Entry::default();
            }
            Pc::EraseStill if word != thread.seen && !self.is(Mutant::EraseBlindly) => thread.again(),
            Pc::EraseStill => thread.pc = Pc::Erase,
            _ => {
                let entry = &mut ring[log.place(position).0];
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
            thread.pc = if thread.log.unit < log.ring { Pc::EraseEntry } else { Pc::Settle };
        }
        Ok(())
    }
}
