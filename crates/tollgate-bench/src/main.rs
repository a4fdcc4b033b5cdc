//! `cargo run --release -p tollgate-bench`: Tollgate, its peers, and the floors that no limiter can beat, side by side.
//!
//! | module | holds |
//! |--------|-------|
//! | `limit`, `keys` | what is asked: limits never reached or always, keys in an order that is the same each time |
//! | `contest` | who is asked: contestants behind one small trait, timed in turn, their answers checked |
//! | `peers`, `floors` | the contestants: one file a crate |
//! | `workloads` | the questions: one file a kind |
//! | `measure` | medians, quartiles, and ratios within a pass |
//! | `targets` | what is to be reached |
//! | `report`, `json`, `machine` | how it is told, and of which machine |
//! | `results`, `charts`, `tables` | the JSON read again, drawn, and written as a page |
//! | `scaling` | a model of more cores than there are |
//! | `server_speed`, `replay_speed` | whole programs, measured from outside |
//! | `build` | which `build` makes first |
//! | `command`, `fault` | the command line, and what goes wrong |

mod build;
mod charts;
mod command;
mod contest;
mod fault;
mod floors;
mod json;
mod keys;
mod limit;
mod machine;
mod measure;
mod peers;
mod replay_speed;
mod report;
mod results;
mod scaling;
mod server_speed;
mod tables;
mod targets;
mod workloads;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let command = command::Command::parse();
    command.run().unwrap_or_else(|fault| {
        eprintln!("tollgate-bench: {fault}");
        ExitCode::from(command::FAULT)
    })
}
