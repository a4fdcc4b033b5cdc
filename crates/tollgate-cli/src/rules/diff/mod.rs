//! `tollgate rules diff`: what a change of rules changes.

mod changes;
mod outcome;
mod plan;
mod side;

use std::path::PathBuf;
use std::str::FromStr;

use crate::by_rules::{Judge, LogArgs, Requests, Trial, load, path};
use crate::failure::Failure;
use crate::note::print_note;
use crate::output::print_result;
use crate::reading::Reading;
use crate::report::figures::{grouped, percent};
use crate::share::Share;
use changes::Changes;
use outcome::Outcome;
use side::Side;

/// Two rules files, and a log that shows the difference.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The rules before the change
    #[arg(value_name = "OLD", value_parser = path)]
    #[arg(conflicts_with_all = ["key", "ipv6_prefix", "cost_field"])]
    old: PathBuf,

    /// The rules after it
    #[arg(value_name = "NEW", value_parser = path)]
    new: PathBuf,

    #[command(flatten)]
    reading: Reading,

    #[command(flatten)]
    log: LogArgs,

    /// Exit with code 1 if more requests are newly refused or newly admitted than this share:
    /// newly-refused=0.1%
    #[arg(long, value_name = "WHAT=SHARE", help_heading = "Rules")]
    fail_on: Vec<FailOn>,

    /// Print one JSON object instead of text
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// How many keys to list
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Output")]
    top: usize,
}

pub(crate) const AFTER: &str = "\
With a log, every request is decided by both files at its arrival: who is newly
refused, who newly admitted, by rule and by key, with the first lines. A request
that several rules refuse counts for each of them. Rules that ask for what the
log lacks are not decided (see `tollgate replay --help`).

Without a log: which numbers change, and what a server that reloads the file
would keep of the debts of keys, or have to forget.

Exit codes:
  0  the files could be compared
  1  more than --fail-on permits
  2  a file is unusable

Examples:
  tollgate rules diff old.toml new.toml
  tollgate rules diff old.toml new.toml access.log
  tollgate rules diff old.toml new.toml access.log --fail-on newly-refused=0.1%";

/// A share that must not be exceeded.
#[derive(Debug, Clone)]
struct FailOn {
    is_refused: bool,
    share: Share,
}

impl FromStr for FailOn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not newly-refused=SHARE or newly-admitted=SHARE");
        let (what, share) = text.split_once('=').ok_or_else(wrong)?;
        let is_refused = match what {
            "newly-refused" => true,
            "newly-admitted" => false,
            _ => return Err(wrong()),
        };
        Ok(Self { is_refused, share: share.parse()? })
    }
}

/// Runs the subcommand.
///
/// # Errors
///
/// A file that is unusable, output that cannot be written, a share of `--fail-on` that is exceeded.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let rules = [load(&args.old)?, load(&args.new)?];
    let files = [args.old.display().to_string(), args.new.display().to_string()];
    if args.reading.is_nothing() {
        let given = args.log.given();
        if let Some(option) = given.or_else(|| (!args.fail_on.is_empty()).then_some("--fail-on")) {
            return Err(Failure::Usage(format!("{option} needs a log: name one behind the two rules files")));
        }
        let plan = plan::plan(&rules[0], &rules[1])?;
        let text =
            if args.json { format!("{}\n", plan::json(&plan, &files)) } else { plan::text(&plan, &files) };
        return print_result(&text);
    }
    args.reading.validate("rules diff old.toml new.toml")?;

    let mut changes = Changes::new([rules[0].rules.len(), rules[1].rules.len()]);
    let mut trial = Trial::new(rules, &args.log, &args.reading)?;
    let decide = |judge: &mut Judge, requests: &Requests| Ok(Side::of(judge, requests));
    let read = trial.read(&args.reading, [decide; 2], |requests, [old, new]| {
        let (old, new) = (old?, new?);
        for (index, (old, new)) in old.decisions().zip(new.decisions()).enumerate() {
            changes.add(|| requests.at(index), old, new);
        }
        Ok(())
    })?;
    let names = args.reading.names();
    read.problems(&names).iter().for_each(|problem| print_note(problem));
    if let Some(why) = read.stopped {
        return Err(Failure::Usage(format!("stopped early: {why}")));
    }
    if changes.requests() == 0 {
        return Err(Failure::Usage("there is no request to decide".to_owned()));
    }
    trial.log.check_mapped()?;

    let outcome = Outcome { files: &files, trial: &trial, changes: &changes, sources: &names, top: args.top };
    let text = if args.json { format!("{}\n", outcome.json()) } else { outcome.to_string() };
    print_result(&text)?;
    let mut notes = trial.log.notes();
    for note in trial.judges.iter().flat_map(|judge| judge.notes(&trial.log)) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes.iter().for_each(|note| print_note(&format!("note: {note}")));
    args.fail_on.iter().try_for_each(|fail_on| check(fail_on, &changes))
}

fn check(fail_on: &FailOn, changes: &Changes) -> Result<(), Failure> {
    let (what, part) = match fail_on.is_refused {
        true => ("refused", changes.refused.requests),
        false => ("admitted", changes.admitted.requests),
    };
    if !fail_on.share.is_exceeded_by(part, changes.requests()) {
        return Ok(());
    }
    let share = crate::columns::ascii_spaces(percent(part, changes.requests()));
    Err(Failure::PromiseBroken(format!(
        "{} requests ({share}) are newly {what}: more than {}",
        grouped(part),
        fail_on.share
    )))
}
