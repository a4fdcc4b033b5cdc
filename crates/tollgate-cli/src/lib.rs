//! The `tollgate` command as a library: the binary calls [`run`]; [`probe`] is for tests and fuzz targets.
//!
//! | command | question |
//! |---------|----------|
//! | `replay` | who would have been refused? |
//! | `tune` | which numbers? |
//! | `accuracy` | what does the cheap estimate cost? |
//! | `stress` | how fast is it here, and does it hold? |
//!
//! Every command decides with the engine, through its public interface only.

mod accuracy;
mod cli;
mod columns;
mod demo;
mod failure;
mod ingest;
pub mod probe;
mod progress;
mod reading;
mod replay;
mod report;
mod spec;
mod steps;
mod stress;
mod timelines;
mod tune;

use std::process::ExitCode;

use clap::Parser;

pub use spec::{BadSpec, Spec};

/// Does what this process's arguments ask, and says what to exit with.
pub fn run() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
