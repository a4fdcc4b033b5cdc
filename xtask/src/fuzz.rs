//! `cargo xtask fuzz`: every fuzz target, one after the other.

use std::process::ExitCode;

use crate::root;
use crate::step::{Step, works};

pub(crate) fn run(seconds: u64) -> ExitCode {
    if !works("cargo +nightly --version") {
        eprintln!("Fuzzing needs a nightly toolchain: rustup toolchain install nightly");
        return ExitCode::FAILURE;
    }
    if !works("cargo fuzz --version") {
        eprintln!("Fuzzing needs cargo-fuzz: cargo install cargo-fuzz --locked");
        return ExitCode::FAILURE;
    }
    for target in targets() {
        // What is found goes where git does not look; the seeds are only read.
        let (found, seeds) = (format!("fuzz/artifacts/corpus/{target}"), format!("fuzz/corpus/{target}"));
        if let Err(error) = std::fs::create_dir_all(root().join(&found)) {
            eprintln!("{found}: {error}");
            return ExitCode::FAILURE;
        }
        let limits = format!("-max_len=600 -max_total_time={seconds}");
        let command = format!("cargo +nightly fuzz run {target} {found} {seeds} -- {limits}");
        let step = Step::new("fuzz", &command);
        if let (Err(reason), _) = step.run() {
            eprintln!("{reason}: what libFuzzer printed above says how to repeat it");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The names of the files in fuzz/fuzz_targets.
fn targets() -> Vec<String> {
    let folder = root().join("fuzz/fuzz_targets");
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut targets: Vec<_> = files
        .filter_map(|file| file.ok()?.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned))
        .collect();
    targets.sort();
    targets
}
