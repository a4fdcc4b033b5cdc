//! How does the cost grow from one key to a hundred million, and how many lines of memory do all threads move? Minutes, and
//! gigabytes: only by `--filter scale`.

use std::fs;

use crate::contest::{Asks, Contest};
use crate::floors;
use crate::keys;
use crate::limit::{Answer, HOT, MANY};
use crate::machine;
use crate::peers::{Task, batches, tollgate};
use crate::workloads::{Effort, Workload};

/// Part of the name of each, and what the filter must contain for any of them to run.
pub(super) const NAME: &str = "scale";

/// Checks a pass.
const ASKS: usize = 1_000_000;
/// The most keys: this power of ten.
const MOST: u32 = 8;
/// What all contestants and the list of keys take together, at most, in bytes a key.
const BYTES: usize = 150;
/// Lines of memory, each read and written once a pass: a gibibyte, which no cache holds.
const LINES: usize = 1 << 24;

pub(crate) fn workloads() -> Vec<Workload> {
    let powers =
        (0..=MOST).filter(|&power| available().is_none_or(|bytes| bytes / BYTES >= 10_usize.pow(power)));
    powers.map(many).chain([lines()]).collect()
}

fn many(power: u32) -> Workload {
    Workload::contest(format!("{NAME}, 10^{power} keys"), move |effort: Effort| {
        let keys = effort.keys(10_usize.pow(power));
        // A few keys are asked more often each than many, and owe something for as long.
        let task = Task::new(if keys < 1_000 { HOT } else { MANY }, keys);
        Contest {
            known: (0..keys as u64).collect(),
            asks: Asks::Other(Box::new(move |turn| keys::uniform_in(turn, keys, effort.asks(ASKS)))),
            turns: 1,
            answer: Answer::Allow,
            contestants: vec![tollgate(task), batches(task, 32), floors::line(keys)],
        }
    })
}

fn lines() -> Workload {
    let threads = machine::threads();
    Workload::contest(format!("{NAME}, lines of memory, {threads} threads"), move |effort: Effort| {
        let lines = effort.keys(LINES);
        Contest {
            known: vec![],
            asks: Asks::Same((0..lines as u64).collect()),
            turns: 1,
            answer: Answer::Allow,
            contestants: vec![floors::stream(lines).threads(threads)],
        }
    })
}

/// Bytes that can be had without pushing others out, where the system says it.
fn available() -> Option<usize> {
    let told = fs::read_to_string("/proc/meminfo").ok()?;
    let kib = told.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"))?;
    Some(kib.parse::<usize>().ok()? << 10)
}
