//! Builds the programs that are measured: the command and the server.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::error::BenchError;

/// Builds with `cargo build --release` and these arguments. Returns the path of the binary.
pub(crate) fn release(arguments: &str) -> Result<PathBuf, BenchError> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--message-format=json"]).args(arguments.split(' '));
    let output = cargo.current_dir(root()).stderr(Stdio::inherit()).output()?;
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let path = messages.lines().filter_map(executable).next_back().filter(|_| output.status.success());
    path.ok_or_else(|| BenchError::Tool(format!("cargo built no binary of {arguments}")))
}

/// Returns the path of the binary in a message of cargo, if it has one.
fn executable(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    Some(message["executable"].as_str()?.into())
}

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns whether a command exists and succeeds.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_message_with_a_binary_has_a_path() {
        assert_eq!(executable(r#"{"reason":"a","executable":"/b/c"}"#), Some("/b/c".into()));
        assert_eq!(executable(r#"{"reason":"a","executable":null}"#), None);
        assert_eq!(executable("Compiling"), None);
    }
}
