//! The project's own commands: `cargo xtask test` and friends.
//!
//! ```text
//! cargo xtask check                tests what changed, in less than a minute
//! cargo xtask test                 tests everything before a change is merged
//! cargo xtask loom                 runs the slot protocol under every interleaving
//! cargo xtask sanitize             runs the engine's tests under the compiler's sanitizers
//! cargo xtask mutants              changes the pure algorithms: a test must fail
//! cargo xtask mutate-orderings     weakens each ordering: a loom model must fail
//! cargo xtask break                breaks the engine in each known way: the named test must fail
//! cargo xtask fuzz --seconds 60    runs the fuzz targets
//! cargo xtask soak                 runs every algorithm on the real clock, with threads and floods
//! cargo xtask soak --proxy         loads the proxy: clients leave, upstreams fail
//! cargo xtask soak --fairness      honest clients beside attackers, at each door of the server
//! cargo xtask soak --redis         runs random faults of a real store under load
//! cargo xtask help                 prints the help
//! ```

mod breaks;
mod check;
mod fuzz;
mod mutants;
mod orderings;
mod root;
mod sanitize;
mod soak;
mod step;
mod targets;
mod test;
mod thorough;
mod tree;
mod trial;

use std::process::ExitCode;

use root::root;

const HELP: &str = "\
Tollgate's own commands.

  cargo xtask check
      Tests what changed since the branch left main: the format, clippy, the unit
      tests of the packages, and the changed modules of integration tests. After a
      change of the engine or of its model, it compares the two with fewer random
      cases than usual. Takes less than a minute on two cores if all is built.

  cargo xtask test
      Checks the format, clippy with warnings denied, all tests, the loom tests for
      20 seconds each at most, the documentation without warnings, each package as
      it would be published, the build of the fuzz targets (with a nightly toolchain),
      and `cargo check` on every supported target that is installed.
      Stops at the first step that fails and prints its command.

  cargo xtask test --thorough
      Runs `test`, then the tests with random cases with many more cases, histories of
      threads for a minute each, the stress tests several times, `soak`, the
      protocol's long scenarios and `loom --thorough`. Takes hours.

  cargo xtask loom [--thorough]
      Runs the loom tests only, to their ends; with --thorough, with one more
      preemption than usual, for at most five minutes each.

  cargo xtask mutate-orderings [--only EDGE] [--list] [--limit SECONDS]
      Weakens each ordering of the engine in turn, in a copy of the tree, and prints
      which loom model caught it: the model in docs/proof/orderings.md, or another
      that takes no longer than the limit (by default, 30 seconds). Prints the table
      of that page. Takes minutes.

  cargo xtask break [--since COMMIT | --only NAME... | --lot N [--seed N] | --all] [--list]
      Applies breaks of proof/breaks/ to a copy of the tree and runs the tests that
      must fail. A break that survives is a failure. Without options, runs those of
      the rooms that differ from main, and says how long all would take. --only runs
      those with NAME in CRATE/ROOM/NAME, --lot draws N. --list prints them, with
      their tests.

  cargo xtask fuzz [--seconds N] [TARGET]
      Runs every fuzz target, or TARGET, for N seconds (by default, 60), and prints
      the number of inputs and, for a finding, the command that repeats it. Needs a
      nightly toolchain and cargo-fuzz.

  cargo xtask mutants [--only TEXT]
      Applies every change that cargo-mutants knows to the pure algorithms, in a copy
      of the tree, and runs the tests that should fail. A mutant that no test catches
      is a failure. --only runs the mutants with TEXT in their name. Needs
      cargo-mutants.

  cargo xtask sanitize
      Runs the engine's tests under AddressSanitizer, and those with threads under
      ThreadSanitizer. Needs a nightly toolchain, with rust-src for the latter.

  cargo xtask soak [--seconds N]
      Runs `tollgate stress` for every algorithm on 1, 2, 4 and 8 threads and in two
      floods of keys, N seconds each (by default, 5), four minutes in all. Stops at
      the first key that is admitted beyond its bound, and prints the number of
      decisions.

  cargo xtask soak --serve [--seconds N]
      Loads `tollgate serve` over sockets, as Redis clients, HTTP clients and Envoy
      do, for N seconds (by default, 600), while rules are exchanged and the server
      restarts with its state. No key may pass its bound, and memory must not grow.

  cargo xtask soak --proxy [--seconds N | --minutes N]
      Loads a proxy for N seconds (by default, 600) while rules are exchanged, its
      upstreams fail, stall, reset and go away, a flood is refused and clients leave.
      No key may pass its bound, as the upstreams count it, no request may be sent
      twice, and memory must not grow. In the end no connection may be open, and no
      request in flight.

  cargo xtask soak --fairness [--seconds N | --minutes N]
      Honest clients ask beside each attacker at each door of the server, N seconds in
      all (by default, 600). Fails if one of their requests is lost, or if the slowest
      hundredth takes more than 5 ms and more than twice as long as without the
      attacker.

  cargo xtask soak --redis [--seconds N]
      Runs limits in a real redis-server for N seconds (by default, 600) while it is
      killed, frozen, paused and flushed, and its network is slow and cut. Fails if a
      key passes its bound over any interval, if a counter is wrong, or if memory
      grows. Prints the faults and how much of each bound was used.

  cargo xtask help
      Prints this text.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["check"] => exit_code(check::plans().map(test::run)),
        ["test"] => test::run(test::everything()),
        ["test", "--thorough"] => test::run(thorough::everything()),
        ["loom"] => test::run(vec![test::loom(None)]),
        ["loom", "--thorough"] => test::run(vec![thorough::loom()]),
        ["sanitize"] => test::run(sanitize::everything()),
        ["mutants", ref options @ ..] => exit_code(mutants::run(options)),
        ["mutate-orderings", ref options @ ..] => exit_code(orderings::run(options)),
        ["break", ref options @ ..] => exit_code(breaks::run(options)),
        ["fuzz"] => exit_code(fuzz::run(60, None)),
        ["fuzz", "--seconds", seconds, ref target @ ..] if target.len() < 2 => match seconds.parse() {
            Ok(seconds) if seconds > 0 => exit_code(fuzz::run(seconds, target.first().copied())),
            _ => usage_error(&format!("{seconds} is not a number of seconds")),
        },
        ["fuzz", target] => exit_code(fuzz::run(60, Some(target))),
        ["soak", ref options @ ..] => match soak::run(options) {
            Some(result) => exit_code(result),
            None => usage_error(&format!("soak does not know `{}`", options.join(" "))),
        },
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => usage_error(&format!("`cargo xtask {}` is no command", words.join(" "))),
    }
}

/// Prints the error of a command that could not run.
fn exit_code(result: Result<ExitCode, String>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(2)
    })
}

fn usage_error(what: &str) -> ExitCode {
    eprintln!("{what}\n\n{HELP}");
    ExitCode::from(2)
}
