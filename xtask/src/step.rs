//! A step: one command, shown before it runs so that it can be repeated by hand.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::root;

/// A command to run, and how it is shown.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    words: Vec<String>,
    folder: PathBuf,
    variables: Vec<(&'static str, &'static str)>,
}

impl Step {
    /// `command` is split at its blanks; it runs in the repository.
    pub(crate) fn new(name: &'static str, command: &str) -> Self {
        let words = command.split_whitespace().map(str::to_owned).collect();
        Self { name, words, folder: root().to_owned(), variables: Vec::new() }
    }

    /// The same, run in this folder of the repository.
    pub(crate) fn within(mut self, folder: &str) -> Self {
        self.folder = root().join(folder);
        self
    }

    /// The same, with an environment variable set.
    pub(crate) fn with(mut self, variable: &'static str, value: &'static str) -> Self {
        self.variables.push((variable, value));
        self
    }

    /// How to repeat it in a shell, from the repository.
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

    /// Runs it, its output going where ours goes; an error says why it did not succeed.
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
        command.args(arguments).current_dir(&self.folder).envs(self.variables.iter().copied());
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{program} ended with {status}")),
            Err(error) => Err(format!("{program} did not start: {error}")),
        }
    }
}

/// Whether a command can be run and succeeds; what it says is dropped.
pub(crate) fn works(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let Some(program) = words.next() else { return false };
    Command::new(program).args(words).current_dir(root()).output().is_ok_and(|output| output.status.success())
}
