//! `cargo xtask check`: the format, clippy, and the unit and model tests of what changed since
//! `main`. It takes less than a minute on two cores if all is built; `cargo xtask test` runs
//! everything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::root;
use crate::step::{Plan, Step, succeeds};

/// The random cases of each test, fewer than usual.
const CASES: &str = "50";

/// The engine's package.
const ENGINE: &str = "tollgate";

/// The package of the model: a change of it changes the answers that the engine must give.
const MODEL: &str = "tollgate-model";

/// The folder of what proves and is not shipped; its `model` is the package `tollgate-model`.
const PROOF: &str = "proof";

/// The packages that are not members of the workspace.
const LOOM: &str = "loom-tests";
const FUZZ: &str = "fuzz";

/// The packages and tests to check.
#[derive(Debug, Default, PartialEq, Eq)]
struct Scope {
    /// Packages of the workspace: clippy, and the unit tests.
    packages: BTreeSet<String>,
    /// Integration tests by package and binary, with the words that select tests; the empty word
    /// selects all.
    binaries: BTreeMap<(String, String), BTreeSet<String>>,
    /// Packages outside of the workspace, which must compile.
    outside: BTreeSet<String>,
}

/// Returns the steps for the files that changed since the branch left `main`.
pub(crate) fn plans() -> Result<Vec<Plan>, String> {
    let paths = changed_since("main")?;
    println!("{} files differ from main.", paths.len());
    let everywhere = packages_in(root());
    let scope = Scope::of(paths.iter().map(String::as_str), &everywhere);
    Ok(scope.steps(root()).into_iter().map(Plan::Run).collect())
}

/// Returns the files that differ from the commit at which the branch left `commit`, and untracked
/// files.
pub(crate) fn changed_since(commit: &str) -> Result<Vec<String>, String> {
    let base = git(&["merge-base", "HEAD", commit]).unwrap_or_else(|_| "HEAD".to_owned());
    let tracked = git(&["diff", "--name-only", "--no-renames", base.trim()])?;
    let untracked = git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(tracked.lines().chain(untracked.lines()).map(str::to_owned).collect())
}

fn git(words: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(words).current_dir(root()).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("git {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)))
    }
}

/// Returns the names of the workspace's packages.
fn packages_in(root: &Path) -> BTreeSet<String> {
    let named = |parent: &'static str, prefix: &'static str| {
        let folders = std::fs::read_dir(root.join(parent)).into_iter().flatten().flatten();
        let packages = folders.filter(|entry| entry.path().join("Cargo.toml").exists());
        packages.filter_map(move |entry| Some(format!("{prefix}{}", entry.file_name().into_string().ok()?)))
    };
    let around = named("crates", "").chain(named(PROOF, "tollgate-"));
    around.chain([ENGINE.to_owned(), "xtask".to_owned()]).collect()
}

impl Scope {
    fn of<'p>(paths: impl Iterator<Item = &'p str>, everywhere: &BTreeSet<String>) -> Self {
        let mut scope = Self::default();
        // These tests take a second and read all sources and documents.
        scope.packages.insert("xtask".into());
        scope.test(ENGINE, "repository", "");
        for path in paths {
            scope.add(path, everywhere);
        }
        scope
    }

    /// Adds the tests that a change of this file may break.
    fn add(&mut self, path: &str, everywhere: &BTreeSet<String>) {
        match &path.split('/').collect::<Vec<_>>()[..] {
            ["Cargo.toml" | "Cargo.lock"] => {
                self.packages.extend(everywhere.iter().cloned());
                self.test(ENGINE, "model", "");
            }
            ["src", ..] => {
                self.packages.insert(ENGINE.into());
                self.test(ENGINE, "model", "");
                self.test(ENGINE, "crossings", "programs");
            }
            ["tests", rest @ ..] => {
                self.packages.insert(ENGINE.into());
                self.tests_of(ENGINE, rest);
            }
            ["benches" | "examples", ..] => {
                self.packages.insert(ENGINE.into());
            }
            ["crates", name, rest @ ..] if everywhere.contains(*name) => self.add_package(name, rest),
            [PROOF, name, rest @ ..] if everywhere.contains(&format!("tollgate-{name}")) => {
                self.add_package(&format!("tollgate-{name}"), rest);
            }
            [package @ (LOOM | FUZZ), ..] => {
                self.outside.insert((*package).into());
            }
            // Documents, breaks and settings are read by the tests that always run.
            _ => {}
        }
    }

    /// Adds the tests that a change of the file `path` of a package may break.
    fn add_package(&mut self, name: &str, path: &[&str]) {
        self.packages.insert(name.into());
        if let ["tests", rest @ ..] = path {
            self.tests_of(name, rest);
        }
        if name == MODEL {
            self.test(ENGINE, "model", "");
        }
    }

    /// Adds the tests of a file below a package's `tests`: `save.rs`, `behaviour/save.rs`,
    /// `behaviour/save/exact.rs`.
    fn tests_of(&mut self, package: &str, path: &[&str]) {
        match path {
            [file] => {
                if let Some(binary) = file.strip_suffix(".rs") {
                    self.test(package, binary, "");
                }
            }
            [binary, "main.rs"] => self.test(package, binary, ""),
            // A folder that several binaries share is no binary: `steps` skips it, and clippy
            // compiles it.
            [binary, module, ..] => {
                self.test(package, binary, &format!("{}::", module.trim_end_matches(".rs")));
            }
            [] => {}
        }
    }

    /// Adds tests of a binary: those with `word` in their names.
    fn test(&mut self, package: &str, binary: &str, word: &str) {
        self.binaries.entry((package.into(), binary.into())).or_default().insert(word.into());
    }

    fn steps(&self, root: &Path) -> Vec<Step> {
        let mut steps = vec![Step::new("format", "cargo fmt --all --check")];
        let packages: String = self.packages.iter().map(|package| format!(" -p {package}")).collect();
        let clippy = format!("cargo clippy{packages} --all-targets --all-features -- -D warnings");
        steps.push(Step::new("clippy", &clippy));
        for package in &self.packages {
            let folder = root.join(folder(package));
            let has = |file: &str, flag: &'static str| folder.join(file).exists().then_some(flag);
            let flags = [has("src/lib.rs", " --lib"), has("src/main.rs", " --bins")].into_iter().flatten();
            let unit = format!("cargo test -q -p {package} --all-features{}", flags.collect::<String>());
            steps.push(Step::new("unit tests", &unit).with("PROPTEST_CASES", CASES));
        }
        for ((package, binary), words) in &self.binaries {
            if !is_binary(&root.join(folder(package)), binary) {
                // The binary was deleted or moved.
                continue;
            }
            let all = words.contains("");
            let words: String = words.iter().filter(|_| !all).map(|word| format!(" {word}")).collect();
            let tests = format!("cargo test -q -p {package} --all-features --test {binary} --{words}");
            steps.push(Step::new("tests", &tests).with("PROPTEST_CASES", CASES));
        }
        if self.outside.contains(LOOM) {
            let models = Step::new("loom models", "cargo check --release --tests --target-dir target");
            steps.push(models.within(LOOM).with("RUSTFLAGS", "--cfg loom"));
        }
        if self.outside.contains(FUZZ) && succeeds("cargo +nightly --version") {
            steps.push(Step::new("fuzz targets", "cargo +nightly check --target-dir target").within(FUZZ));
        }
        steps
    }
}

/// Returns the folder of a package, from the root of the repository.
fn folder(package: &str) -> String {
    match package {
        ENGINE => String::new(),
        "xtask" => package.to_owned(),
        _ => match package.strip_prefix("tollgate-") {
            Some(name) if root().join(PROOF).join(name).join("Cargo.toml").exists() => {
                format!("{PROOF}/{name}")
            }
            _ => format!("crates/{package}"),
        },
    }
}

/// Returns whether the package in this folder has this integration test.
fn is_binary(package: &Path, name: &str) -> bool {
    let tests = package.join("tests");
    tests.join(format!("{name}.rs")).exists() || tests.join(name).join("main.rs").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the commands for these files, without those of every check.
    fn commands(paths: &[&str]) -> Vec<String> {
        let everywhere = packages_in(root());
        let of = |paths: &[&str]| {
            let scope = Scope::of(paths.iter().copied(), &everywhere);
            scope.steps(root()).iter().map(Step::command).collect::<Vec<_>>()
        };
        let always = of(&[]);
        of(paths).into_iter().filter(|command| !always.contains(command)).collect()
    }

    /// Adds the number of random cases.
    fn drawn(command: &str) -> String {
        format!("PROPTEST_CASES='{CASES}' {command}")
    }

    #[test]
    fn a_check_always_has_the_format_and_the_repository() {
        let scope = Scope::of([].into_iter(), &packages_in(root()));
        let commands: Vec<String> = scope.steps(root()).iter().map(Step::command).collect();
        assert_eq!(
            commands,
            [
                "cargo fmt --all --check".to_owned(),
                "cargo clippy -p xtask --all-targets --all-features -- -D warnings".to_owned(),
                drawn("cargo test -q -p xtask --all-features --bins"),
                drawn("cargo test -q -p tollgate --all-features --test repository --"),
            ]
        );
        assert_eq!(
            self::commands(&["docs/why/engine.md", "proof/breaks/engine/a/b.break", "README.md"]),
            [""; 0]
        );
    }

    #[test]
    fn a_change_of_the_engine_runs_unit_and_model_tests() {
        assert_eq!(
            commands(&["src/table/slot.rs"]),
            [
                "cargo clippy -p tollgate -p xtask --all-targets --all-features -- -D warnings".to_owned(),
                drawn("cargo test -q -p tollgate --all-features --lib"),
                drawn("cargo test -q -p tollgate --all-features --test crossings -- programs"),
                drawn("cargo test -q -p tollgate --all-features --test model --"),
            ]
        );
    }

    #[test]
    fn a_change_of_the_model_runs_the_engines_model_tests() {
        let commands = commands(&["proof/model/src/grid.rs"]);
        assert!(
            commands.contains(&drawn("cargo test -q -p tollgate-model --all-features --lib")),
            "{commands:?}"
        );
        assert!(commands.contains(&drawn("cargo test -q -p tollgate --all-features --test model --")));
    }

    #[test]
    fn a_change_of_a_test_runs_its_module() {
        let words = |paths: &[&str]| {
            let commands = commands(paths);
            let tests: Vec<_> = commands.iter().filter_map(|command| command.split_once("--test ")).collect();
            tests.into_iter().map(|(_, words)| words.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(words(&["tests/behaviour/save/exact.rs"]), ["behaviour -- save::"]);
        assert_eq!(
            words(&["tests/behaviour/wait.rs", "tests/behaviour/lease.rs"]),
            ["behaviour -- lease:: wait::"]
        );
        assert_eq!(words(&["tests/behaviour/wait.rs", "tests/behaviour/main.rs"]), ["behaviour --"]);
        assert_eq!(words(&["tests/allocations.rs"]), ["allocations --"]);
        assert_eq!(words(&["crates/tollgate-cli/tests/state.rs"]), ["state --"]);
        // Shared by several binaries, and gone.
        assert_eq!(words(&["crates/tollgate-cli/tests/support/mod.rs", "tests/no_such_test.rs"]), [""; 0]);
    }

    #[test]
    fn a_change_of_the_manifest_checks_every_package() {
        let commands = commands(&["Cargo.toml"]);
        for package in packages_in(root()) {
            assert!(commands[0].contains(&format!(" -p {package} ")), "{package}: {}", commands[0]);
        }
    }

    #[test]
    fn packages_outside_of_the_workspace_are_compiled() {
        let models =
            "cd loom-tests && RUSTFLAGS='--cfg loom' cargo check --release --tests --target-dir target";
        assert_eq!(commands(&["loom-tests/tests/slots.rs"]), [models]);
    }
}
