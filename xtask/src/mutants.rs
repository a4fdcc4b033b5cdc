//! `cargo xtask mutants`: the pure algorithms, changed in every small way; some test must fail.
//!
//! Each mutant costs a build, so the tests that catch most go first: those beside the code, and those that compare whole
//! limiters with the model. What they miss is tried again with those of single verbs. `.cargo/mutants.toml` says which
//! files.

use std::process::{Command, ExitCode};

use crate::root;
use crate::step::works;

/// Those beside the code and those that judge every answer; then those of single verbs. Only these are built.
const PASSES: [&[&str]; 2] = [
    &["--lib", "--test=against_model"],
    &["--test=reconfigure", "--test=save", "--test=refund", "--test=reserve", "--test=sweep"],
];

/// cargo-mutants ended, and some mutants were missed (2) or hung (3): the next pass may catch them.
const MISSED: [i32; 2] = [2, 3];

/// Runs both passes with these options of cargo-mutants.
pub(crate) fn run(options: &[&str]) -> ExitCode {
    if !works("cargo mutants --version") {
        eprintln!("it needs cargo-mutants: cargo install cargo-mutants --locked");
        return ExitCode::from(2);
    }
    for (number, tests) in PASSES.iter().enumerate() {
        let mut command = Command::new("cargo");
        command.arg("mutants").args(options).current_dir(root());
        if number > 0 {
            command.arg("--iterate");
        }
        command.args(tests.iter().map(|test| format!("--cargo-arg={test}")));
        println!("\n=== mutants: {command:?}");
        match command.status().map(|status| status.code()) {
            Ok(Some(0)) => return ExitCode::SUCCESS,
            Ok(Some(code)) if MISSED.contains(&code) => {}
            other => {
                eprintln!("cargo-mutants did not end as it should: {other:?}");
                return ExitCode::from(2);
            }
        }
    }
    println!("The mutants in mutants.out/missed.txt and mutants.out/timeout.txt were not caught.");
    ExitCode::FAILURE
}
