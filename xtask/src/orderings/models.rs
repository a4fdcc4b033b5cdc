//! The loom models, built once and started with or without a weakening.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::copy::VARIABLE;
use crate::trial::{self, Outcome, Trial};

/// A loom test.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// `file::test`.
    pub(super) name: String,
    folder: PathBuf,
    trial: Trial,
}

/// Builds the models of the copied tree: those in `files`, or all if there are none.
pub(super) fn build(copy: &Path, target: &Path, files: &BTreeSet<&str>) -> Result<Vec<Model>, String> {
    let folder = copy.join("loom-tests");
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--release", "--no-run", "--target-dir"]).arg(target);
    cargo.args(files.iter().flat_map(|file| ["--test", file]));
    cargo.env("RUSTFLAGS", "--cfg loom -Awarnings");
    let binaries = trial::build(&mut cargo, &folder)?;
    let mut models = Vec::new();
    for (source, binary) in binaries {
        let Some(file) = source.strip_prefix("tests/") else { continue };
        let model = |test: String| Model {
            name: format!("{}::{test}", file.trim_end_matches(".rs")),
            folder: folder.clone(),
            trial: Trial { binary: binary.clone(), test },
        };
        models.extend(trial::tests_in(&binary)?.into_iter().map(model));
    }
    if models.is_empty() { Err("no model was built".into()) } else { Ok(models) }
}

impl Model {
    /// Runs the model for at most `limit`, with this weakening.
    pub(super) fn run(&self, weakening: Option<&str>, limit: Duration) -> (Outcome, Duration) {
        self.trial.run(&self.folder, &[(VARIABLE, weakening)], limit)
    }
}
