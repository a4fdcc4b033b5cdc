//! The test that must catch a break.

use std::fmt;
use std::fs;
use std::path::Path;

/// `FILE: TEST`. The file is the root of a test program: `tests/behaviour/main.rs`,
/// `loom-tests/tests/slots.rs`, `src/lib.rs`, or such a file of a package in `crates/`. The test
/// has its name in the test harness.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Check {
    pub(super) file: String,
    pub(super) test: String,
}

/// The folder of the loom tests, which are a package of their own.
pub(super) const LOOM: &str = "loom-tests";

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

    pub(super) fn is_loom(&self) -> bool {
        self.file.starts_with(LOOM)
    }

    /// Returns the package's folder, from the repository's root, and the source below it.
    pub(super) fn folder_and_source(&self) -> (&str, &str) {
        let words: Vec<(usize, &str)> = self.file.match_indices('/').collect();
        let end = match self.file.split('/').next() {
            Some("crates" | "proof") => words.get(1).map_or(0, |(at, _)| at + 1),
            Some(LOOM) => LOOM.len() + 1,
            _ => 0,
        };
        let (folder, source) = self.file.split_at(end);
        (folder.trim_end_matches('/'), source)
    }

    /// Returns the name of the package.
    pub(super) fn package(&self) -> String {
        let (folder, _) = self.folder_and_source();
        match folder.split_once('/') {
            Some(("proof", name)) => format!("tollgate-{name}"),
            Some((_, name)) => name.to_owned(),
            None if folder.is_empty() => "tollgate".to_owned(),
            None => folder.to_owned(),
        }
    }

    /// Returns the options by which cargo selects the program.
    pub(super) fn program(&self) -> String {
        match self.folder_and_source().1.strip_prefix("tests/") {
            Some(file) => format!("--test {}", file.trim_end_matches("/main.rs").trim_end_matches(".rs")),
            None => "--lib".to_owned(),
        }
    }

    /// Returns whether this file, from the repository's root, is of the test's outermost module.
    pub(super) fn is_in(&self, path: &str) -> bool {
        let (outer, is_nested) = match self.test.split_once("::") {
            Some((outer, _)) => (outer, true),
            None => ("", false),
        };
        let folder = match self.file.strip_suffix("/main.rs").or(self.file.strip_suffix("/lib.rs")) {
            Some(folder) => folder,
            None => self.file.trim_end_matches(".rs"),
        };
        let rest = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
        let is_module =
            |rest: &str| rest.split('/').next().is_some_and(|name| name.trim_end_matches(".rs") == outer);
        path == self.file || is_nested && rest.is_some_and(is_module)
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

    fn check(text: &str) -> Check {
        Check::parse(text).expect("it is a check")
    }

    #[test]
    fn a_check_knows_its_package_and_program() {
        let of = |text: &str| (check(text).package(), check(text).program());
        let owned = |package: &str, program: &str| (package.to_owned(), program.to_owned());
        assert_eq!(of("tests/behaviour/main.rs: refund::a"), owned("tollgate", "--test behaviour"));
        assert_eq!(of("src/lib.rs: key::tests::a"), owned("tollgate", "--lib"));
        assert_eq!(of("loom-tests/tests/slots.rs: a"), owned("loom-tests", "--test slots"));
        assert_eq!(of("crates/a/tests/b.rs: a"), owned("a", "--test b"));
        assert_eq!(of("proof/model/src/lib.rs: a"), owned("tollgate-model", "--lib"));
    }

    #[test]
    fn a_check_knows_the_files_of_its_module() {
        let nested = check("tests/behaviour/main.rs: refund::deep::a");
        assert!(nested.is_in("tests/behaviour/refund.rs") && nested.is_in("tests/behaviour/refund/deep.rs"));
        assert!(nested.is_in("tests/behaviour/main.rs") && !nested.is_in("tests/behaviour/refunds.rs"));
        let flat = check("crates/a/tests/b.rs: a");
        assert!(flat.is_in("crates/a/tests/b.rs") && !flat.is_in("crates/a/tests/c.rs"));
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
