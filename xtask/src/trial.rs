//! One test in its own process: built once, then started any number of times.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A test in a binary.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) binary: PathBuf,
    /// The name in the test harness, with its modules.
    pub(crate) test: String,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    /// The run was stopped at its limit.
    TimedOut,
}

/// Builds tests in `folder`. Returns their sources as cargo calls them (`tests/slots.rs`,
/// `unittests src/lib.rs`) and their binaries. The error is the output of cargo.
pub(crate) fn build(cargo: &mut Command, folder: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let output = cargo
        .current_dir(folder)
        .stdout(Stdio::null())
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(stderr.into_owned());
    }
    // `  Executable tests/slots.rs (target/release/deps/slots-0123)`
    let lines = stderr.lines().filter_map(|line| line.trim().strip_prefix("Executable ")?.strip_suffix(')'));
    Ok(lines
        .filter_map(|line| line.split_once(" ("))
        .map(|(source, binary)| (source.into(), folder.join(binary)))
        .collect())
}

/// Returns the names of the tests in a binary.
pub(crate) fn tests_in(binary: &Path) -> Result<Vec<String>, String> {
    let output = Command::new(binary).args(["--list", "--format", "terse"]).output();
    let output = output.map_err(|error| format!("{} did not start: {error}", binary.display()))?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

impl Trial {
    /// Runs the test in `folder` for at most `limit`. Each variable has its value or is not set.
    pub(crate) fn run(
        &self,
        folder: &Path,
        variables: &[(&str, Option<&str>)],
        limit: Duration,
    ) -> (Outcome, Duration) {
        let begun = Instant::now();
        let mut command = Command::new(&self.binary);
        command.args(["--exact", &self.test, "--test-threads", "1"]).current_dir(folder);
        let printed = File::create(self.output_file()).expect("it is beside the binary that was built");
        let errors = printed.try_clone().expect("the file is open");
        command.stdin(Stdio::null()).stdout(printed).stderr(errors);
        for (variable, value) in variables {
            match value {
                Some(value) => command.env(variable, value),
                None => command.env_remove(variable),
            };
        }
        let mut child = command.spawn().expect("the test was built just now");
        loop {
            if let Some(status) = child.try_wait().expect("the process is ours") {
                let outcome = if status.success() { Outcome::Passed } else { Outcome::Failed };
                return (outcome, begun.elapsed());
            }
            if begun.elapsed() > limit {
                // Killing a process that has just ended fails, which does not matter.
                let _ = child.kill();
                let _ = child.wait();
                return (Outcome::TimedOut, begun.elapsed());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// What the last run printed.
    pub(crate) fn output(&self) -> String {
        let printed = fs::read(self.output_file()).unwrap_or_default();
        String::from_utf8_lossy(&printed).into_owned()
    }

    fn output_file(&self) -> PathBuf {
        self.binary.with_extension("printed")
    }
}
