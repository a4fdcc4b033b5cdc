//! One test, run in a process of its own: built once, then started as often as somebody wants to know.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A test in a binary.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) binary: PathBuf,
    /// With its modules, as the test harness calls it.
    pub(crate) test: String,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    /// It was stopped.
    TimedOut,
}

/// Has cargo build tests in `folder`: their sources as cargo calls them (`tests/slots.rs`, `unittests src/lib.rs`), and
/// the binaries. An error is what cargo said.
pub(crate) fn build(cargo: &mut Command, folder: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let output = cargo
        .current_dir(folder)
        .stdout(Stdio::null())
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(said.into_owned());
    }
    // `  Executable tests/slots.rs (target/release/deps/slots-0123)`
    let lines = said.lines().filter_map(|line| line.trim().strip_prefix("Executable ")?.strip_suffix(')'));
    Ok(lines
        .filter_map(|line| line.split_once(" ("))
        .map(|(source, binary)| (source.into(), folder.join(binary)))
        .collect())
}

/// The tests in a binary.
pub(crate) fn tests_in(binary: &Path) -> Result<Vec<String>, String> {
    let output = Command::new(binary).args(["--list", "--format", "terse"]).output();
    let output = output.map_err(|error| format!("{} did not start: {error}", binary.display()))?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

impl Trial {
    /// Runs it in `folder` for at most `limit`, with `variable` set, or not.
    pub(crate) fn run(
        &self,
        folder: &Path,
        (variable, value): (&str, Option<&str>),
        limit: Duration,
    ) -> (Outcome, Duration) {
        let begun = Instant::now();
        let mut command = Command::new(&self.binary);
        command.args(["--exact", &self.test, "--test-threads", "1"]).current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        };
        let mut child = command.spawn().expect("the test was built just now");
        loop {
            if let Some(status) = child.try_wait().expect("the process is ours") {
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
