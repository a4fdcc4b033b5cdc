//! `cargo xtask fuzz`: runs the fuzz targets one after the other, with a summary.
//!
//! libFuzzer prints much. Its last lines are kept and printed if it finds something; otherwise a
//! line of progress is printed from time to time.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::root;
use crate::step::succeeds;

/// The time between lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// The last lines of libFuzzer that are printed after a finding: a panic, its case and its stack.
const KEPT_LINES: usize = 120;

/// The most bytes of an input. All seeds are shorter, and longer inputs are slow.
const MAX_INPUT: usize = 1024;

/// The seconds after which an input counts as endless.
const INPUT_TIMEOUT: u64 = 60;

/// The result of running a target.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    runs: u64,
    seconds: u64,
    /// The file with the input of a finding.
    artifact: Option<String>,
    /// Whether the run ended without an error.
    succeeded: bool,
}

/// Runs `only`, or every target, for `seconds` each.
pub(crate) fn run(seconds: u64, only: Option<&str>) -> Result<ExitCode, String> {
    if !succeeds("cargo +nightly --version") {
        return Err("fuzzing needs a nightly toolchain: rustup toolchain install nightly".into());
    }
    if !succeeds("cargo fuzz --version") {
        return Err("fuzzing needs cargo-fuzz: cargo install cargo-fuzz --locked".into());
    }
    let mut targets = targets()?;
    if let Some(only) = only {
        if !targets.iter().any(|target| target == only) {
            return Err(format!("{only} is no fuzz target: there are {}", targets.join(", ")));
        }
        targets.retain(|target| target == only);
    }
    let mut done = Vec::new();
    for target in targets {
        let outcome = fuzz_one(&target, seconds)?;
        done.push((target, outcome));
    }
    println!("\n=== summary");
    for (target, outcome) in &done {
        println!("  {target:12} {}", summary(target, outcome));
    }
    let succeeded = done.iter().all(|(_, outcome)| outcome.succeeded);
    Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn fuzz_one(target: &str, seconds: u64) -> Result<Outcome, String> {
    // New inputs go to a folder that git ignores. The seeds are only read.
    let (corpus, seeds) = (format!("fuzz/artifacts/corpus/{target}"), format!("fuzz/corpus/{target}"));
    std::fs::create_dir_all(root().join(&corpus)).map_err(|error| format!("{corpus}: {error}"))?;
    // A slow input that ends is no finding: the machine may have been suspended.
    let limits = format!(
        "-max_len={MAX_INPUT} -max_total_time={seconds} -timeout={INPUT_TIMEOUT} -report_slow_units={INPUT_TIMEOUT}"
    );
    let command = format!("cargo +nightly fuzz run {target} {corpus} {seeds} -- {limits}");
    println!("\n=== {target}: {command}");
    let [program, arguments @ ..] = &command.split(' ').collect::<Vec<_>>()[..] else {
        return Err("an empty command".into());
    };
    let child = Command::new(program).args(arguments).current_dir(root()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| format!("{program} did not start: {error}"))?;
    let stderr = child.stderr.take().ok_or("its output is missing")?;
    let (mut outcome, mut kept, mut shown) = (Outcome::default(), VecDeque::new(), Instant::now());
    for line in BufReader::new(stderr).split(b'\n') {
        let line = line.map_err(|error| format!("its output cannot be read: {error}"))?;
        let line = String::from_utf8_lossy(&line).into_owned();
        outcome.read_line(&line);
        if line.starts_with('#') && shown.elapsed() >= PROGRESS_INTERVAL {
            shown = Instant::now();
            println!("{target}: {line}");
        }
        if kept.len() == KEPT_LINES {
            kept.pop_front();
        }
        kept.push_back(line);
    }
    let status = child.wait().map_err(|error| format!("{program} did not end: {error}"))?;
    outcome.succeeded = status.success();
    if !outcome.succeeded {
        kept.iter().for_each(|line| println!("{line}"));
    }
    println!("=== {target}: {}", summary(target, &outcome));
    Ok(outcome)
}

impl Outcome {
    /// Reads a line of libFuzzer.
    fn read_line(&mut self, line: &str) {
        // `#1234  NEW    cov: ...`; at the end `Done 1234 runs in 56 second(s)`.
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if let ["Done", runs, "runs", "in", seconds, ..] = words[..] {
            self.runs = runs.parse().unwrap_or(self.runs);
            self.seconds = seconds.parse().unwrap_or(self.seconds);
        } else if let Some(runs) = words.first().and_then(|word| word.strip_prefix('#')?.parse().ok()) {
            self.runs = runs;
        } else if let Some((_, artifact)) = line.split_once("Test unit written to ") {
            self.artifact = Some(artifact.trim().to_owned());
        }
    }
}

fn summary(target: &str, outcome: &Outcome) -> String {
    let Outcome { runs, seconds, artifact, succeeded } = outcome;
    match artifact {
        Some(artifact) => {
            format!("FOUND after {runs} runs. To repeat it:\n    cargo +nightly fuzz run {target} {artifact}")
        }
        None if !succeeded => "FAILED to build or to run: see above".to_owned(),
        None => format!("{runs} runs in {seconds} s, {} a second, no findings", runs / (*seconds).max(1)),
    }
}

/// Returns the names of the files in `fuzz/fuzz_targets`.
fn targets() -> Result<Vec<String>, String> {
    let folder = root().join("fuzz/fuzz_targets");
    let files = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut targets: Vec<_> = files
        .filter_map(|file| file.ok()?.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned))
        .collect();
    targets.sort();
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(lines: &[&str]) -> Outcome {
        let mut outcome = Outcome::default();
        lines.iter().for_each(|line| outcome.read_line(line));
        outcome
    }

    #[test]
    fn the_last_line_of_libfuzzer_is_the_outcome() {
        let outcome = outcome_of(&[
            "INFO: seed corpus: files: 9",
            "#512\tNEW    cov: 7",
            "Done 1000 runs in 10 second(s)",
        ]);
        assert_eq!(outcome, Outcome { runs: 1000, seconds: 10, ..Outcome::default() });
        let text = summary("spec", &Outcome { succeeded: true, ..outcome });
        assert_eq!(text, "1000 runs in 10 s, 100 a second, no findings");
    }

    #[test]
    fn a_finding_has_the_command_that_repeats_it() {
        let outcome = outcome_of(&[
            "#77\tREDUCE cov: 7",
            "artifact_prefix='fuzz/artifacts/spec/'; Test unit written to fuzz/artifacts/spec/crash-0a",
        ]);
        let text = summary("spec", &outcome);
        assert!(text.starts_with("FOUND after 77 runs"), "{text}");
        assert!(text.ends_with("cargo +nightly fuzz run spec fuzz/artifacts/spec/crash-0a"), "{text}");
    }

    #[test]
    fn every_target_is_listed_in_the_package_and_has_seeds() {
        let manifest = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).expect("the package is there");
        for target in targets().expect("the folder is there") {
            assert!(manifest.contains(&format!("path = \"fuzz_targets/{target}.rs\"")), "{target}");
            let seeds = std::fs::read_dir(root().join("fuzz/corpus").join(&target)).expect(&target);
            assert!(seeds.count() > 0, "{target}");
        }
    }
}
