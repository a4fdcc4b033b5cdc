//! The tests that a mutant has to get past, the quickest first.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::copy::VARIABLE;
use crate::trial;

/// Test binaries as cargo calls them, which of their tests (those with one of these words in their names), and how many
/// cases those draw that ask.
pub(super) const STAGES: [(&str, &str, &str); 8] = [
    ("unittests src/lib.rs", "", "1"),
    ("tests/model/main.rs", "vectors::", "1"),
    ("tests/behaviour/main.rs", "refund:: reserve::", "1"),
    ("tests/model/main.rs", "against_model::", "20"),
    ("tests/behaviour/main.rs", "reconfigure::", "1"),
    ("tests/behaviour/main.rs", "save::", "100"),
    ("tests/behaviour/main.rs", "lease:: several:: pitfalls:: in_flight::", "1"),
    ("tests/model/main.rs", "against_model::", "200"),
];

/// What many threads do says no more of a rule, and takes the longest.
const LEFT_OUT: &str = "--skip threads --skip meanwhile";

/// A mutant may take so much longer than nothing does, and at least so long, before it counts as endless. It is the processor's
/// time: other work on the machine makes no mutant endless.
const PATIENCE: u32 = 10;
const LEAST: Duration = Duration::from_secs(3);

/// What waits without using the processor is stopped after this.
const AWAKE: Duration = Duration::from_secs(600);

/// How a mutant was noticed.
pub(super) enum Fate {
    /// By this test, which failed.
    Caught(String),
    /// By this binary, which did not end.
    Endless(String),
}

/// A test binary, built.
pub(super) struct Stage {
    pub(super) source: &'static str,
    tests: &'static str,
    binary: PathBuf,
    tree: PathBuf,
    cases: &'static str,
    patience: Duration,
}

/// Builds these stages of `tree`, so that they run fast and check their arithmetic. An error is what the compiler said, a
/// line each.
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
        Some(Stage { source, tests, binary, tree, cases, patience: LEAST * PATIENCE })
    };
    stages.iter().map(stage).collect::<Option<_>>().ok_or_else(|| "cargo did not build all tests".into())
}

impl Stage {
    /// Runs it as it is, to see that it passes, and for how long.
    pub(super) fn calibrate(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        match self.run(None) {
            Some(Fate::Caught(by) | Fate::Endless(by)) => Err(format!("with nothing changed {by} fails")),
            None => {
                self.patience = (begun.elapsed() * PATIENCE).max(LEAST);
                Ok(())
            }
        }
    }

    /// Runs the tests until the first fails: of the mutant with this number; without one, of what the tree holds. `None`: none
    /// failed.
    pub(super) fn run(&self, mutant: Option<usize>) -> Option<Fate> {
        let limited = format!(
            "ulimit -t {}; exec \"$0\" --test-threads 1 {} {LEFT_OUT}",
            self.patience.as_secs(),
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
            // Nobody listens once the time is over.
            let _ = sender.send(failures.next());
        });
        let failed = failed.recv_timeout(AWAKE);
        if !matches!(failed, Ok(None)) {
            // It may have ended in between, which is no matter.
            let _ = child.kill();
        }
        let status = child.wait().expect("the process is ours");
        let endless = matches!(status.signal(), Some(SIGXCPU | SIGKILL));
        match failed {
            Ok(Some(test)) => Some(Fate::Caught(format!("{}: {test}", self.source))),
            Ok(None) if status.success() => None,
            Ok(None) if !endless => Some(Fate::Caught(format!("{}: {status}", self.source))),
            _ => Some(Fate::Endless(self.source.into())),
        }
    }
}

/// What a process is killed by when its time on the processor is over; a shell's `ulimit` sets the hard limit, too.
const SIGXCPU: i32 = 24;
const SIGKILL: i32 = 9;
