//! `tollgate rules check`: all mistakes of a rules file in one run, and its tests.

use std::io::{IsTerminal, stderr};
use std::path::PathBuf;

use tollgate_rules_file::{Disk, Problem, Reading, TestFailure, read, run_tests};

use crate::failure::Failure;
use crate::note::print_note;
use crate::output::print_result;

/// Which file is checked, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The rules file; what it includes and its lists are read, too
    #[arg(value_name = "FILE", value_parser = crate::by_rules::path)]
    file: PathBuf,

    /// Let warnings be errors
    #[arg(long)]
    strict: bool,

    /// Print one JSON object instead of text
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(crate) const AFTER: &str = "\
Exit codes:
  0  the file can be used
  2  it cannot; with --strict, also if there is a warning
  3  a [[test]] of the file fails

Each [[test]] runs on limiters that no request has used and on a clock of its
own. Of a test that fails the first wrong step is shown.
docs/reference/rules.md describes every field and warning,
docs/how-to/rules-cookbook.md shows thirty needs as rules.";

/// Reads the file and prints its problems.
///
/// # Errors
///
/// When the file cannot be used, or standard output cannot be written.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let reading = read(&args.file, &Disk);
    let warnings = reading.problems().iter().filter(|problem| problem.is_warning()).count();
    let errors = reading.problems().len() - warnings;
    let failures = reading.rules().map(run_tests).unwrap_or_default();
    let summary = format!("{}: {}", args.file.display(), summary(&reading, errors, warnings, &failures));
    if args.json {
        print_result(&format!("{}\n", json(&reading, errors, warnings, &failures)?))?;
    } else {
        let colours = stderr().is_terminal();
        reading.problems().iter().for_each(|problem| print_note(&format!("{}\n", problem.draw(colours))));
        reading.help().into_iter().for_each(|help| print_note(&format!("{help}\n\n")));
        failures.iter().for_each(|failure| print_note(&format!("{failure}")));
    }
    if errors > 0 || args.strict && warnings > 0 {
        return Err(Failure::Usage(summary));
    }
    if !failures.is_empty() {
        return Err(Failure::TestsFailed(summary));
    }
    if args.json { Ok(()) } else { print_result(&format!("{summary}\n")) }
}

/// The number of rules, errors, warnings and tests, in a line.
fn summary(reading: &Reading, errors: usize, warnings: usize, failures: &[TestFailure]) -> String {
    let counted = |count: usize, what: &str| match count {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let problems = format!("{}, {}", counted(errors, "error"), counted(warnings, "warning"));
    match reading.rules() {
        Some(rules) => {
            let tests = match (rules.tests.len(), failures.len()) {
                (0, _) => String::new(),
                (tests, 0) => format!(", {} passed", counted(tests, "test")),
                (tests, failed) => format!(", {failed} of {} failed", counted(tests, "test")),
            };
            format!("{}, {problems}{tests}", counted(rules.rules.len(), "rule"))
        }
        None => problems,
    }
}

/// The same as an object, with the problems in the order of files and lines.
fn json(
    reading: &Reading,
    errors: usize,
    warnings: usize,
    failures: &[TestFailure],
) -> Result<String, Failure> {
    let problems: Vec<&Problem> = reading.problems().iter().collect();
    let rules = reading.rules().map(|rules| rules.rules.len());
    let unwritable = |error: serde_json::Error| Failure::Usage(error.to_string());
    let problems = serde_json::to_value(problems).map_err(unwritable)?;
    let failure = |failure: &TestFailure| {
        serde_json::json!({
            "test": *failure.test,
            "step": failure.step,
            "request": failure.request,
            "expected": failure.expected,
            "got": failure.got,
        })
    };
    let object = serde_json::json!({
        "version": 1,
        "rules": rules,
        "errors": errors,
        "warnings": warnings,
        "problems": problems,
        "tests": reading.rules().map(|rules| rules.tests.len()),
        "failed_tests": failures.iter().map(failure).collect::<Vec<_>>(),
    });
    serde_json::to_string_pretty(&object).map_err(unwritable)
}
