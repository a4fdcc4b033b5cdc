//! `tollgate rules`: is a rules file right, and what may stand in one?

mod check;
mod convert;

use std::path::PathBuf;

use crate::failure::Failure;
use crate::output::print_result;

/// Check files with rules, and describe them to editors
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
        Command::Schema => {
            let schema = serde_json::to_string_pretty(&tollgate_rules::schema());
            print_result(&format!("{}\n", schema.map_err(|error| Failure::Usage(error.to_string()))?))
        }
    }
}

/// The path of a rules file, as clap reads it.
fn path(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" => Err("rules are read from files, since they may include others".into()),
        text => Ok(text.into()),
    }
}
