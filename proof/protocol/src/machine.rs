//! The threads' steps: each is one access to the memory, with the thinking that follows it.
//!
//! `recycle` is how a check begins: by fingerprints, and by the short way of an insertion. `way`
//! finds the bucket and the slot, `charge` charges, `log` reads and writes rings, `insert` enters
//! new keys, `refund` gives back and forgives, `growth` splits. Every step is named after
//! what `src/table` calls it.

mod charge;
mod growth;
mod insert;
mod log;
mod recycle;
mod refund;
mod way;

use crate::mutant::Mutant;
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

impl Machine<'_> {
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
            return self.ringed(log, state, nth);
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
            Rule::Log(_) => self.credit_log(state, nth),
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
}
