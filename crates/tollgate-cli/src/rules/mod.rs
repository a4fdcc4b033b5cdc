//! `tollgate rules`: is a rules file right, what does it do, and what may stand in one?

mod check;
mod convert;
mod diff;
mod explain;

use crate::failure::Failure;
use crate::output::print_result;

/// Check files with rules, explain and compare them, and describe them to editors
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Find all mistakes of a rules file, and warn of likely ones
    #[command(after_long_help = check::AFTER)]
    Check(check::Args),
    /// Write the limits of envoyproxy/ratelimit as rules
    #[command(after_long_help = convert::AFTER)]
    Convert(convert::Args),
    /// Which rules concern a request, which do not and why, and what would be left
    #[command(after_long_help = explain::AFTER)]
    Explain(explain::Args),
    /// What a change of rules changes: on a log, who is newly refused or admitted
    #[command(after_long_help = diff::AFTER)]
    Diff(diff::Args),
    /// Print the JSON Schema of rules files, for editors
    Schema,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Those of the subcommand.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::Check(args) => check::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Schema => {
            let schema = serde_json::to_string_pretty(&tollgate_rules_file::schema());
            print_result(&format!("{}\n", schema.map_err(|error| Failure::Usage(error.to_string()))?))
        }
    }
}
