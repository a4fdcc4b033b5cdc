//! The `tollgate` command as a library: the binary calls [`run`], tests and fuzz targets call
//! [`probe`], and the benchmark draws its pictures with [`plot`].
//!
//! | command | question |
//! |---------|----------|
//! | `replay` | Which requests of a log would a limit have refused? |
//! | `tune` | Which limit fits a log? |
//! | `accuracy` | How far is the sliding window's estimate from the exact count? |
//! | `rules` | Is a rules file right, what concerns a request, whom does a change refuse? |
//! | `serve` | How do other programs ask? (feature `serve`, with `health`, `completions`, `man`) |
//! | `stress` | How fast is the limiter on this machine, and does the limit hold? |
//!
//! Every command decides with the engine, through its public interface only.

mod accuracy;
mod by_rules;
mod cli;
mod columns;
mod demo;
mod failure;
mod note;
mod output;
#[cfg(feature = "serve")]
mod pages;
pub mod probe;
mod progress;
mod random;
mod reading;
mod replay;
mod report;
mod round_numbers;
mod rules;
#[cfg(feature = "serve")]
mod serve;
mod share;
mod spec;
mod stress;
mod timelines;
mod tune;

use std::process::ExitCode;

use clap::Parser;

pub use report::plot;
pub use spec::{BadSpec, Spec};

/// Runs the command that this process's arguments name, and returns its exit code.
pub fn run() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
