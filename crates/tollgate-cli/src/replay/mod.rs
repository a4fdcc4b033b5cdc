//! `tollgate replay`: decides every request of a log by its own timestamps.
//!
//! ```text
//!   ingest (other threads) --> record --> time --> gate --> counts --> outcome: json, table, page
//!                                                   |
//!                                                   +--> decisions, one line each
//! ```
//!
//! All decisions are taken on one thread in the order of the log, by the very engine that a server would use.

mod answer;
mod args;
mod course;
mod decisions;
mod gate;
mod held;
mod limit;
mod outcome;
mod outputs;
mod overflow;
mod page;
mod state;
mod table;
mod tallies;
mod watched;

use std::cell::OnceCell;
use std::io::{self, Write};
use std::ops::ControlFlow;

use crate::demo;
use crate::failure::{Failure, say};
use crate::ingest::Record;
pub(crate) use args::Args;
use course::Course;
use decisions::Decisions;
use gate::Gate;
use limit::Limit;
pub(crate) use outcome::GivenBack;
use outcome::{Counts, Outcome};
use state::Saved;
use table::Table;
pub(crate) use watched::watched;

/// Runs the command.
///
/// # Errors
///
/// A limit or a file that is unusable; output that cannot be written.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    args.reading.judge("replay --limit token-bucket:60/min,burst=20")?;
    let limits = args.limits()?;
    let names = args.reading.names();
    let specs: Vec<String> = limits.iter().map(Limit::to_string).collect();
    let saved = args.restore.as_deref().map(Saved::open).transpose()?;
    outputs::judge(args)?;
    // Last, because it empties the file.
    let decisions =
        args.decisions.as_deref().map(|path| Decisions::create(path, &specs, &names)).transpose()?;
    let gate = OnceCell::new();
    let counts = Counts::new(args.report.is_some());
    let mut course = Course::new(&limits, saved.as_ref(), &gate, &names, counts, decisions);

    let mut failure = None;
    let mut step = |record: Record<'_>| {
        course.step(&record)?;
        // Whoever follows a log wants its decisions now, not when a buffer is full.
        if record.is_last { course.flush() } else { Ok(()) }
    };
    let read = args.reading.each(|record| match step(record) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failure = Some(error);
            ControlFlow::Break(())
        }
    })?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    course.flush()?;

    let overflows = gate.get().map(Gate::overflows).unwrap_or_default();
    let outcome = Outcome { counts: course.counts, read, limits: specs, overflows };
    // The state first: it counts whether or not anybody reads the result to its end.
    let saved = save(args, gate.get(), &outcome);
    let shown = show(args, &outcome, &names);
    saved.and(shown)
}

/// Writes the state, if it was asked for and everything was read.
fn save(args: &Args, gate: Option<&Gate>, outcome: &Outcome) -> Result<(), Failure> {
    if let Some(why) = &outcome.read.stopped {
        return Err(Failure::Usage(format!("stopped early: {why}")));
    }
    let Some(path) = &args.save else { return Ok(()) };
    match (gate, outcome.counts.time.span()) {
        (Some(gate), Some((_, last))) => state::save(path, gate, last),
        _ => Err(Failure::Usage(format!(
            "no request was read, so there is nothing to save: {} is as it was",
            path.display()
        ))),
    }
}

/// Prints the outcome, and on standard error what to know about it.
fn show(args: &Args, outcome: &Outcome, names: &[String]) -> Result<(), Failure> {
    let text = if args.json {
        format!("{}\n", outcome.json(args.top))
    } else {
        let story = if args.reading.is_demo() { story() } else { String::new() };
        format!("{story}{}", Table { outcome, title: &args.reading.title(), top: args.top })
    };
    if args.decisions_on_stdout() {
        // Standard output belongs to the decisions.
        let _ = io::stderr().write_all(text.as_bytes());
    } else {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::writing("the result"))?;
    }
    if let Some(path) = &args.report {
        page::write(path, outcome, args.top)?;
    }
    for trouble in outcome.read.troubles(names) {
        say(&trouble);
    }
    for warning in outcome.warnings() {
        say(&format!("warning: {warning}"));
    }
    if !args.json && args.report.is_none() && args.reading.is_demo() {
        say(
            "\nSee it drawn: add --report demo.html. Try your own log: tollgate replay access.log --limit ...",
        );
    }
    Ok(())
}

/// Who is who in the made-up day.
fn story() -> String {
    demo::story().iter().map(|line| format!("  - {line}\n")).collect::<String>() + "\n"
}
