//! `cargo xtask test` and `cargo xtask loom`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::root;
use crate::step::{Plan, Step, succeeds};
use crate::targets;

/// A finished step, for the summary.
struct Done {
    name: &'static str,
    result: String,
    took: Duration,
}

pub(crate) fn run(plans: Vec<Plan>) -> ExitCode {
    let begun = Instant::now();
    // That of an earlier run. Mostly there is none.
    let _ = std::fs::remove_file(tools_list());
    let mut done = Vec::new();
    for plan in plans {
        match plan {
            Plan::Run(step) => {
                let (result, took) = step.run();
                let failed = result.err();
                let verdict = if failed.is_some() { "FAILED" } else { "passed" };
                done.push(Done { name: step.name, result: verdict.into(), took });
                if let Some(reason) = failed {
                    return failure(&done, &format!("{reason}. To repeat it:\n  {}", step.command()));
                }
            }
            Plan::Skip(name, reason) => {
                println!("\n=== {name}: skipped, {reason}");
                done.push(Done { name, result: format!("skipped: {reason}"), took: Duration::ZERO });
            }
            Plan::Missing(name, reason) => {
                done.push(Done { name, result: "FAILED".into(), took: Duration::ZERO });
                return failure(&done, reason);
            }
        }
    }
    summary(&done);
    println!("All tests ran and passed, in {:.0?}.", begun.elapsed());
    ExitCode::SUCCESS
}

/// Returns all steps, the quick ones first.
pub(crate) fn everything() -> Vec<Plan> {
    let run = |name, command| Plan::Run(Step::new(name, command));
    let mut plans = vec![
        run("format", "cargo fmt --all --check"),
        run("clippy", "cargo clippy --workspace --all-targets --all-features -- -D warnings"),
        run("build without features", "cargo check --workspace"),
        // All failures are told, not only those of the first program.
        run("tests", "cargo test --workspace --all-features --no-fail-fast"),
        // With all features, decisions are always reported. Without them, only hooks cause reports.
        run("the middleware without features", "cargo test -p tollgate-tower -p tollgate-http --tests"),
        // What it says instead of serving.
        run("no server", "cargo test -p tollgate-cli --test usage"),
        loom(Some("20")),
        Plan::Run(
            Step::new("documentation", "cargo doc --workspace --all-features --no-deps")
                .with("RUSTDOCFLAGS", "-D warnings"),
        ),
        packages(),
        run("publishing", "cargo publish --dry-run --workspace --allow-dirty --no-verify"),
        fuzz(),
    ];
    plans.extend(targets::checks());
    plans
}

/// Returns the step of the loom models, each for at most so many seconds. They are a package of
/// their own, because `--cfg loom` changes every crate that they use.
pub(crate) fn loom(longest: Option<&str>) -> Plan {
    if !root().join("loom-tests/Cargo.toml").exists() {
        return Plan::Missing(
            "loom",
            "loom-tests/Cargo.toml does not exist: the loom tests must run, not be skipped",
        );
    }
    let Some(longest) = longest else { return Plan::Run(loom_step("loom", "")) };
    // The output tells which models were stopped.
    Plan::Run(loom_step("loom", "-- --show-output").with("LOOM_MAX_SECONDS", longest))
}

/// Returns the step of the loom models with arguments for the test harness.
pub(crate) fn loom_step(name: &'static str, words: &str) -> Step {
    let command = format!("cargo test --release --target-dir target {words}");
    Step::new(name, &command).within("loom-tests").with("RUSTFLAGS", "--cfg loom")
}

/// Returns the step that packs each published crate, and builds it from nothing but its package and
/// the packages of the others. A changed file that is not committed is packed too.
fn packages() -> Plan {
    let around = ["cli", "http", "logs", "net", "proxy", "redis", "rules", "rules-file", "server", "tower"];
    let packages = around.map(|part| format!(" -p tollgate-{part}")).concat();
    let step = Step::new("packages", &format!("cargo package --allow-dirty -p tollgate{packages}"));
    // As the profile of the workspace: what the tests have compiled is not compiled again.
    let debug = std::env::var("CARGO_PROFILE_DEV_DEBUG").unwrap_or_else(|_| "line-tables-only".into());
    Plan::Run(step.with("CARGO_PROFILE_DEV_DEBUG", debug))
}

/// Returns the build of the fuzz targets, which needs a nightly toolchain.
fn fuzz() -> Plan {
    if !succeeds("cargo +nightly --version") {
        return Plan::Skip("fuzz targets", "no nightly toolchain (rustup toolchain install nightly)");
    }
    let step = Step::new("fuzz targets", "cargo +nightly check --target-dir target").within("fuzz");
    Plan::Run(step)
}

fn failure(done: &[Done], reason: &str) -> ExitCode {
    summary(done);
    println!("Stopped: {reason}");
    ExitCode::FAILURE
}

fn summary(done: &[Done]) {
    println!("\n=== summary");
    for Done { name, result, took } in done {
        println!("  {name:14} {result:8} {took:>8.1?}");
    }
    let missing = missing_tools();
    println!("  programs that are not on this machine: {}", missing.len());
    for name in missing {
        println!("  not on this machine, so a test was left out: {name}");
    }
}

/// The list in which tests tell which programs they did not find.
fn tools_list() -> std::path::PathBuf {
    root().join("target/tools/missing")
}

/// Returns the programs that tests did not find, each once.
fn missing_tools() -> std::collections::BTreeSet<String> {
    let list = std::fs::read_to_string(tools_list()).unwrap_or_default();
    list.lines().map(str::to_owned).collect()
}
