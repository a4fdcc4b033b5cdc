//! `cargo xtask mutants`: the pure algorithms, changed in every small way; some test must fail.
//!
//! Each mutant costs a build, so only some tests are built: those beside the code, those that compare whole limiters with
//! the model, and those of single verbs. The first of them that fails ends the mutant. `.cargo/mutants.toml` says
//! which files.

use crate::step::{Step, works};
use crate::test::Plan;

const TESTS: [&str; 7] = ["against_model", "pitfalls", "reconfigure", "refund", "reserve", "save", "sweep"];

/// cargo-mutants with these options.
pub(crate) fn everything(options: &[&str]) -> Vec<Plan> {
    if !works("cargo mutants --version") {
        return vec![Plan::Missing(
            "mutants",
            "it needs cargo-mutants: cargo install cargo-mutants --locked",
        )];
    }
    let tests: String = TESTS.iter().map(|test| format!(" --cargo-arg=--test={test}")).collect();
    let command = format!("cargo mutants {} --cargo-arg=--lib{tests}", options.join(" "));
    vec![Plan::Run(Step::new("mutants", &command))]
}
