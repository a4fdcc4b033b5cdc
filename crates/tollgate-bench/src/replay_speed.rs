//! `tollgate-bench replay-speed FILE`: the speed of a replay, compared with goaccess, which only
//! counts, and `wc -l`, which only reads; and that of a replay by rules. The output is a page of
//! Markdown.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use crate::build;
use crate::error::BenchError;
use crate::machine::{Machine, command_output};
use crate::measure::Spread;

/// A limit that refuses some requests of most logs.
const LIMIT: &str = "token-bucket:60/min,burst=20";
/// The limit of the rules after a change.
const NEW_LIMIT: &str = "token-bucket:50/min,burst=20";
/// The target: this many times as fast as goaccess.
const TARGET: f64 = 10.0;
/// The target of rules: at most this many times as long as the same limit by `--limit` takes, with
/// the program of `--before` if there is one.
const RULES_TARGET: f64 = 2.0;

const REPLAY: &str = "tollgate replay";
const BY_RULES: &str = "tollgate replay --rules, one rule";
const DIFF: &str = "tollgate rules diff, one rule each";
const BEFORE: &str = "tollgate replay, --before";

/// A program that reads the file.
struct Reader {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    /// The duration of each run in seconds.
    seconds: Vec<f64>,
}

impl Reader {
    fn new(name: &'static str, program: impl Into<PathBuf>, arguments: &str, file: &str) -> Self {
        let words = arguments.split(' ').map(|word| if word == "FILE" { file } else { word });
        let arguments = words.map(str::to_owned).collect();
        Self { name, program: program.into(), arguments, seconds: Vec::new() }
    }

    /// Runs the program once.
    fn run_once(&mut self) -> Result<(), BenchError> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let begun = Instant::now();
        let output = command.output().map_err(|error| BenchError::Tool(format!("{}: {error}", self.name)))?;
        self.seconds.push(begun.elapsed().as_secs_f64());
        if output.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&output.stderr);
        Err(BenchError::Tool(format!("{} ended with {}: {why}", self.name, output.status)))
    }
}

/// Runs each program `runs` times.
pub(crate) fn run(file: &str, runs: usize, before: Option<&Path>) -> Result<ExitCode, BenchError> {
    if Path::new(file).extension().is_some_and(|extension| extension == "gz") {
        return Err(BenchError::invalid(
            Path::new(file),
            "unpack it first, so that all programs read the same bytes",
        ));
    }
    let bytes = fs::metadata(file).map_err(|error| BenchError::file(Path::new(file), error))?.len();
    let temporary =
        |name: &str| std::env::temp_dir().join(format!("replay-speed-{}.{name}", std::process::id()));
    let (report, old, new) = (temporary("html"), temporary("old.toml"), temporary("new.toml"));
    for (path, limit) in [(&old, LIMIT), (&new, NEW_LIMIT)] {
        let rule = format!("name = 'each'\nkey = 'client'\nlimits = '{limit}'\n");
        let written = fs::write(path, format!("version = 1\n[[rule]]\n{rule}"));
        written.map_err(|error| BenchError::file(path, error))?;
    }
    let counts =
        format!("FILE --no-global-config --no-progress --log-format=COMBINED --output={}", report.display());
    let tollgate = build::release("--package tollgate-cli")?;
    let (one, two) = (old.display(), new.display());
    let own = [
        (REPLAY, format!("replay FILE --limit {LIMIT} --json")),
        (BY_RULES, format!("replay --rules {one} FILE --json")),
        (DIFF, format!("rules diff {one} {two} FILE --json")),
    ];
    let own = own.map(|(name, arguments)| Reader::new(name, &tollgate, &arguments, file));
    let mut readers = Vec::from(own);
    if let Some(before) = before {
        readers.push(Reader::new(BEFORE, before, &format!("replay FILE --limit {LIMIT} --json"), file));
    }
    readers.push(Reader::new("wc -l", "wc", "-l FILE", file));
    if build::succeeds("goaccess", &["--version"]) {
        readers.push(Reader::new("goaccess", "goaccess", &counts, file));
    } else {
        eprintln!("goaccess is not installed (apt install goaccess), so it is left out.");
    }
    // Run 0 is not timed: it brings the file into memory. Then the programs take turns.
    for run in 0..=runs {
        for reader in &mut readers {
            reader.run_once()?;
            if run == 0 {
                reader.seconds.clear();
            }
        }
    }
    for path in [report, old, new] {
        let _ = fs::remove_file(path);
    }
    Ok(print_page(&mut readers, bytes as f64 / 1e6, runs, before))
}

/// Prints the page. The exit code is 1 if a target is missed; without goaccess, its target is not.
fn print_page(readers: &mut [Reader], megabytes: f64, runs: usize, before: Option<&Path>) -> ExitCode {
    println!("# Replaying a log, beside goaccess and `wc -l`\n");
    println!("Generated by `tollgate-bench replay-speed FILE`. A log of {megabytes:.1} MB in Combined");
    println!("format, in memory already; whole commands, medians of {runs} runs in turn.\n");
    println!("{}", Machine::now().lines());
    let goaccess = command_output("goaccess", &["--version"]).unwrap_or_default();
    println!("* {}", goaccess.lines().next().unwrap_or_default());
    println!(
        "* `tollgate replay FILE --limit {LIMIT} --json`, `goaccess FILE --log-format=COMBINED` to a page."
    );
    println!("* The same limit as a rule by `client`; `rules diff` compares it with `{NEW_LIMIT}`.");
    if let Some(before) = before {
        println!("* `--before` is `{}`.", before.display());
    }
    println!();
    println!("| | seconds | range | MB a second | by tollgate's time |\n|---|---|---|---|---|");
    let median = |reader: &Reader| Spread::of(reader.seconds.clone()).median;
    let own = median(&readers[0]);
    let one_limit = readers.iter().find(|reader| reader.name == BEFORE).map_or(own, median);
    let (mut is_met, mut are_rules_met, mut by_rules) = (true, true, Vec::new());
    for reader in readers {
        reader.seconds.sort_by(f64::total_cmp);
        let median = median(reader);
        let (least, most) = (reader.seconds[0], reader.seconds[reader.seconds.len() - 1]);
        let (name, speed, ratio) = (reader.name, megabytes / median, median / own);
        println!("| {name} | {median:.3} | {least:.3} .. {most:.3} | {speed:.0} | {ratio:.1} |");
        is_met &= name != "goaccess" || ratio >= TARGET;
        if [BY_RULES, DIFF].contains(&name) {
            are_rules_met &= median / one_limit <= RULES_TARGET;
            by_rules.push(format!("{name}, {:.2}", median / one_limit));
        }
    }
    let word = |is_met: bool| if is_met { "met" } else { "**missed**" };
    println!("\nTargets: {TARGET} times as fast as goaccess: {}; rules at most", word(is_met));
    let whose = if before.is_some() { "--before" } else { "this commit" };
    println!("{RULES_TARGET} times as long as the replay by `--limit` of {whose}: {}", word(are_rules_met));
    println!("({}).", by_rules.join("; "));
    ExitCode::from(u8::from(!(is_met && are_rules_met)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_file_is_refused_before_the_build() {
        assert!(run("access.log.gz", 1, None).is_err_and(|error| error.to_string().contains("unpack")));
        assert!(run("no such file", 1, None).is_err_and(|error| error.to_string().contains("no such file")));
    }
}
