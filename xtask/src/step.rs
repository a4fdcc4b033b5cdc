//! A step: one command, printed before it runs so that it can be repeated by hand.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::root;

/// A command to run.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    words: Vec<String>,
    folder: PathBuf,
    variables: Vec<(&'static str, String)>,
}

/// A step, or the reason why it cannot run.
pub(crate) enum Plan {
    Run(Step),
    /// The step cannot run, which is no failure.
    Skip(&'static str, &'static str),
    /// The step cannot run, which is a failure.
    Missing(&'static str, &'static str),
}

impl Step {
    /// Makes a step that runs in the repository. `command` is split at blanks.
    pub(crate) fn new(name: &'static str, command: &str) -> Self {
        let words = command.split_whitespace().map(str::to_owned).collect();
        Self { name, words, folder: root().to_owned(), variables: Vec::new() }
    }

    /// Sets the folder of the repository in which the step runs.
    pub(crate) fn within(mut self, folder: &str) -> Self {
        self.folder = root().join(folder);
        self
    }

    /// Sets an environment variable.
    pub(crate) fn with(mut self, variable: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((variable, value.into()));
        self
    }

    /// Returns the shell command that repeats the step in the repository.
    pub(crate) fn command(&self) -> String {
        let mut command = String::new();
        if let Ok(folder) = self.folder.strip_prefix(root())
            && !folder.as_os_str().is_empty()
        {
            command.push_str(&format!("cd {} && ", folder.display()));
        }
        for (variable, value) in &self.variables {
            command.push_str(&format!("{variable}='{value}' "));
        }
        command + &self.words.join(" ")
    }

    /// Runs the step, with its output on ours.
    pub(crate) fn run(&self) -> (Result<(), String>, Duration) {
        println!("\n=== {}: {}", self.name, self.command());
        let begun = Instant::now();
        let result = self.attempt();
        let took = begun.elapsed();
        println!("=== {}: {}, {took:.1?}", self.name, if result.is_ok() { "passed" } else { "FAILED" });
        (result, took)
    }

    fn attempt(&self) -> Result<(), String> {
        let [program, arguments @ ..] = &self.words[..] else { return Err("an empty command".into()) };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.folder).envs(self.variables.iter().cloned());
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{program} ended with {status}")),
            Err(error) => Err(format!("{program} did not start: {error}")),
        }
    }
}

/// Returns whether a command exists and succeeds.
pub(crate) fn succeeds(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let Some(program) = words.next() else { return false };
    Command::new(program).args(words).current_dir(root()).output().is_ok_and(|output| output.status.success())
}
