//! `cargo xtask mutate-orderings`: weakens each ordering of the engine; each time a loom model must
//! fail.
//!
//! `ledger` finds the orderings and the edges that they cite, `copy` makes a tree in which any of
//! them can be weakened when a model starts (so a single build suffices), `models` runs the loom
//! models, `hunt` tries all weakenings, and `table` reads the results in the documentation.

mod copy;
mod hunt;
mod ledger;
mod models;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use ledger::{Ledger, Weakening};

/// The options of the command.
#[derive(Default)]
struct Options {
    only: Option<String>,
    list: bool,
    limit: Option<u64>,
}

pub(crate) fn run(words: &[&str]) -> Result<ExitCode, String> {
    let options = options(words)?;
    let ledger =
        Ledger::read(crate::root()).map_err(|error| format!("the sources cannot be read: {error}"))?;
    let offences = ledger.offences();
    if !offences.is_empty() {
        return Err(offences.join("\n"));
    }
    let mut weakenings = ledger.weakenings();
    weakenings
        .retain(|weakening| options.only.as_ref().is_none_or(|edge| weakening.site.edges.contains(edge)));
    if weakenings.is_empty() {
        return Err(format!("no ordering cites {}", options.only.unwrap_or_default()));
    }
    if options.list {
        weakenings.iter().map(Weakening::row).for_each(|row| println!("{row}"));
        return Ok(ExitCode::SUCCESS);
    }
    hunt::run(&ledger, &weakenings, Duration::from_secs(options.limit.unwrap_or(30)))
}

fn options(words: &[&str]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match (*word, word) {
            ("--list", _) => options.list = true,
            ("--only", _) => options.only = Some(words.next().ok_or("--only needs an edge")?.to_string()),
            ("--limit", _) => {
                let seconds = words.next().and_then(|seconds| seconds.parse().ok());
                options.limit = Some(seconds.ok_or("--limit needs a number of seconds")?);
            }
            (_, unknown) => return Err(format!("mutate-orderings does not know {unknown}")),
        }
    }
    Ok(options)
}
