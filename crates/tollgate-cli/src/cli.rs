//! The command line: its commands, and the help that introduces them.

use clap::{Parser, Subcommand};

use crate::failure::Failure;
#[cfg(feature = "serve")]
use crate::{pages, serve};
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
  tollgate replay access.log --rules rules.toml
  tollgate serve --rules rules.toml";

#[derive(Debug, Subcommand)]
enum Command {
    Replay(replay::Args),
    Tune(tune::Args),
    Accuracy(accuracy::Args),
    Stress(stress::Args),
    Rules(rules::Args),
    /// Serve the limits of a rules file to Redis clients, to Envoy and over HTTP
    #[cfg(feature = "serve")]
    #[command(after_long_help = serve::AFTER)]
    Serve(Box<serve::Args>),
    #[cfg(feature = "serve")]
    #[command(after_long_help = serve::HEALTH_AFTER)]
    Health(serve::HealthArgs),
    #[cfg(feature = "serve")]
    Completions(pages::Completions),
    #[cfg(feature = "serve")]
    Man(pages::Man),
    /// Serve the limits of a rules file (this binary was built without it)
    #[cfg(not(feature = "serve"))]
    #[command(disable_help_flag = true)]
    Serve {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        options: Vec<std::ffi::OsString>,
    },
}

/// How a binary with the server is installed.
#[cfg(not(feature = "serve"))]
const INSTALL: &str = "this binary was built without the server: install one by
  cargo install --path crates/tollgate-cli --features serve";

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
            #[cfg(feature = "serve")]
            Command::Serve(args) => serve::run(args),
            #[cfg(feature = "serve")]
            Command::Health(args) => serve::health(args),
            #[cfg(feature = "serve")]
            Command::Completions(args) => pages::completions(args),
            #[cfg(feature = "serve")]
            Command::Man(args) => pages::man(args),
            #[cfg(not(feature = "serve"))]
            Command::Serve { .. } => Err(Failure::Usage(INSTALL.to_owned())),
        }
    }
}
