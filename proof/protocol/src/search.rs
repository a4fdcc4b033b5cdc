//! The search: depth first through every state that can be reached, each visited once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write;
use std::hash::{BuildHasherDefault, Hasher};

use crate::digest::digest;
use crate::machine::{Fault, Machine};
use crate::mutant::Mutant;
use crate::ring::{self, Ring};
use crate::scenario::{Op, Scenario};
use crate::state::{Pc, State, THREADS, Thread};

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// States visited.
    pub states: usize,
    /// States in which all threads had ended.
    pub ends: usize,
    /// Steps on the longest path.
    pub depth: usize,
    /// The most steps seen in a row of which none ended an operation. There may be more: each state
    /// is visited once.
    pub streak: usize,
    /// The promises that were broken, each with the steps that led to it first.
    pub faults: Vec<(&'static str, String)>,
}

impl Outcome {
    fn blame(&mut self, fault: Fault, path: &[Frame], last: Option<&State>) {
        if self.faults.iter().all(|(known, _)| *known != fault) {
            self.faults.push((fault, trace(path, last)));
        }
    }

    /// The first broken promise that the scenario does not know the protocol itself to break.
    #[must_use]
    pub fn news(&self, scenario: &Scenario) -> Option<&'static str> {
        self.faults.iter().map(|(fault, _)| *fault).find(|fault| !scenario.known.contains(fault))
    }
}

/// Steps in a row, of all threads together, of which none ends an operation: more are too many.
const VAIN: usize = 200;

/// Steps that a thread may need when it runs alone.
const ALONE: usize = 1_000;

/// A mutant that was not caught in so many states is not caught.
const MUTANT_STATES: usize = 1_500_000;

/// A state on the path, and which of its successors comes next.
struct Frame {
    state: State,
    digest: u64,
    next: usize,
    streak: usize,
}

/// Searches the scenario: all of it for the protocol itself; for a mutant up to its first new
/// fault, or 1.5 million states.
#[must_use]
pub fn search(scenario: &Scenario, mutant: Mutant) -> Outcome {
    let machine = Machine { scenario, mutant };
    let mut outcome = Outcome::default();
    // Whether a state is on the path.
    let mut seen: HashMap<u64, bool, BuildHasherDefault<Digested>> = HashMap::default();
    let first = State::new(scenario);
    let mut path = vec![Frame { digest: digest(&first), state: first, next: 0, streak: 0 }];
    seen.insert(path[0].digest, true);
    while mutant == Mutant::None || outcome.news(scenario).is_none() && seen.len() < MUTANT_STATES {
        let Some(frame) = path.last_mut() else { break };
        let choice = frame.next;
        frame.next += 1;
        if choice == 0 && frame.state.is_over() {
            outcome.ends += 1;
            if let Err(fault) = ends_well(machine, &frame.state) {
                outcome.blame(fault, &path, None);
            }
            continue;
        }
        if choice > THREADS {
            seen.insert(frame.digest, false);
            path.pop();
            continue;
        }
        let mut state = frame.state.clone();
        let stepped = match choice {
            THREADS => {
                if state.is_over() || !machine.tick(&mut state) {
                    continue;
                }
                Ok(())
            }
            _ if state.threads[choice].pc == Pc::Done => continue,
            _ => machine.step(&mut state, choice),
        };
        if let Err(fault) = stepped {
            outcome.blame(fault, &path, Some(&state));
            continue;
        }
        let digest = digest(&state);
        match seen.entry(digest) {
            Entry::Occupied(entry) if *entry.get() => {
                outcome.blame("a thread does not end: a state came back", &path, Some(&state));
            }
            Entry::Occupied(_) => {}
            Entry::Vacant(entry) => {
                entry.insert(true);
                let ended =
                    choice < THREADS && state.threads[choice].begun != frame.state.threads[choice].begun;
                let streak = if ended { 0 } else { frame.streak + usize::from(choice < THREADS) };
                outcome.streak = outcome.streak.max(streak);
                if streak > VAIN {
                    outcome.blame("attempts in vain do not come to an end soon", &path, Some(&state));
                }
                path.push(Frame { state, digest, next: 0, streak });
                outcome.depth = outcome.depth.max(path.len());
            }
        }
    }
    outcome.states = seen.len();
    outcome
}

/// What must hold when all threads have ended, and what each key is told when it is asked for once
/// more.
fn ends_well(machine: Machine<'_>, state: &State) -> Result<(), Fault> {
    machine.is_tidy(state)?;
    for key in machine.scenario.keys() {
        let mut state = state.clone();
        for _ in 0..=machine.scenario.rule.limit() {
            state.threads[0] = Thread { op: Op::Check(key, 1), begun: u8::MAX, ..Thread::default() };
            for _ in 0..ALONE {
                if state.threads[0].pc != Pc::Done {
                    machine.step(&mut state, 0)?;
                }
            }
            if state.threads[0].pc != Pc::Done {
                return Err("a check alone does not end");
            }
        }
    }
    Ok(())
}

/// Who moved, one line a step, and what the memory was then.
fn trace(path: &[Frame], last: Option<&State>) -> String {
    let mut trace = String::new();
    for frame in path {
        let mover = frame.next - 1;
        let moves = match mover {
            THREADS => format!("clock to {}", frame.state.clock + 1),
            _ => {
                let thread = &frame.state.threads[mover];
                format!("thread {mover} {:?} {:?} at bucket {}", thread.op, thread.pc, thread.at)
            }
        };
        let _ = writeln!(trace, "{moves:48} before: {}", memory(&frame.state));
    }
    if let Some(state) = last {
        let _ = writeln!(trace, "{:48}  after: {}", "", memory(state));
    }
    trace
}

fn memory(state: &State) -> String {
    let mut memory = String::new();
    for (number, bucket) in state.buckets.iter().enumerate() {
        if number == 0 || bucket != &Default::default() {
            let header = bucket.header;
            let _ = write!(
                memory,
                "[{number}: level {}{} parity {:?} overflow {}",
                header.level,
                if header.splitting { " splitting" } else { "" },
                header.parity.map(u8::from),
                bucket.overflow
            );
            for slot in bucket.slots {
                let word = slot.word;
                let frozen = if word.frozen { "!" } else { "" };
                let _ =
                    write!(memory, " | {:?} {frozen}{}/{}", slot.name, word.payload, u8::from(word.parity));
            }
            memory.push(']');
        }
    }
    for ring in state.rings.iter().filter(|ring| **ring != Ring::default()) {
        let entry = |entry: &ring::Entry| {
            let live = if entry.live { "!" } else { "" };
            format!("{}{live}/{}", i16::from(entry.when) - 1, u8::from(entry.lap))
        };
        let _ = write!(memory, " ring {}", ring.each_ref().map(entry).join(" "));
    }
    memory
}

/// A hash that needs no hashing.
#[derive(Default)]
struct Digested(u64);

impl Hasher for Digested {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only digests are kept")
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
