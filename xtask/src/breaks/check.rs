//! A test by its name: where it is, how it is built, and how it is run.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::trial::{self, Outcome, Trial};

/// `FILE: TEST`. The file is a test binary's root (`tests/behaviour/main.rs`, `loom-tests/tests/slots.rs`, `src/lib.rs`, also
/// of a package below `crates/`), the test as the test harness calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    file: String,
    test: String,
}

/// Where the copy of the tree is, and what was built of it.
pub(super) struct Bench {
    pub(super) tree: PathBuf,
    pub(super) target: PathBuf,
}

/// Tests that look for as long as they are told look longer than in the ordinary command, so that chance does not decide.
const LONGER: (&str, Option<&str>) = ("LINEARIZABLE_SECONDS", Some("20"));

/// The folder of the loom tests, a package of its own.
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

    /// Whether the sources have such a test.
    pub(super) fn is_written(&self, root: &Path) -> Result<(), String> {
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

    /// The package's folder, and the source as cargo calls it.
    fn place(&self) -> (&str, &str) {
        let at = self.file.find("tests/").filter(|&at| !self.file[at..].contains(LOOM));
        let at = match self.file.strip_prefix("loom-tests/") {
            Some(_) => Some(LOOM.len() + 1),
            None => at.or_else(|| self.file.find("src/")),
        };
        let (package, source) = self.file.split_at(at.unwrap_or(0));
        (package.trim_end_matches('/'), source)
    }

    /// Builds it. An error is what cargo said.
    pub(super) fn build(&self, bench: &Bench) -> Result<Trial, String> {
        let (package, source) = self.place();
        let folder = bench.tree.join(package);
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--no-run"]);
        match source.strip_prefix("tests/") {
            Some(file) => cargo.args(["--test", file.trim_end_matches("/main.rs").trim_end_matches(".rs")]),
            None => cargo.arg("--lib"),
        };
        if package == LOOM {
            cargo.arg("--release").env("RUSTFLAGS", "--cfg loom -Awarnings");
            cargo.arg("--target-dir").arg(bench.target.join("loom"));
        } else {
            cargo.arg("--target-dir").arg(bench.target.join("tests"));
        }
        let binaries = trial::build(&mut cargo, &folder)?;
        let (_, binary) =
            binaries.into_iter().next().ok_or_else(|| format!("{} was not built", self.file))?;
        if !trial::tests_in(&binary)?.contains(&self.test) {
            return Err(format!("{} has no test {}", self.file, self.test));
        }
        Ok(Trial { binary, test: self.test.clone() })
    }

    /// Runs what was built.
    pub(super) fn run(&self, trial: &Trial, bench: &Bench, limit: Duration) -> (Outcome, Duration) {
        trial.run(&bench.tree.join(self.place().0), LONGER, limit)
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.test)
    }
}

/// Adds the text of every file below the folder, if there is one.
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
        let place = |text: &str| {
            let check = Check::parse(text).expect("it is a check");
            let (package, source) = check.place();
            (package.to_owned(), source.to_owned())
        };
        let owned = |package: &str, source: &str| (package.to_owned(), source.to_owned());
        assert_eq!(place("tests/behaviour/main.rs: refund::a"), owned("", "tests/behaviour/main.rs"));
        assert_eq!(place("src/lib.rs: key::tests::a"), owned("", "src/lib.rs"));
        assert_eq!(place("loom-tests/tests/slots.rs: a"), owned("loom-tests", "tests/slots.rs"));
        assert_eq!(place("crates/a/tests/b.rs: a"), owned("crates/a", "tests/b.rs"));
    }

    #[test]
    fn a_check_that_nobody_wrote_is_found_out() {
        let written = |text: &str| Check::parse(text).and_then(|check| check.is_written(crate::root()));
        assert!(written("tests/behaviour/main.rs: refund::a_refund_never_fills_above_capacity").is_ok());
        assert!(written("tests/behaviour/main.rs: refund::a_refund_that_nobody_wrote").is_err());
        let middleware = "crates/tollgate-tower/tests/middleware/main.rs";
        assert!(written(&format!("{middleware}: published::of_cost_five_capacity_ten_admits_two")).is_ok());
        assert!(written(&format!("{middleware}: published::nobody_wrote_this")).is_err());
        assert!(written("tests/no_such_file.rs: a").is_err());
    }
}
