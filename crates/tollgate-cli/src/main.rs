//! `tollgate`: rate limits tried on real traffic.
//!
//! | command | question |
//! |---------|----------|
//! | [`replay`] | who would have been refused? |
//! | [`tune`] | which numbers? |
//! | [`accuracy`] | what does the cheap estimate cost? |
//! | [`stress`] | how fast is it here, and does it hold? |
//!
//! Every command decides with the engine, through its public interface only.

mod accuracy;
mod cli;
mod columns;
mod demo;
mod failure;
mod ingest;
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

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
