//! The search: depth first through every state that can be reached, each visited once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::machine::{Fault, Machine};
use crate::mutant::Mutant;
use crate::rule::UNIT;
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
    /// The first promise that was broken, and the steps that led to it.
    pub fault: Option<(String, String)>,
}

/// Steps that a thread may need when it runs alone.
const ALONE: usize = 1_000;

/// A state on the path, and which of its successors comes next.
struct Frame {
    state: State,
    digest: u64,
    next: usize,
}

/// Searches the scenario.
#[must_use]
pub fn search(scenario: &Scenario, mutant: Mutant) -> Outcome {
    let machine = Machine { scenario, mutant };
    let mut outcome = Outcome::default();
    // Whether a state is on the path.
    let mut seen: HashMap<u64, bool, BuildHasherDefault<Digested>> = HashMap::default();
    let first = State::new(scenario);
    let mut path = vec![Frame { digest: digest(&first), state: first, next: 0 }];
    seen.insert(path[0].digest, true);
    while let Some(frame) = path.last_mut() {
        let choice = frame.next;
        frame.next += 1;
        if choice == 0 && frame.state.is_over() {
            outcome.ends += 1;
            if let Err(fault) = ends_well(machine, &frame.state) {
                outcome.fault = Some((fault.into(), trace(&path, None)));
                break;
            }
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
            outcome.fault = Some((fault.into(), trace(&path, Some(&state))));
            break;
        }
        let digest = digest(&state);
        match seen.entry(digest) {
            Entry::Occupied(entry) if *entry.get() => {
                let fault = "a thread does not end: a state came back";
                outcome.fault = Some((fault.into(), trace(&path, Some(&state))));
                break;
            }
            Entry::Occupied(_) => {}
            Entry::Vacant(entry) => {
                entry.insert(true);
                path.push(Frame { state, digest, next: 0 });
                outcome.depth = outcome.depth.max(path.len());
            }
        }
    }
    outcome.states = seen.len();
    outcome
}

/// What must hold when all threads have ended, and what each key is told when it is asked for once more.
fn ends_well(machine: Machine<'_>, state: &State) -> Result<(), Fault> {
    machine.is_tidy(state)?;
    for key in machine.scenario.keys() {
        let mut state = state.clone();
        for _ in 0..=machine.scenario.rule.full / UNIT {
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
                bucket.overflow.payload
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
    memory
}

/// The state's hash.
fn digest(state: &State) -> u64 {
    let mut mixer = Mixer(0x9e37_79b9_7f4a_7c15);
    state.hash(&mut mixer);
    mixer.finish()
}

/// Multiplies and folds, eight bytes at a time.
struct Mixer(u64);

impl Mixer {
    fn add(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value).wrapping_mul(0xd6e8_feb8_6659_fd93_a5a3_564e_27f8_8665);
        self.0 = (product as u64) ^ ((product >> 64) as u64) ^ self.0.rotate_left(23);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.add(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.add(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.add(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.add(value as u64);
    }

    fn finish(&self) -> u64 {
        (self.0 ^ self.0 >> 29).wrapping_mul(0x9fb2_1c65_1e98_df25)
    }
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
