//! The instructions of a check, counted by valgrind and compared with the baseline in this folder.
//! Other activity of the machine does not affect the counts.
//!
//!     cargo bench -p tollgate-bench --bench instructions               # fails if a count rose 2 %
//!     cargo bench -p tollgate-bench --bench instructions -- --record   # writes a new baseline
//!
//! Each scenario runs in two processes with different numbers of checks. The difference of their
//! counts, divided by the difference in checks, is the count of a check, without the start of the
//! process and the building of the limiter.
//!
//! The benchmark calls valgrind directly. The framework gungraun would keep its baselines among
//! build products and require a runner of the same version on every machine.

mod baseline;
mod scenarios;

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use baseline::{Baseline, Change};
use scenarios::SCENARIOS;

/// The checks in the short process. Both numbers are multiples of a batch.
const SHORT: usize = 960;
/// The checks in the long process.
const LONG: usize = SHORT + 9_600;

const BASELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions/baseline.txt");

fn main() -> ExitCode {
    // cargo adds `--bench`.
    let words: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["--run", scenario, checks] => run(scenario, checks),
        [] => exit_code(compare()),
        ["--record"] => exit_code(record()),
        _ => exit_code(Err(format!("unknown arguments `{}`: only --record is known", words.join(" ")))),
    }
}

fn exit_code(result: Result<ExitCode, String>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("instructions: {error}");
        ExitCode::from(2)
    })
}

/// Runs a scenario in the process whose instructions are counted.
fn run(scenario: &str, checks: &str) -> ExitCode {
    let found = SCENARIOS.iter().find(|(name, _)| *name == scenario).zip(checks.parse().ok());
    let Some(((_, scenario), checks)) = found else { return ExitCode::from(2) };
    scenario(checks);
    ExitCode::SUCCESS
}

/// Returns whether valgrind is installed; if not, prints that.
fn has_valgrind() -> bool {
    let found =
        Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        println!(
            "Skipped: valgrind, which counts the instructions, is not installed (apt install valgrind)."
        );
    }
    found
}

fn record() -> Result<ExitCode, String> {
    if !has_valgrind() {
        return Err("nothing was recorded".to_owned());
    }
    let mut measured = Baseline::new(compiler());
    for (name, _) in SCENARIOS {
        let count = count(name)?;
        println!("{name:<34} {count:>8.1}");
        measured.add(name, count);
    }
    measured.write(Path::new(BASELINE))?;
    println!("Recorded in {BASELINE}");
    Ok(ExitCode::SUCCESS)
}

fn compare() -> Result<ExitCode, String> {
    if !has_valgrind() {
        return Ok(ExitCode::SUCCESS);
    }
    let baseline = Baseline::read(Path::new(BASELINE))?;
    println!("{:<34} {:>8} {:>9}", "instructions a check", "now", "baseline");
    let mut worse = 0;
    for (name, _) in SCENARIOS {
        let now = count(name)?;
        let (before, change) = baseline.compare(name, now);
        let before = before.map_or_else(|| "none".to_owned(), |before| format!("{before:.1}"));
        println!("{name:<34} {now:>8.1} {before:>9}   {change}");
        worse += usize::from(change.is_bad());
    }
    if baseline.compiler != compiler() {
        println!(
            "The baseline is of {}, and this is {}: compilers generate different instructions, so nothing is compared. \
             Record the baseline of a commit that is known to be good.",
            baseline.compiler,
            compiler()
        );
        return Ok(ExitCode::SUCCESS);
    }
    if worse > 0 {
        println!("{worse} of {} are worse. If that is intended: -- --record, and say why.", SCENARIOS.len());
    }
    Ok(ExitCode::from(u8::from(worse > 0)))
}

/// Counts the instructions of a check.
fn count(scenario: &str) -> Result<f64, String> {
    let (short, long) = (count_process(scenario, SHORT)?, count_process(scenario, LONG)?);
    Ok((long as f64 - short as f64) / (LONG - SHORT) as f64)
}

/// Counts the instructions of a process with this many checks.
fn count_process(scenario: &str, checks: usize) -> Result<u64, String> {
    let exe = env::current_exe().map_err(|error| error.to_string())?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(exe);
    // The environment is cleared, because the start of a process depends on its size.
    valgrind.args(["--run", scenario, &format!("{checks:06}")]).env_clear();
    valgrind.envs(env::var_os("PATH").map(|path| ("PATH", path)));
    let output = valgrind.output().map_err(|error| format!("valgrind: {error}"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    let collected = log.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    collected
        .filter(|_| output.status.success())
        .ok_or_else(|| format!("{scenario}: valgrind ended with {}:\n{log}", output.status))
}

/// Returns the version of `rustc` on the path and the architecture.
fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output();
    let text = output.ok().and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let version = text.split(" (").next().unwrap_or_default().trim().to_owned();
    format!("{version}, {}", env::consts::ARCH)
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Same => f.write_str(""),
            Self::More(percent) => write!(f, "{percent:+.1} %: WORSE"),
            Self::Less(percent) => write!(f, "{percent:+.1} %: better (record it)"),
            Self::Unknown => f.write_str("not in the baseline: record it"),
        }
    }
}
