//! `tollgate replay --rules`: what each rule of a file would have decided.

mod counts;
mod decisions;
mod key_tallies;
mod outcome;
mod page;
mod table;

use std::path::Path;

use super::args::Args;
use super::outputs;
use crate::by_rules::{Judge, Requests, Trial, load};
use crate::failure::Failure;
use counts::Counts;
use decisions::Decisions;
use outcome::Outcome;
use table::Table;

/// Runs the command under a rules file.
///
/// # Errors
///
/// A rules file or a log that is unusable; output that cannot be written.
pub(super) fn run(args: &Args, file: &Path) -> Result<(), Failure> {
    args.reading.validate("replay --rules rules.toml")?;
    let rules = load(file)?;
    outputs::validate(args)?;
    let names = args.reading.names();
    // After all other checks, because this empties the file.
    let decisions = args.decisions.as_deref().map(|path| Decisions::create(path, &rules, &names));
    let mut decisions = decisions.transpose()?;
    let mut counts = Counts::new(&rules, args.report.is_some());
    let mut trial = Trial::new([rules], &args.log, &args.reading)?;

    let decide = |judge: &mut Judge, requests: &Requests| {
        requests.iter().try_for_each(|logged| {
            judge.decide(&logged, |judgement| {
                counts.add(&logged, judgement);
                let Some(decisions) = &mut decisions else { return Ok(()) };
                decisions.write(requests.at(logged.index), &logged, judgement)?;
                // A reader that follows a live log needs a decision before the next line is
                // written.
                if requests.is_last(logged.index) { decisions.flush() } else { Ok(()) }
            })
        })
    };
    let read = trial.read(&args.reading, [decide], |_, [written]| written)?;
    decisions.as_mut().map_or(Ok(()), Decisions::flush)?;
    // An empty log has no fields that could be missing.
    if counts.requests() > 0 {
        trial.log.check_mapped()?;
    }
    let outcome = Outcome {
        file: file.display().to_string(),
        judge: &trial.judges[0],
        log: &trial.log,
        counts: &counts,
        read: &read,
    };
    show(args, &outcome, &names)?;
    match &read.stopped {
        Some(why) => Err(Failure::Usage(format!("stopped early: {why}"))),
        None if read.is_unreadable() => Err(Failure::Usage("there is no request to decide".to_owned())),
        None => Ok(()),
    }
}

/// Prints the outcome, and on standard error the problems and notes.
fn show(args: &Args, outcome: &Outcome<'_>, names: &[String]) -> Result<(), Failure> {
    let notes = outcome.notes().into_iter().map(|note| format!("note: {note}"));
    outputs::show(
        args,
        || outcome.json(args.top),
        &Table { outcome, title: &args.reading.title(), top: args.top },
        |path| page::write(path, outcome, args.top),
        outcome.read.problems(names).into_iter().chain(notes),
    )
}
