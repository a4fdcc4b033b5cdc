//! The command line: its commands, and the help that introduces them.

use clap::{Parser, Subcommand};

use crate::failure::Failure;
use crate::{accuracy, replay, rules, stress, tune};

/// Try rate limits on real traffic: replay logs, tune limits, stress this machine
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, propagate_version = true, after_help = AFTER)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Start here:
  tollgate replay --demo
  tollgate replay access.log --limit token-bucket:60/min,burst=20
  tollgate tune access.log --period 1min
  tollgate rules check rules.toml
  tollgate replay access.log --rules rules.toml";

#[derive(Debug, Subcommand)]
enum Command {
    Replay(replay::Args),
    Tune(tune::Args),
    Accuracy(accuracy::Args),
    Stress(stress::Args),
    Rules(rules::Args),
}

impl Cli {
    /// Runs the named command.
    ///
    /// # Errors
    ///
    /// Those of the command.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match &self.command {
            Command::Replay(args) => replay::run(args),
            Command::Tune(args) => tune::run(args),
            Command::Accuracy(args) => accuracy::run(args),
            Command::Stress(args) => stress::run(args),
            Command::Rules(args) => rules::run(args),
        }
    }
}
