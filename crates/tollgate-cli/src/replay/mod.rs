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
mod decisions;
mod gate;
mod limit;
mod outcome;
mod overflow;
mod page;
mod table;
mod tallies;

use std::io::{self, Write};
use std::ops::ControlFlow;

use crate::demo;
use crate::failure::{Failure, say};
use crate::ingest::{Op, Record};
pub(crate) use args::Args;
use decisions::Decisions;
use gate::Gate;
use limit::Limit;
use outcome::{Counts, Outcome};
use table::Table;

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
    let decisions =
        args.decisions.as_deref().map(|path| Decisions::create(path, &specs, &names)).transpose()?;
    let mut replay =
        Replay { limits: &limits, gate: None, counts: Counts::new(args.report.is_some()), decisions };

    let mut failure = None;
    let mut step = |record: Record<'_>| {
        replay.decide(&record)?;
        // Whoever follows a log wants its decisions now, not when a buffer is full.
        if record.is_last { replay.flush() } else { Ok(()) }
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
    replay.flush()?;

    let overflows = replay.gate.as_ref().map(Gate::overflows).unwrap_or_default();
    let outcome = Outcome { counts: replay.counts, read, limits: specs, overflows };
    show(args, &outcome, &names)?;
    match &outcome.read.stopped {
        None => Ok(()),
        Some(why) => Err(Failure::Usage(format!("stopped early: {why}"))),
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

/// A replay under way.
struct Replay<'a> {
    limits: &'a [Limit],
    /// In force from the first record on.
    gate: Option<Gate>,
    counts: Counts,
    decisions: Option<Decisions>,
}

impl Replay<'_> {
    #[inline]
    fn decide(&mut self, record: &Record<'_>) -> Result<(), Failure> {
        let t_ns = self.counts.time.decided_at(record.t_ns);
        let gate = match &mut self.gate {
            Some(gate) => gate,
            None => {
                let gate =
                    Gate::open(self.limits, t_ns).map_err(|error| Failure::Usage(error.to_string()))?;
                self.gate.insert(gate)
            }
        };
        if record.op == Op::Reset {
            gate.reset(record.key, t_ns);
            return Ok(());
        }
        let allowed = match &mut self.decisions {
            None if record.op == Op::Peek => return Ok(()),
            None => gate.admit(record.key, record.cost, t_ns),
            Some(decisions) => {
                let verdict = match record.op {
                    Op::Peek => gate.peek(record.key, record.cost, t_ns),
                    _ => gate.check(record.key, record.cost, t_ns),
                };
                let answer = verdict.answer();
                decisions.write(record, t_ns, &answer)?;
                answer.allowed
            }
        };
        if record.op == Op::Check {
            self.counts.add(record.key, t_ns, allowed);
        }
        Ok(())
    }

    /// Writes out the decisions that are held back.
    fn flush(&mut self) -> Result<(), Failure> {
        self.decisions.as_mut().map_or(Ok(()), Decisions::flush)
    }
}
