//! The memory of servers with ten million live keys.

use crate::error::BenchError;

use super::load::Load;
use super::servers::{Kind, Servers};

/// How much of redis-cell's memory ours may be.
const AT_MOST: f64 = 0.25;

/// Each key stays in debt for a day, so that none is forgotten during the run.
const COMMAND: &[&str] = &["CL.THROTTLE", "k:__rand_int__", "10", "1", "86400"];

/// Loads servers with ten million keys and prints what memory they have then. Returns whether the
/// target is met.
pub(super) fn measure(servers: &Servers) -> Result<bool, BenchError> {
    println!("## Memory with ten million keys in debt\n");
    println!("| | resident | tollgate divided by it | at most |");
    println!("|---|---|---|---|");
    let mut ours = None;
    let mut is_met = true;
    for (title, kind, at_most) in
        [("tollgate", Kind::Tollgate, None), ("redis-cell", Kind::RedisCell, Some(AT_MOST))]
    {
        if !servers.has(kind) {
            continue;
        }
        eprintln!("memory of {title}");
        let server = servers.start(kind).map_err(BenchError::Tool)?;
        Load::Keys { command: COMMAND }.run(&server).map_err(BenchError::Tool)?;
        let resident = server.process.resident().map_err(BenchError::Tool)? as f64;
        let ratio = *ours.get_or_insert(resident) / resident;
        let target = at_most.map_or(String::new(), |at_most| {
            is_met &= ratio <= at_most;
            format!("{at_most}, {}", if ratio <= at_most { "met" } else { "missed" })
        });
        println!("| {title} | {:.0} MiB | {ratio:.2} | {target} |", resident / f64::from(1 << 20));
    }
    println!();
    Ok(is_met)
}
