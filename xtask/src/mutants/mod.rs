//! `cargo xtask mutants`: the pure algorithms, changed in every small way; some test must fail.
//!
//! `list` asks cargo-mutants for the changes, `copy` makes a tree in which any of them can be chosen when a test starts (so
//! that all are built once, in place of a minute each), `suite` runs the tests, and `hunt` goes through all mutants.
//! `.cargo/mutants.toml` says which files, `.cargo/equal-mutants.txt` which changes make no difference, and why.

mod copy;
mod equal;
mod hunt;
mod list;
mod suite;

use std::process::ExitCode;

pub(crate) fn run(words: &[&str]) -> Result<ExitCode, String> {
    let asked = match words {
        [] => None,
        ["--only", text] => Some(*text),
        _ => return Err(format!("mutants does not know {}", words.join(" "))),
    };
    let root = crate::root();
    let mut mutants = list::read(root)?;
    let known = mutants.len();
    mutants = equal::left_out(root, mutants)?;
    println!("{known} mutants, {} of which make no difference", known - mutants.len());
    if let Some(text) = asked {
        mutants.retain(|mutant| mutant.name().contains(text));
    }
    hunt::run(root, &mutants)
}
