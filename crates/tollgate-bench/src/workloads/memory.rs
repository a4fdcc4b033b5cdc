//! The memory of a key: the growth of a child process's resident memory, divided by the keys.

use std::env;
use std::fs;
use std::process::{Command, Stdio};

use crate::error::BenchError;
use crate::limit::MANY;
use crate::measure::{Outcome, Score, Unit};
use crate::peers::{Task, exact};
use crate::workloads::{Effort, Workload};

pub(crate) fn workloads() -> Vec<Workload> {
    // Only Linux tells the resident memory.
    if !cfg!(target_os = "linux") {
        return Vec::new();
    }
    vec![memory("1M keys, memory", 1_000_000), memory("10M keys, memory", 10_000_000)]
}

fn memory(name: &'static str, keys: usize) -> Workload {
    let run = move |effort: Effort, tick: &mut dyn FnMut()| {
        let keys = effort.keys(keys);
        let mut scores = Vec::new();
        for contestant in exact::<u64>(Task::new(MANY, keys)) {
            let mut score = Score::new(&contestant.name, false);
            let bytes = measure_in_child(&contestant.name, keys)?;
            score.add(bytes as f64 / keys as f64, keys, keys);
            scores.push(score);
        }
        // Other processes do not affect memory, so one pass suffices.
        (0..effort.passes).for_each(|_| tick());
        Ok(Outcome { workload: name.to_owned(), unit: Unit::BytesAKey, scores })
    };
    Workload { name: name.to_owned(), unit: Unit::BytesAKey, run: Box::new(run) }
}

/// Measures a contestant in a child process.
fn measure_in_child(name: &str, keys: usize) -> Result<usize, BenchError> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["--resident-of", name, "--keys", &keys.to_string()]).stderr(Stdio::inherit());
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| BenchError::Child(format!("{name}: {}", output.status)))
}

/// Returns the resident bytes of a contestant with `keys` keys, each in debt.
pub(crate) fn resident_of(name: &str, keys: usize) -> Result<usize, BenchError> {
    let contestants = exact::<u64>(Task::new(MANY, keys));
    let contestant = contestants.into_iter().find(|contestant| contestant.name == name);
    let contestant = contestant.ok_or_else(|| BenchError::Child(format!("there is no contestant {name}")))?;
    let before = resident()?;
    let limiter = (contestant.make)();
    let admitted = (0..keys as u64).filter(|key| limiter.admit(key)).count();
    if admitted != keys {
        let (workload, contestant) = ("memory".to_owned(), contestant.name);
        return Err(BenchError::WrongAnswers {
            workload,
            contestant,
            admitted,
            expected: keys,
            checks: keys,
        });
    }
    Ok(resident()?.saturating_sub(before))
}

/// Returns the resident bytes of this process.
fn resident() -> Result<usize, BenchError> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    kib.map(|kib: usize| kib << 10)
        .ok_or_else(|| BenchError::Child("/proc/self/status has no VmRSS".to_owned()))
}
