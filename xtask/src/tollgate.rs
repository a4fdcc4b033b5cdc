//! The command that other commands run.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::root;

/// The command line as a release build, wherever cargo puts it.
pub(crate) fn release() -> Result<PathBuf, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--package", "tollgate-cli", "--message-format=json"]);
    let output = cargo.current_dir(root()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo: {error}"))?;
    let told = String::from_utf8_lossy(&output.stdout);
    // One message a line; only the one about the binary has a path here and not null.
    let found = told.lines().rev().find_map(|line| line.split_once(r#""executable":""#)?.1.split_once('"'));
    let (path, _) = found.filter(|_| output.status.success()).ok_or("tollgate-cli was not built")?;
    Ok(path.into())
}
