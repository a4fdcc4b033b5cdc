//! How many bytes does a key take? What is resident in a process of its own, after less before, by the keys.

use std::env;
use std::fs;
use std::process::{Command, Stdio};

use crate::fault::Fault;
use crate::limit::MANY;
use crate::measure::{Outcome, Score, Unit};
use crate::peers::{Task, exact};
use crate::workloads::{Effort, Workload};

pub(crate) fn workloads() -> Vec<Workload> {
    // Elsewhere nobody says how much is resident.
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
            let bytes = child(&contestant.name, keys)?;
            score.add(bytes as f64 / keys as f64, keys, keys);
            scores.push(score);
        }
        // Memory does not depend on the neighbours: one pass is enough.
        (0..effort.passes).for_each(|_| tick());
        Ok(Outcome { workload: name.to_owned(), unit: Unit::BytesAKey, scores })
    };
    Workload { name: name.to_owned(), unit: Unit::BytesAKey, run: Box::new(run) }
}

/// What a process of its own says about a contestant.
fn child(name: &str, keys: usize) -> Result<usize, Fault> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["--resident-of", name, "--keys", &keys.to_string()]).stderr(Stdio::inherit());
    let output = command.output()?;
    let told = String::from_utf8_lossy(&output.stdout);
    told.trim().parse().map_err(|_| Fault::Child(format!("{name}: {}", output.status)))
}

/// Bytes that so many keys take, each asked once, and each owing until the end.
pub(crate) fn resident_of(name: &str, keys: usize) -> Result<usize, Fault> {
    let contestants = exact::<u64>(Task::new(MANY, keys));
    let contestant = contestants.into_iter().find(|contestant| contestant.name == name);
    let contestant = contestant.ok_or_else(|| Fault::Child(format!("nobody is called {name}")))?;
    let before = resident()?;
    let limiter = (contestant.make)();
    let admitted = (0..keys as u64).filter(|key| limiter.admits(key)).count();
    if admitted != keys {
        let (workload, contestant) = ("memory".to_owned(), contestant.name);
        return Err(Fault::Answered { workload, contestant, admitted, expected: keys, asked: keys });
    }
    Ok(resident()?.saturating_sub(before))
}

/// Bytes of this process that are in memory.
fn resident() -> Result<usize, Fault> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    kib.map(|kib: usize| kib << 10).ok_or_else(|| Fault::Child("/proc/self/status has no VmRSS".to_owned()))
}
