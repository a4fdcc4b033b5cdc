//! The loom models, each run in a process of its own: built once, then started with or without a weakening.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::copy::VARIABLE;

/// A loom test.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// `file::test`.
    pub(super) name: String,
    binary: PathBuf,
    test: String,
}

/// How a run of a model ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    /// It was stopped.
    TimedOut,
}

/// Builds the models of the copied tree.
pub(super) fn build(copy: &Path, target: &Path) -> Result<Vec<Model>, String> {
    let output = Command::new("cargo")
        .args(["test", "--release", "--no-run", "--target-dir"])
        .arg(target)
        .current_dir(copy.join("loom-tests"))
        .env("RUSTFLAGS", "--cfg loom -Awarnings")
        .stdout(Stdio::null())
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("the copy does not build:\n{said}"));
    }
    // `  Executable tests/slots.rs (target/release/deps/slots-0123)`
    let binaries = said.lines().filter_map(|line| line.trim().strip_prefix("Executable tests/"));
    let binaries = binaries.filter_map(|line| line.trim_end_matches(')').split_once(".rs ("));
    let mut models = Vec::new();
    for (file, binary) in binaries {
        let binary = copy.join("loom-tests").join(binary);
        let output = Command::new(&binary).args(["--list", "--format", "terse"]).output();
        let output = output.map_err(|error| format!("{} did not start: {error}", binary.display()))?;
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        let tests = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        models.extend(tests.map(|test| Model {
            name: format!("{file}::{test}"),
            binary: binary.clone(),
            test: test.into(),
        }));
    }
    if models.is_empty() { Err(format!("no model was built:\n{said}")) } else { Ok(models) }
}

impl Model {
    /// Runs it for at most `limit`, with this weakening.
    pub(super) fn run(&self, weakening: Option<&str>, limit: Duration) -> (Outcome, Duration) {
        let begun = Instant::now();
        let mut command = Command::new(&self.binary);
        command.args(["--exact", &self.test, "--test-threads", "1"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match weakening {
            Some(weakening) => command.env(VARIABLE, weakening),
            None => command.env_remove(VARIABLE),
        };
        let mut child = command.spawn().expect("the model was built just now");
        loop {
            if let Some(status) = child.try_wait().expect("the model is ours") {
                let outcome = if status.success() { Outcome::Passed } else { Outcome::Failed };
                return (outcome, begun.elapsed());
            }
            if begun.elapsed() > limit {
                // It may have ended in between, which is no matter.
                let _ = child.kill();
                let _ = child.wait();
                return (Outcome::TimedOut, begun.elapsed());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}
