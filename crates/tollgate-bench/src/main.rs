//! `cargo run --release -p tollgate-bench`: compares Tollgate with its peers, and with floors that
//! no limiter can beat.
//!
//! | module | holds |
//! |--------|-------|
//! | `limit`, `keys` | the limits, and reproducible sequences of keys |
//! | `contest` | contestants in turns or each alone, with their answers verified |
//! | `peers`, `floors` | the contestants: one file for each crate |
//! | `workloads` | the workloads: one file for each kind |
//! | `measure` | medians, quartiles, and ratios within a pass |
//! | `targets` | the targets and their verdicts |
//! | `report`, `json`, `machine` | the output, and the machine of the figures |
//! | `results`, `charts`, `tables` | charts and a page, made from the JSON |
//! | `scaling` | a model of machines with more cores |
//! | `server_speed`, `serve`, `replay_speed` | measurements of whole programs |
//! | `process`, `paired` | a server as a process, figures of programs that took turns |
//! | `build` | builds these programs |
//! | `command`, `error` | the command line and its errors |

mod build;
mod charts;
mod command;
mod contest;
mod error;
mod floors;
mod json;
mod keys;
mod limit;
mod machine;
mod measure;
mod paired;
mod peers;
mod process;
mod replay_speed;
mod report;
mod results;
mod scaling;
mod serve;
mod server_speed;
mod tables;
mod targets;
mod workloads;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let command = command::Command::parse();
    command.run().unwrap_or_else(|error| {
        eprintln!("tollgate-bench: {error}");
        ExitCode::from(command::EXIT_ERROR)
    })
}
