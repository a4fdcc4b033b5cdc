//! `cargo xtask mutants`: applies small changes to the pure algorithms; each time a test must fail.
//!
//! `list` gets the changes from cargo-mutants, `copy` makes a tree in which any of them can be
//! selected when a test starts (so a single build suffices, which would otherwise take a minute
//! each), `suite` runs the tests, and `hunt` runs all mutants. `.cargo/mutants.toml` names the
//! files, `.cargo/equal-mutants.txt` the equivalent mutants.

mod copy;
mod equal;
mod hunt;
mod list;
mod suite;

use std::process::ExitCode;

pub(crate) fn run(words: &[&str]) -> Result<ExitCode, String> {
    let only = match words {
        [] => None,
        ["--only", text] => Some(*text),
        _ => return Err(format!("mutants does not know {}", words.join(" "))),
    };
    let root = crate::root();
    let mut mutants = list::read(root)?;
    let known = mutants.len();
    mutants = equal::remove_equal(root, mutants)?;
    println!("{known} mutants, {} of them equivalent", known - mutants.len());
    if let Some(text) = only {
        mutants.retain(|mutant| mutant.name().contains(text));
    }
    hunt::run(root, &mutants)
}
