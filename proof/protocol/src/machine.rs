//! The threads' steps: each is one access to the memory, with the thinking that follows it.
//!
//! `check` finds a key, and charges its word; `log` charges and erases its ring; `insert` enters
//! new keys and splits buckets. Every step is named after what `src/table` calls it.

mod check;
mod insert;
mod log;

use log::Ringed;

use crate::mutant::Mutant;
use crate::ring::Log;
use crate::rule::Rule;
use crate::scenario::{Op, Scenario};
use crate::state::{MOMENTS, Pc, State, Taken, Thread};
use crate::values::{BUCKETS, Key, Name, Word};

/// What a broken promise says.
pub(crate) type Fault = &'static str;

/// The protocol or one of its mutants, in one scenario.
#[derive(Clone, Copy)]
pub(crate) struct Machine<'s> {
    pub(crate) scenario: &'s Scenario,
    pub(crate) mutant: Mutant,
}

impl<'s> Machine<'s> {
    /// The log that limits keys, if one does.
    fn log(self) -> Option<Ringed<'s>> {
        let Rule::Log(log) = self.scenario.rule else { return None };
        let log = if self.is(Mutant::RingOneShort) { Log { ring: log.ring.max(2) - 1, ..log } } else { log };
        Some(Ringed { machine: self, log })
    }

    /// The number of the tick at which a log's request was decided.
    fn moment(self, decided: u8) -> usize {
        self.scenario.times.iter().position(|&time| time == decided).unwrap_or(0)
    }

    fn is(self, mutant: Mutant) -> bool {
        self.mutant == mutant || self.mutant.parts().contains(&mutant)
    }

    /// The tick of this number.
    fn time(self, number: u8) -> u8 {
        self.scenario.times[usize::from(number)]
    }

    fn now(self, thread: &Thread) -> u8 {
        self.time(thread.now)
    }

    /// Moves the clock. `false` when it has no other tick.
    pub(crate) fn tick(self, state: &mut State) -> bool {
        let ticks = usize::from(state.clock) + 1 < self.scenario.times.len();
        state.clock += u8::from(ticks);
        ticks
    }

    /// Lets a thread make its next access.
    pub(crate) fn step(self, state: &mut State, nth: usize) -> Result<(), Fault> {
        let pc = state.threads[nth].pc;
        if let Some(log) = self.log()
            && log::is_ringed(pc)
        {
            return log.step(state, nth);
        }
        match pc {
            Pc::Begin => self.begin(state, nth),
            Pc::Clock => {
                let thread = &mut state.threads[nth];
                thread.now = state.clock;
                thread.pc = Pc::Overflow;
                if matches!(thread.op, Op::Reset(_)) {
                    thread.pc = Pc::Home;
                } else if self.scenario.quick {
                    thread.pc = Pc::HomeWord;
                }
            }
            Pc::HomeWord | Pc::HomeName => self.home_slot(state, nth),
            Pc::Header | Pc::Displaced | Pc::DisplacedWord | Pc::DisplacedName => {
                self.displaced(state, nth);
            }
            Pc::RecycleClock | Pc::Intact => self.recycle(state, nth),
            Pc::VacancyWord | Pc::VacancyName | Pc::WithoutKey | Pc::LongestIdle => {
                self.vacancy(state, nth);
            }
            Pc::Attempt => return self.attempt(state, nth),
            Pc::Look => return self.look(state, nth),
            Pc::ReloadWord | Pc::ReloadName => self.reload(state, nth),
            Pc::Overflow | Pc::Home | Pc::Open => self.home(state, nth),
            Pc::ScanWord | Pc::ScanName | Pc::ScanHeader | Pc::ScanAgain => self.scan(state, nth),
            Pc::ScanSkewed | Pc::Straighten => self.repair(state, nth),
            Pc::Gone => self.gone(state, nth),
            Pc::InsertClock => self.place(state, nth),
            Pc::InsertDebt => self.insert_debt(state, nth),
            Pc::PartWithLoad | Pc::PartWith | Pc::PartWithHeader => self.leave_debt(state, nth),
            Pc::ClaimHeader | Pc::Claim | Pc::Rename | Pc::Commit | Pc::Publish => {
                return self.insert(state, nth);
            }
            Pc::AbandonName | Pc::AbandonWord => self.abandon(state, nth),
            Pc::ShareHeader | Pc::Share | Pc::ShareLook => return self.share(state, nth),
            Pc::Settle | Pc::SettleName | Pc::Settled => self.settle(state, nth),
            Pc::Hold | Pc::HoldName | Pc::RefundClock | Pc::MarkLoad | Pc::MarkMax | Pc::Lower => {
                self.refund(state, nth);
            }
            Pc::Widen | Pc::Split | Pc::SplitOverflow | Pc::SplitShare => self.split(state, nth),
            Pc::PartWord | Pc::PartName | Pc::PartOver | Pc::PartNameCas | Pc::PartWordCas => {
                self.part(state, nth);
            }
            Pc::SplitOver
            | Pc::ReceiveWord
            | Pc::ReceiveName
            | Pc::ReceiveRelease
            | Pc::SiblingOpen
            | Pc::Finish => {
                self.receive(state, nth);
            }
            Pc::VacateSeen | Pc::Vacate | Pc::VacateWord | Pc::Vacated => self.vacate(state, nth),
            _ => unreachable!("a thread that is done takes no step, and only a log has a ring"),
        }
        Ok(())
    }

    /// Reads the hint. Where it cannot change there is nothing to read.
    fn begin(self, state: &mut State, nth: usize) {
        let hint = state.hint;
        let thread = &mut state.threads[nth];
        thread.view = thread.op.key() & ((1 << hint) - 1);
        thread.at = thread.view;
        thread.pc = if thread.taken.is_some() { Pc::Home } else { Pc::Clock };
    }

    /// Ends the thread's operation.
    fn finish(self, state: &mut State, nth: usize) {
        let thread = &mut state.threads[nth];
        let next = self.scenario.threads.get(nth).and_then(|ops| ops.get(usize::from(thread.begun)));
        *thread = match next {
            Some(&op) => Thread { op, begun: thread.begun + 1, ..Thread::default() },
            None => Thread { pc: Pc::Done, ..Thread::default() },
        };
    }

    /// The caller is told yes: the key has been charged up to `charged`. Ends it, or goes on to
    /// give it back.
    fn admit(self, state: &mut State, nth: usize, charged: u8) -> Result<(), Fault> {
        let thread = state.threads[nth];
        if thread.log.refused {
            self.deny(state, nth);
            return Ok(());
        }
        // The units that a log admits are counted at once.
        if thread.paid && self.log().is_none() {
            self.credit(state, nth)?;
        }
        if matches!(thread.op, Op::Take(..)) {
            let decided = thread.log.decided;
            state.threads[nth] = Thread {
                op: thread.op,
                begun: thread.begun,
                taken: Some(Taken { charged, since: thread.now, decided, ..Taken::default() }),
                ..Thread::default()
            };
        } else {
            self.finish(state, nth);
        }
        Ok(())
    }

    /// Counts what the thread's request was admitted.
    fn credit(self, state: &mut State, nth: usize) -> Result<(), Fault> {
        let Thread { op, now, .. } = state.threads[nth];
        match self.scenario.rule {
            Rule::Log(_) => self.log().map_or(Ok(()), |log| log.credit(state, nth)),
            Rule::Bucket { full } => {
                let units = op.cost() * self.scenario.rule.unit();
                state.admitted[usize::from(op.key())][usize::from(now)] += units;
                self.is_within(state, op.key(), full)
            }
        }
    }

    /// Whether the key was admitted no more than one bucket gives, between any two moments.
    fn is_within(self, state: &State, key: Key, full: u8) -> Result<(), Fault> {
        let admitted = state.admitted[usize::from(key)];
        let full = u32::from(full);
        let times = self.scenario.times;
        let owing = self.scenario.slots.iter().find(|(owner, _)| *owner == key).map_or(0, |slot| slot.1);
        let owing = if state.forgiven[usize::from(key)] { 0 } else { owing };
        for first in 0..times.len() {
            let mut sum = 0;
            for last in first..times.len().min(MOMENTS) {
                sum += u32::from(admitted[last]);
                let from = if first == 0 { times[0].max(owing) } else { times[first] };
                if sum + u32::from(from) > full + u32::from(times[last]) {
                    return Err("a key was admitted more than its limit");
                }
            }
        }
        Ok(())
    }

    /// The caller is told no.
    fn deny(self, state: &mut State, nth: usize) {
        self.finish(state, nth);
    }

    /// What must hold once all threads are done.
    pub(crate) fn is_tidy(self, state: &State) -> Result<(), Fault> {
        let open = (0..BUCKETS).filter(|&number| state.buckets[number].header.level_of(number).is_some());
        let mut owners: Vec<Key> = Vec::new();
        for number in open {
            let bucket = state.buckets[number];
            if bucket.header.splitting {
                return Err("a split was not finished");
            }
            for (place, slot) in bucket.slots.into_iter().enumerate() {
                if slot.word.frozen {
                    return Err("a slot stayed frozen");
                }
                match slot.name {
                    Name::Emptied => return Err("a slot was not vacated"),
                    Name::Key(key) if owners.contains(&key) => return Err("a key has two slots"),
                    Name::Key(key) => owners.push(key),
                    // It is vacated when another key needs it.
                    name if self.has_left(bucket.header, number as u8, name) => {}
                    Name::Moved(_) => return Err("a key has not moved"),
                    // A key's may have the wrong parity, until another key wants its slot.
                    _ if !bucket.header.commits(place, slot.word) => {
                        return Err("a word at rest does not count");
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The slot's word becomes `to` if it is `from`.
    fn swap_word(state: &mut State, (bucket, place): (u8, u8), from: Word, to: Word) -> bool {
        let word = &mut state.buckets[usize::from(bucket)].slots[usize::from(place)].word;
        let swapped = *word == from;
        if swapped {
            *word = to;
        }
        swapped
    }

    /// The bucket's header becomes `to` if it is `from`.
    fn advance(
        state: &mut State,
        bucket: u8,
        from: crate::values::Header,
        to: crate::values::Header,
    ) -> bool {
        let header = &mut state.buckets[usize::from(bucket)].header;
        let advanced = *header == from;
        if advanced {
            *header = to;
        }
        advanced
    }

    // Giving back and forgiving: the two that lower a word.

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
