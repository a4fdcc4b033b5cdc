//! The project's own commands: `cargo xtask test` and friends.
//!
//! ```text
//! cargo xtask check                what changed, in less than a minute
//! cargo xtask test                 everything that has to hold before a change goes in
//! cargo xtask loom                 only the slot protocol under every interleaving
//! cargo xtask sanitize             the engine's tests under the compiler's sanitizers
//! cargo xtask mutants              changes the pure algorithms: some test must fail
//! cargo xtask mutate-orderings     weakens each ordering: some loom model must fail
//! cargo xtask break                breaks the engine in each known way: the named test must fail
//! cargo xtask fuzz --seconds 60    looks for what the tests do not think of
//! cargo xtask soak                 every algorithm on the real clock, many threads, a flood of keys
//! cargo xtask help                 this, in other words
//! ```

mod breaks;
mod check;
mod fuzz;
mod mutants;
mod orderings;
mod sanitize;
mod soak;
mod step;
mod test;
mod thorough;
mod tree;
mod trial;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;

const HELP: &str = "\
Tollgate's own commands.

  cargo xtask check
      What changed since the branch left main: the format, clippy, the unit tests of
      the packages, the changed modules of integration tests, and after a change of
      the engine or of its model the tests that compare the two, with fewer random
      cases. Less than a minute on two cores when all is built.

  cargo xtask test
      Format, clippy with warnings denied, all tests, loom tests, documentation
      without warnings, and that the fuzz targets build (with a nightly toolchain).
      Stops at the first step that fails and says how to repeat it.

  cargo xtask test --thorough
      The same, then the tests that draw their cases with many more of them,
      histories of threads for a minute each, the stress tests again and again,
      the soak as below, the protocol's long scenarios and the loom models as
      below. Takes hours.

  cargo xtask loom [--thorough]
      Only the loom tests; with --thorough, one preemption more in each than is
      usual, for at most five minutes a model.

  cargo xtask mutate-orderings [--only EDGE] [--list] [--limit SECONDS]
      Weakens each ordering of the engine in turn, in a copy of the tree, and
      says which loom model caught it: the one that docs/correctness.md names,
      or any other that takes no longer than the limit (30 unless told
      otherwise). Prints that page's table. Takes minutes.

  cargo xtask break [--only NAME] [--list]
      Breaks the engine and the middleware in each way that breaks/ describes, in
      a copy of the tree, and runs the test that must fail. A break that survives is a
      failure. Takes ten minutes; --only takes those with NAME in their name.

  cargo xtask fuzz [--seconds N] [TARGET]
      Runs every fuzz target, or this one, for N seconds (60 unless told
      otherwise), and says how many inputs were tried, what was found and how to
      repeat it. Needs a nightly toolchain and cargo-fuzz.

  cargo xtask mutants [--only TEXT]
      Changes the pure algorithms in every small way that cargo-mutants knows,
      in a copy of the tree, and runs the tests that should notice. A mutant that
      all of them miss is a failure. --only takes those with TEXT in their name.
      Needs cargo-mutants.

  cargo xtask sanitize
      The engine's tests under AddressSanitizer, and those with threads under
      ThreadSanitizer. Needs a nightly toolchain, with rust-src for the latter.

  cargo xtask soak [--seconds N]
      `tollgate stress` for every algorithm on 1, 2, 4 and 8 threads and in two
      floods of keys, N seconds each (5 unless told otherwise): four minutes. Ends
      at the first key that is admitted beyond its bound, and says how many
      decisions were made.

  cargo xtask help
      This.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["check"] => judged(check::plans().map(test::run)),
        ["test"] => test::run(test::everything()),
        ["test", "--thorough"] => test::run(thorough::everything()),
        ["loom"] => test::run(vec![test::loom()]),
        ["loom", "--thorough"] => test::run(vec![thorough::loom()]),
        ["sanitize"] => test::run(sanitize::everything()),
        ["mutants", ref options @ ..] => judged(mutants::run(options)),
        ["mutate-orderings", ref options @ ..] => judged(orderings::run(options)),
        ["break", ref options @ ..] => judged(breaks::run(options)),
        ["fuzz"] => fuzz::run(60, None),
        ["fuzz", "--seconds", seconds, ref target @ ..] if target.len() < 2 => match seconds.parse() {
            Ok(seconds) if seconds > 0 => fuzz::run(seconds, target.first().copied()),
            _ => misunderstood(&format!("{seconds} is not a number of seconds")),
        },
        ["fuzz", target] => fuzz::run(60, Some(target)),
        ["soak"] => judged(soak::run(5)),
        ["soak", "--seconds", seconds] => match seconds.parse() {
            Ok(seconds) if seconds > 0 => judged(soak::run(seconds)),
            _ => misunderstood(&format!("{seconds} is not a number of seconds")),
        },
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => misunderstood(&format!("`cargo xtask {}` is none of these", words.join(" "))),
    }
}

/// How it ended, or why it could not.
fn judged(outcome: Result<ExitCode, String>) -> ExitCode {
    outcome.unwrap_or_else(|why| {
        eprintln!("{why}");
        ExitCode::from(2)
    })
}

fn misunderstood(what: &str) -> ExitCode {
    eprintln!("{what}\n\n{HELP}");
    ExitCode::from(2)
}

/// The repository: what `cargo run` says, since a target folder shared by two checkouts may hold the other's binary.
fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let built = || env!("CARGO_MANIFEST_DIR").into();
        let xtask = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(built));
        xtask.parent().expect("xtask lies in the repository").to_owned()
    });
    &ROOT
}
