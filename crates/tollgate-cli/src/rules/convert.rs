//! `tollgate rules convert`: files of envoyproxy/ratelimit as rules.

use std::io::{IsTerminal, stderr};
use std::path::PathBuf;

use tollgate_rules::{Disk, EnvoyConfig, Problem, SameDomain};

use crate::failure::Failure;
use crate::output::{print_note, print_result};

/// Which files are converted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files of envoyproxy/ratelimit, or their directory
    #[arg(value_name = "FILE", required = true, value_parser = super::path)]
    files: Vec<PathBuf>,

    /// Take files with the same domain for one domain, as MERGE_DOMAIN_CONFIG does
    #[arg(long)]
    merge_domains: bool,
}

pub(crate) const AFTER: &str = "\
The rules are written to standard output, and to standard error what they cannot say.

Exit codes:
  0  the rules decide as the files do
  2  they do not, as comments and errors say; or the files cannot be read

docs/envoy.md says which descriptors are meant, and how to move over.";

/// Reads the files, and prints the rules and all problems.
///
/// # Errors
///
/// When a file has a mistake, the rules decide otherwise, or standard output cannot be written.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let same = if args.merge_domains { SameDomain::Merge } else { SameDomain::Refuse };
    let reading = EnvoyConfig::read(&args.files, same, &Disk);
    print_problems(reading.problems());
    let errors = reading.problems().iter().filter(|problem| !problem.is_warning()).count();
    let Some(config) = reading.rules() else {
        return Err(Failure::Usage(format!("nothing is converted: {}", counted(errors, "error"))));
    };
    let converted = config.convert();
    print_problems(&converted.differences);
    print_result(&converted.toml)?;
    match converted.differences.iter().filter(|problem| !problem.is_warning()).count() {
        0 => Ok(()),
        differences => {
            let what = counted(differences, "difference");
            Err(Failure::Usage(format!("the rules do not decide as the files do: {what}")))
        }
    }
}

fn print_problems(problems: &[Problem]) {
    let colours = stderr().is_terminal();
    problems.iter().for_each(|problem| print_note(&format!("{}\n", problem.draw(colours))));
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
