//! How a check begins: by the key's fingerprint alone, and if no slot has it, by the short way of
//! an insertion. `check`, `check_displaced` and `recycle`, as `src/table/{bucket,recycle}.rs` have
//! them.

use super::Machine;
use super::way::probe;
use crate::mutant::Mutant;
use crate::state::{Pc, State, Thread};
use crate::values::{Name, SLOTS, number_at};

impl Machine<'_> {
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
}
