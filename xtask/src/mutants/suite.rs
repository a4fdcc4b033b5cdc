//! The tests that should catch a mutant, the quickest first.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::copy::VARIABLE;
use crate::trial;

/// Each stage: a test binary as cargo calls it, words of which a test's name must contain one, and
/// the number of random cases.
pub(super) const STAGES: [(&str, &str, &str); 8] = [
    ("unittests src/lib.rs", "", "1"),
    ("tests/model/main.rs", "vectors::", "1"),
    ("tests/behaviour/main.rs", "refund:: reserve::", "1"),
    ("tests/model/main.rs", "against_model::", "20"),
    ("tests/behaviour/main.rs", "change::", "1"),
    ("tests/behaviour/main.rs", "save::", "100"),
    ("tests/behaviour/main.rs", "lease:: several:: pitfalls:: in_flight::", "1"),
    ("tests/model/main.rs", "against_model::", "200"),
];

/// Tests with threads take long and test nothing more of an algorithm.
const SKIPPED: &str = "--skip threads --skip meanwhile";

/// A mutant is endless if it takes this many times longer than no mutant, in processor time, so
/// that other work of the machine makes no mutant endless.
const SLOWDOWN: u32 = 10;
/// The least time limit of a stage.
const MIN_LIMIT: Duration = Duration::from_secs(3);

/// The time limit of a test that waits without using the processor.
const WALL_LIMIT: Duration = Duration::from_secs(600);

/// How the tests noticed a mutant.
pub(super) enum Catch {
    /// This test failed.
    Failed(String),
    /// This binary did not end.
    Endless(String),
}

/// A test binary, built.
pub(super) struct Stage {
    pub(super) source: &'static str,
    tests: &'static str,
    binary: PathBuf,
    tree: PathBuf,
    cases: &'static str,
    limit: Duration,
}

/// Builds these stages of `tree`, with optimization and overflow checks. The error is the output of
/// the compiler, one line for each error.
pub(super) fn build(
    tree: &Path,
    target: &Path,
    stages: &[(&'static str, &'static str, &'static str)],
) -> Result<Vec<Stage>, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--no-run", "--message-format", "short", "--package", "tollgate"]);
    for (source, ..) in stages {
        match source.strip_prefix("tests/") {
            Some(file) => cargo.args(["--test", file.trim_end_matches("/main.rs").trim_end_matches(".rs")]),
            None => cargo.arg("--lib"),
        };
    }
    cargo.arg("--target-dir").arg(target).env("RUSTFLAGS", "--cap-lints=allow");
    cargo.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1").env("CARGO_PROFILE_DEV_DEBUG", "0");
    let binaries = trial::build(&mut cargo, tree)?;
    let stage = |&(source, tests, cases)| {
        let (_, binary) = binaries.iter().find(|(built, _)| built == source)?;
        let (binary, tree) = (binary.clone(), tree.into());
        Some(Stage { source, tests, binary, tree, cases, limit: MIN_LIMIT * SLOWDOWN })
    };
    stages.iter().map(stage).collect::<Option<_>>().ok_or_else(|| "cargo did not build all tests".into())
}

impl Stage {
    /// Runs the stage without a mutant, which must pass, and sets its time limit.
    pub(super) fn calibrate(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        match self.run(None) {
            Some(Catch::Failed(by) | Catch::Endless(by)) => Err(format!("with nothing changed {by} fails")),
            None => {
                self.limit = (begun.elapsed() * SLOWDOWN).max(MIN_LIMIT);
                Ok(())
            }
        }
    }

    /// Runs the tests until one fails, on the mutant with this number or on the tree as it is.
    /// `None` if all tests pass.
    pub(super) fn run(&self, mutant: Option<usize>) -> Option<Catch> {
        let limited = format!(
            "ulimit -t {}; exec \"$0\" --test-threads 1 {} {SKIPPED}",
            self.limit.as_secs(),
            self.tests
        );
        let mut command = Command::new("sh");
        command.args(["-c", &limited]).arg(&self.binary).current_dir(&self.tree);
        command.env("PROPTEST_CASES", self.cases).env("PROPTEST_MAX_SHRINK_ITERS", "0");
        if let Some(number) = mutant {
            command.env(VARIABLE, number.to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("there is a shell");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, failed) = mpsc::channel();
        thread::spawn(move || {
            let lines = output.lines().map_while(Result::ok);
            // `test gcra::tests::some_promise ... FAILED`
            let mut failures = lines
                .filter_map(|line| Some(line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_owned()));
            // Fails if the receiver has timed out.
            let _ = sender.send(failures.next());
        });
        let failed = failed.recv_timeout(WALL_LIMIT);
        if !matches!(failed, Ok(None)) {
            // Killing a process that has just ended fails, which does not matter.
            let _ = child.kill();
        }
        let status = child.wait().expect("the process is ours");
        let endless = matches!(status.signal(), Some(SIGXCPU | SIGKILL));
        match failed {
            Ok(Some(test)) => Some(Catch::Failed(format!("{}: {test}", self.source))),
            Ok(None) if status.success() => None,
            Ok(None) if !endless => Some(Catch::Failed(format!("{}: {status}", self.source))),
            _ => Some(Catch::Endless(self.source.into())),
        }
    }
}

/// The signals that kill a process at its limit of processor time. The shell's `ulimit` sets the
/// hard limit too.
const SIGXCPU: i32 = 24;
const SIGKILL: i32 = 9;
