//! `tollgate replay`: decides every request of a log by its own timestamps.
//!
//! ```text
//!   logs (other threads) -> record -> time -> limiter -> counts -> outcome: json, table, page
//!                                                 |
//!                                                 +-> decisions, one line each
//! ```
//!
//! One thread decides all records in the order of the log, with the engine that a server uses.

mod answer;
mod args;
mod decisions;
mod in_memory;
mod limit;
mod limiter;
mod lines;
mod outcome;
mod outputs;
mod outstanding;
mod overflow;
mod page;
mod rules;
mod simulation;
mod state;
mod table;
mod tallies;

use std::cell::OnceCell;

use crate::failure::Failure;
use crate::note::print_note;
pub(crate) use args::Args;
use decisions::Decisions;
pub(crate) use in_memory::in_memory;
use limit::Limit;
use limiter::ReplayLimiter;
pub(crate) use outcome::GivenBack;
use outcome::{Counts, Outcome};
use simulation::Simulation;
use state::Saved;
use table::Table;

/// Runs the command.
///
/// # Errors
///
/// A limit or a file that is unusable; output that cannot be written.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(file) = args.rules()? {
        return rules::run(args, file);
    }
    args.reading.validate("replay --limit token-bucket:60/min,burst=20")?;
    let limits = args.limits()?;
    let names = args.reading.names();
    let specs: Vec<String> = limits.iter().map(Limit::to_string).collect();
    let saved = args.restore.as_deref().map(Saved::open).transpose()?;
    outputs::validate(args)?;
    // After all other checks, because this empties the file.
    let decisions =
        args.decisions.as_deref().map(|path| Decisions::create(path, &specs, &names)).transpose()?;
    let limiter = OnceCell::new();
    let counts = Counts::new(args.report.is_some());
    let mut simulation = Simulation::new(&limits, saved.as_ref(), &limiter, &names, counts, decisions);

    let read = args.reading.each(|record| {
        simulation.step(&record)?;
        // A reader that follows a live log needs each decision before the next line is written.
        if record.is_last { simulation.flush() } else { Ok(()) }
    })?;
    simulation.flush()?;

    let overflows = limiter.get().map(ReplayLimiter::overflows).unwrap_or_default();
    let outcome = Outcome { counts: simulation.counts, read, limits: specs, overflows };
    // Save first: a reader that closes the output must not prevent it.
    let saved = save(args, limiter.get(), &outcome);
    saved.and(show(args, &outcome, &names))
}

/// Writes the state, if it was asked for and everything was read.
///
/// # Errors
///
/// Reading that stopped early, or found no line that it could read; a file that cannot be written.
fn save(args: &Args, limiter: Option<&ReplayLimiter>, outcome: &Outcome) -> Result<(), Failure> {
    if let Some(why) = &outcome.read.stopped {
        return Err(Failure::Usage(format!("stopped early: {why}")));
    }
    if outcome.read.is_unreadable() {
        return Err(Failure::Usage("there is no request to decide".to_owned()));
    }
    let Some(path) = &args.save else { return Ok(()) };
    match (limiter, outcome.counts.time.span()) {
        (Some(limiter), Some((_, last))) => state::save(path, limiter, last),
        _ => Err(Failure::Usage(format!(
            "no request was read, so there is nothing to save: {} is as it was",
            path.display()
        ))),
    }
}

/// Prints the outcome, and on standard error the problems and warnings.
fn show(args: &Args, outcome: &Outcome, names: &[String]) -> Result<(), Failure> {
    let warnings = outcome.warnings().into_iter().map(|warning| format!("warning: {warning}"));
    outputs::show(
        args,
        || outcome.json(args.top),
        &Table { outcome, title: &args.reading.title(), top: args.top },
        |path| page::write(path, outcome, args.top),
        outcome.read.problems(names).into_iter().chain(warnings),
    )?;
    if !args.json && args.report.is_none() && args.reading.is_demo() {
        print_note(
            "\nFor a page with charts add --report demo.html. For your own log: tollgate replay access.log --limit ...",
        );
    }
    Ok(())
}
