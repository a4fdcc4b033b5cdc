//! The memory of servers with many live keys.

use crate::error::BenchError;

use super::commands::fill;
use super::servers::{Kind, Servers};
use super::summary::{Row, Summary};

/// How much of redis-cell's memory ours may be.
const AT_MOST: f64 = 0.25;

/// Loads servers with so many keys and prints what memory they have then.
pub(super) fn measure(servers: &Servers, keys: u64, summary: &mut Summary) -> Result<(), BenchError> {
    println!("## Memory with {keys} keys in debt\n");
    println!("| | resident | tollgate divided by it |");
    println!("|---|---|---|");
    let mut ours = None;
    for (title, kind, at_most) in
        [("tollgate", Kind::Tollgate, None), ("redis-cell", Kind::RedisCell, Some(AT_MOST))]
    {
        if !servers.has(kind) {
            continue;
        }
        eprintln!("memory of {title}");
        let server = servers.start(kind).map_err(BenchError::Tool)?;
        fill(&server, keys).map_err(BenchError::Tool)?;
        let resident = server.process.resident().map_err(BenchError::Tool)? as f64;
        let ratio = *ours.get_or_insert(resident) / resident;
        println!("| {title} | {:.0} MiB | {ratio:.2} |", resident / f64::from(1 << 20));
        if let Some(at_most) = at_most {
            let what = format!("memory with {keys} live keys, by redis-cell's");
            summary.add(Row { what, figure: ratio, at_most, unit: "", note: String::new() });
        }
    }
    println!();
    Ok(())
}
