//! The project's own commands: `cargo xtask test` and friends.
//!
//! ```text
//! cargo xtask test                 everything that has to hold before a change goes in
//! cargo xtask loom                 only the slot protocol under every interleaving
//! cargo xtask mutate-orderings     weakens each ordering: some loom model must fail
//! cargo xtask break                breaks the engine in each known way: the named test must fail
//! cargo xtask fuzz --seconds 60    looks for what the tests do not think of
//! cargo xtask help                 this, in other words
//! ```

mod breaks;
mod fuzz;
mod orderings;
mod step;
mod test;
mod tree;
mod trial;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;

const HELP: &str = "\
Tollgate's own commands.

  cargo xtask test
      Format, clippy with warnings denied, all tests, loom tests, documentation
      without warnings, and that the fuzz targets build (with a nightly toolchain).
      Stops at the first step that fails and says how to repeat it.

  cargo xtask loom
      Only the loom tests.

  cargo xtask mutate-orderings [--only EDGE] [--list] [--limit SECONDS]
      Weakens each ordering of the engine in turn, in a copy of the tree, and
      says which loom model caught it. Models that take longer than the limit
      (30 unless told otherwise) are left out. Takes an hour.

  cargo xtask break [--only NAME] [--list]
      Breaks the engine in each way that breaks/ describes, in a copy of the
      tree, and runs the test that must fail. A break that survives is a
      failure. Takes ten minutes; --only takes those with NAME in their name.

  cargo xtask fuzz [--seconds N]
      Runs every fuzz target for N seconds (60 unless told otherwise).
      Needs a nightly toolchain and cargo-fuzz.

  cargo xtask help
      This.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["test"] => test::run(test::everything()),
        ["loom"] => test::run(vec![test::loom()]),
        ["mutate-orderings", ref options @ ..] => orderings::run(options).unwrap_or_else(|why| {
            eprintln!("{why}");
            ExitCode::from(2)
        }),
        ["break", ref options @ ..] => breaks::run(options).unwrap_or_else(|why| {
            eprintln!("{why}");
            ExitCode::from(2)
        }),
        ["fuzz"] => fuzz::run(60),
        ["fuzz", "--seconds", seconds] => match seconds.parse() {
            Ok(seconds) if seconds > 0 => fuzz::run(seconds),
            _ => misunderstood(&format!("{seconds} is not a number of seconds")),
        },
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => misunderstood(&format!("there is no `cargo xtask {}`", words.join(" "))),
    }
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
