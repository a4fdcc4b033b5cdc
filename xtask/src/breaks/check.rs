//! The test that must catch a break: found, built and run by its name.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::trial::{self, Outcome, Trial};

/// `FILE: TEST`. The file is the root of a test binary: `tests/behaviour/main.rs`,
/// `loom-tests/tests/slots.rs`, `src/lib.rs`, or such a file of a package in `crates/`. The test
/// has its name in the test harness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    file: String,
    test: String,
}

/// The copy of the tree, and its target folder.
pub(super) struct TreeCopy {
    pub(super) tree: PathBuf,
    pub(super) target: PathBuf,
}

/// Tests with a time limit of their own run longer than usual, so that they do not miss a break by
/// chance.
const LONGER: (&str, Option<&str>) = ("LINEARIZABLE_SECONDS", Some("20"));

/// The folder of the loom tests, which are a package of their own.
const LOOM: &str = "loom-tests";

impl Check {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (file, test) = text.split_once(": ").ok_or("a check is a file, a colon, and a test")?;
        let is_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':');
        if !file.ends_with(".rs") || test.is_empty() || !test.chars().all(is_word) {
            return Err(format!("{text} is no test"));
        }
        Ok(Self { file: file.into(), test: test.into() })
    }

    /// Returns an error if the sources have no such test.
    pub(super) fn exists(&self, root: &Path) -> Result<(), String> {
        let file = root.join(&self.file);
        let modules = if self.file.ends_with("lib.rs") || self.file.ends_with("main.rs") {
            file.parent().unwrap_or(root).to_owned()
        } else {
            file.with_extension("")
        };
        let mut text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", self.file))?;
        read_all(&modules, &mut text);
        let name = self.test.rsplit("::").next().unwrap_or_default();
        if text.contains(&format!("fn {name}(")) { Ok(()) } else { Err(format!("{self} does not exist")) }
    }

    /// Returns the package's folder and the source as cargo calls it.
    fn package_and_source(&self) -> (&str, &str) {
        let at = self.file.find("tests/").filter(|&at| !self.file[at..].contains(LOOM));
        let at = match self.file.strip_prefix("loom-tests/") {
            Some(_) => Some(LOOM.len() + 1),
            None => at.or_else(|| self.file.find("src/")),
        };
        let (package, source) = self.file.split_at(at.unwrap_or(0));
        (package.trim_end_matches('/'), source)
    }

    /// Builds the test. The error is the output of cargo.
    pub(super) fn build(&self, copy: &TreeCopy) -> Result<Trial, String> {
        let (package, source) = self.package_and_source();
        let folder = copy.tree.join(package);
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--no-run"]);
        match source.strip_prefix("tests/") {
            Some(file) => cargo.args(["--test", file.trim_end_matches("/main.rs").trim_end_matches(".rs")]),
            None => cargo.arg("--lib"),
        };
        if package == LOOM {
            cargo.arg("--release").env("RUSTFLAGS", "--cfg loom -Awarnings");
            cargo.arg("--target-dir").arg(copy.target.join("loom"));
        } else {
            cargo.arg("--target-dir").arg(copy.target.join("tests"));
            if !package.is_empty() {
                // Metrics and log events are features.
                cargo.arg("--all-features");
            }
        }
        let binaries = trial::build(&mut cargo, &folder)?;
        let (_, binary) =
            binaries.into_iter().next().ok_or_else(|| format!("{} was not built", self.file))?;
        if !trial::tests_in(&binary)?.contains(&self.test) {
            return Err(format!("{} has no test {}", self.file, self.test));
        }
        Ok(Trial { binary, test: self.test.clone() })
    }

    /// Runs the built test.
    pub(super) fn run(&self, trial: &Trial, copy: &TreeCopy, limit: Duration) -> (Outcome, Duration) {
        trial.run(&copy.tree.join(self.package_and_source().0), LONGER, limit)
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.test)
    }
}

/// Appends the text of every file in the folder, if it exists.
fn read_all(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            read_all(&entry.path(), text);
        } else {
            text.push_str(&fs::read_to_string(entry.path()).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_knows_its_package() {
        let package_of = |text: &str| {
            let check = Check::parse(text).expect("it is a check");
            let (package, source) = check.package_and_source();
            (package.to_owned(), source.to_owned())
        };
        let owned = |package: &str, source: &str| (package.to_owned(), source.to_owned());
        assert_eq!(package_of("tests/behaviour/main.rs: refund::a"), owned("", "tests/behaviour/main.rs"));
        assert_eq!(package_of("src/lib.rs: key::tests::a"), owned("", "src/lib.rs"));
        assert_eq!(package_of("loom-tests/tests/slots.rs: a"), owned("loom-tests", "tests/slots.rs"));
        assert_eq!(package_of("crates/a/tests/b.rs: a"), owned("crates/a", "tests/b.rs"));
    }

    #[test]
    fn a_check_without_a_test_is_an_error() {
        let exists = |text: &str| Check::parse(text).and_then(|check| check.exists(crate::root()));
        assert!(exists("tests/behaviour/main.rs: refund::a_refund_never_fills_above_capacity").is_ok());
        assert!(exists("tests/behaviour/main.rs: refund::a_test_that_does_not_exist").is_err());
        let middleware = "crates/tollgate-tower/tests/middleware/main.rs";
        assert!(exists(&format!("{middleware}: published::a_burst_of_ten_admits_two_of_cost_five")).is_ok());
        assert!(exists(&format!("{middleware}: published::a_test_that_does_not_exist")).is_err());
        assert!(exists("tests/no_such_file.rs: a").is_err());
    }
}
