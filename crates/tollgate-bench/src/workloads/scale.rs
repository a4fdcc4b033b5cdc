//! The cost of a check by the number of keys, from one to a hundred million, and the bandwidth of
//! memory. These workloads take minutes and gigabytes, and run only with `--filter scale`.

use std::fs;

use crate::contest::{Contest, TurnKeys};
use crate::floors;
use crate::keys;
use crate::limit::{Expected, HOT, MANY};
use crate::machine;
use crate::peers::{Task, batches, tollgate};
use crate::workloads::{Effort, Workload};

/// A part of each name. The filter must contain it for these workloads to run.
pub(super) const NAME: &str = "scale";

/// The checks in a pass.
const CHECKS: usize = 1_000_000;
/// The most keys, as a power of ten.
const MAX_POWER: u32 = 8;
/// The most bytes that all contestants and the list of keys take for each key.
const BYTES_A_KEY: usize = 150;
/// The lines of memory, each read and written once a pass. Their gibibyte exceeds all caches.
const LINES: usize = 1 << 24;

pub(crate) fn workloads() -> Vec<Workload> {
    let powers = (0..=MAX_POWER)
        .filter(|&power| available().is_none_or(|bytes| bytes / BYTES_A_KEY >= 10_usize.pow(power)));
    powers.map(many).chain([lines()]).collect()
}

fn many(power: u32) -> Workload {
    Workload::contest(format!("{NAME}, 10^{power} keys"), move |effort: Effort| {
        let keys = effort.keys(10_usize.pow(power));
        // A few keys get more checks each, so their limit may refill faster.
        let task = Task::new(if keys < 1_000 { HOT } else { MANY }, keys);
        Contest {
            warm_up: (0..keys as u64).collect(),
            turn_keys: TurnKeys::Other(Box::new(move |turn| {
                keys::uniform_in(turn, keys, effort.checks(CHECKS))
            })),
            turns: 1,
            expected: Expected::Allowed,
            contestants: vec![tollgate(task), batches(task, 32), floors::line(keys)],
        }
    })
}

fn lines() -> Workload {
    let threads = machine::threads();
    Workload::contest(format!("{NAME}, lines of memory, {threads} threads"), move |effort: Effort| {
        let lines = effort.keys(LINES);
        Contest {
            warm_up: vec![],
            turn_keys: TurnKeys::Same((0..lines as u64).collect()),
            turns: 1,
            expected: Expected::Allowed,
            contestants: vec![floors::stream(lines).threads(threads)],
        }
    })
}

/// Returns the available memory in bytes, if the system tells.
fn available() -> Option<usize> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let kib =
        meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"))?;
    Some(kib.parse::<usize>().ok()? << 10)
}
