//! `tollgate rules convert`: files of envoyproxy/ratelimit as rules.

use std::io::{IsTerminal, stderr};
use std::path::PathBuf;

use tollgate_rules_file::{Disk, EnvoyConfig, Problem, SameDomain};

use crate::failure::Failure;
use crate::note::print_note;
use crate::output::print_result;

/// Which files are converted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files of envoyproxy/ratelimit, or their directory
    #[arg(value_name = "FILE", required = true, value_parser = crate::by_rules::path)]
    files: Vec<PathBuf>,

    /// Take files with the same domain for one domain, as MERGE_DOMAIN_CONFIG does
    #[arg(long)]
    merge_domains: bool,

    /// Keep the counts in this Redis or Valkey, so that all servers with the rules share them
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// Let warnings be errors: of fields that are ignored, and of what the rules leave out
    #[arg(long)]
    strict: bool,
}

pub(crate) const AFTER: &str = "\
The rules are written to standard output, and to standard error what they cannot say.

Exit codes:
  0  the rules decide as the files do
  2  they do not, as comments and errors say; or the files cannot be read; with
     --strict, also if there is a warning: something has no place in the rules

The rules decide alike for descriptors with the keys of one in the files, each
once, in its order, with a value. A descriptor of other keys has no limit there;
here it has that of every rule whose entries it contains. A file does not tell
whether such calls come: the rules say so in their first lines.

With --store two servers with the rules admit ten of ten an hour together. The
address stands in the rules with its password: write `url_env` there instead.

docs/how-to/envoy.md says which descriptors are meant, and how to move over.";

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
    let converted = match &args.store {
        Some(address) => config.convert_to_store(address),
        None => config.convert(),
    };
    print_problems(&converted.differences);
    print_result(&converted.toml)?;
    let all = || reading.problems().iter().chain(&converted.differences);
    let warnings = all().filter(|problem| problem.is_warning()).count();
    match all().count() - warnings {
        0 if args.strict && warnings > 0 => {
            Err(Failure::Usage(format!("not all is in the rules: {}", counted(warnings, "warning"))))
        }
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
