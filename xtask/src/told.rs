//! What a page of measurements says beside its figures, and what it needs for them.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::root;

/// The processor, as it calls itself.
pub(crate) fn processor() -> String {
    let told = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = told.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or(std::env::consts::ARCH, |(_, name)| name).to_owned()
}

/// How many of its threads we may use.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The commit of the sources, with a note if they differ from it; pages and pictures may.
pub(crate) fn commit() -> String {
    let changed = said("git status --porcelain -- :/*.rs :/*.toml :/Cargo.lock");
    said("git rev-parse --short HEAD") + if changed.is_empty() { "" } else { " with changes" }
}

/// The first line that a command prints, without its last full stop.
pub(crate) fn said(command: &str) -> String {
    let mut words = command.split(' ');
    let output =
        words.next().and_then(|program| Command::new(program).args(words).current_dir(root()).output().ok());
    let told = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    told.lines().next().unwrap_or_default().trim_end_matches('.').to_owned()
}

/// The middle one, of at least one; sorts them.
pub(crate) fn median(figures: &mut [f64]) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    let count = figures.len();
    f64::midpoint(figures[(count - 1) / 2], figures[count / 2])
}

/// What `cargo build --release` makes of this, wherever it puts it: the one binary among it.
pub(crate) fn built(what: &str) -> Result<PathBuf, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--message-format=json"]).args(what.split(' '));
    let output = cargo.current_dir(root()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo: {error}"))?;
    let told = String::from_utf8_lossy(&output.stdout);
    // One message a line; only the one about the binary has a path here and not null.
    let found = told.lines().rev().find_map(|line| line.split_once(r#""executable":""#)?.1.split_once('"'));
    let found = found.filter(|_| output.status.success());
    found.map(|(path, _)| path.into()).ok_or_else(|| format!("cargo built nothing of {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_of_any_order() {
        assert_eq!(median(&mut [9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0]), 2.5);
    }
}
