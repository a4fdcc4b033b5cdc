//! Builds the test programs that must catch breaks, all by one command of cargo.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::check::{Check, LOOM};

/// The copy of the tree, and its target folder.
pub(super) struct TreeCopy {
    pub(super) tree: PathBuf,
    pub(super) target: PathBuf,
}

/// The test programs by their sources, from the repository's root: `tests/behaviour/main.rs`.
pub(super) type Programs = HashMap<String, PathBuf>;

/// What kept a build from its end.
#[derive(Debug, Default)]
pub(super) struct Errors {
    /// The file, from the repository's root, and the lines of each error.
    pub(super) places: Vec<(String, usize)>,
    pub(super) text: String,
}

/// Builds the programs of these checks.
pub(super) fn build(copy: &TreeCopy, checks: &[&Check]) -> Result<Programs, Errors> {
    let (loom, others): (Vec<&Check>, Vec<&Check>) = checks.iter().partition(|check| check.is_loom());
    let mut programs = Programs::new();
    if !others.is_empty() {
        let mut words: BTreeSet<String> = BTreeSet::new();
        let packages: BTreeSet<String> = others.iter().map(|check| check.package()).collect();
        words.extend(others.iter().map(|check| check.program()));
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--no-run", "--no-fail-fast", "--message-format", "json", "--all-features"]);
        cargo.args(packages.iter().flat_map(|package| ["-p", package]));
        cargo.args(words.iter().flat_map(|word| word.split(' ')));
        cargo.env("RUSTFLAGS", "--cap-lints allow").env("CARGO_PROFILE_DEV_DEBUG", "0");
        // Tests wait for less: see `tollgate_testing::wait`.
        cargo.env("TOLLGATE_QUIET", "1");
        cargo.arg("--target-dir").arg(copy.target.join("tests"));
        programs.extend(run(&mut cargo, &copy.tree, &copy.tree)?);
    }
    if !loom.is_empty() {
        let words: BTreeSet<String> = loom.iter().map(|check| check.program()).collect();
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--no-run", "--no-fail-fast", "--message-format", "json", "--release"]);
        cargo.args(words.iter().flat_map(|word| word.split(' ')));
        cargo.env("RUSTFLAGS", "--cfg loom --cap-lints allow");
        cargo.arg("--target-dir").arg(copy.target.join("loom"));
        programs.extend(run(&mut cargo, &copy.tree, &copy.tree.join(LOOM))?);
    }
    Ok(programs)
}

fn run(cargo: &mut Command, tree: &Path, folder: &Path) -> Result<Programs, Errors> {
    let output = cargo.current_dir(folder).stdin(Stdio::null()).output();
    let output = output.map_err(|error| Errors { places: Vec::new(), text: format!("cargo: {error}") })?;
    let mut programs = Programs::new();
    let mut errors = Errors::default();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        if let (Some(program), Some(source)) =
            (message["executable"].as_str(), message["target"]["src_path"].as_str())
            && message["profile"]["test"] == true
        {
            let source = Path::new(source).strip_prefix(tree).unwrap_or(Path::new(source));
            programs.insert(source.to_string_lossy().replace('\\', "/"), program.into());
        }
        if message["message"]["level"] == "error" {
            errors.add(&message["message"], tree);
        }
    }
    if output.status.success() {
        return Ok(programs);
    }
    if errors.text.is_empty() {
        errors.text = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    Err(errors)
}

impl Errors {
    fn add(&mut self, message: &Value, tree: &Path) {
        self.text.push_str(message["rendered"].as_str().unwrap_or_default());
        for span in message["spans"].as_array().into_iter().flatten() {
            let (Some(file), Some(line)) = (span["file_name"].as_str(), span["line_start"].as_u64()) else {
                continue;
            };
            let file = Path::new(file).strip_prefix(tree).unwrap_or(Path::new(file));
            self.places.push((file.to_string_lossy().replace('\\', "/"), line as usize));
        }
    }
}
