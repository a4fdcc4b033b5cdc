//! The targets that Tollgate supports: `cargo check` without warnings on each one that the
//! toolchain has.
//!
//! `cargo xtask test` runs the tests on the machine's own target. On the others the compiler reads
//! every line, and no test runs.

use std::process::Command;

use crate::root;
use crate::step::{Plan, Step};

/// As docs/engine.md lists them, with the name of the step that checks each.
const SUPPORTED: [(&str, &str); 6] = [
    ("check on x86_64 Linux", "x86_64-unknown-linux-gnu"),
    ("check on x86_64 Linux with musl", "x86_64-unknown-linux-musl"),
    ("check on arm64 Linux", "aarch64-unknown-linux-gnu"),
    ("check on x86_64 macOS", "x86_64-apple-darwin"),
    ("check on arm64 macOS", "aarch64-apple-darwin"),
    ("check on x86_64 Windows", "x86_64-pc-windows-msvc"),
];

/// One step a target; a target that is not installed is skipped by name.
pub(crate) fn checks() -> Vec<Plan> {
    let installed = installed();
    let is_installed = |target: &str| installed.lines().any(|line| line.trim() == target);
    SUPPORTED
        .map(|(name, target)| match is_installed(target) {
            true => Plan::Run(check(name, target)),
            false => Plan::Skip(name, "the target is not installed (rustup target add)"),
        })
        .into()
}

/// Not the tests: what they need may have C code, which `cargo check` would compile for the target.
fn check(name: &'static str, target: &str) -> Step {
    let packages = "-p tollgate -p tollgate-http -p tollgate-logs -p tollgate-rules -p tollgate-rules-file -p tollgate-tower -p tollgate-cli";
    // A folder of its own: other flags would have the ordinary one built anew each time.
    let command = format!("cargo check {packages} --target {target} --target-dir target/targets");
    Step::new(name, &command).with("RUSTFLAGS", "-D warnings")
}

/// The targets that rustup has installed, one a line. Without rustup there is none to be checked.
fn installed() -> String {
    let listed = Command::new("rustup").args(["target", "list", "--installed"]).current_dir(root()).output();
    listed.map_or_else(|_| String::new(), |listed| String::from_utf8_lossy(&listed.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_page_lists_the_targets_that_are_checked() {
        let page = std::fs::read_to_string(root().join("docs/engine.md")).expect("the page");
        let line = page.split("\n* ").find(|item| item.starts_with("Supported targets: "));
        let line = line.expect("the page lists the targets");
        let listed: Vec<&str> =
            line.split('`').skip(1).step_by(2).filter(|word| word.contains('-')).collect();
        assert_eq!(listed, SUPPORTED.map(|(_, target)| target));
    }
}
