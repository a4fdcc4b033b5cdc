//! How many instructions does the engine execute for a check? Counted by valgrind, so the same on a busy machine as on a
//! quiet one, and compared with a baseline that is kept beside this file.
//!
//!     cargo bench -p tollgate-bench --bench instructions               # exit code 1 when anything takes 2 % more
//!     cargo bench -p tollgate-bench --bench instructions -- --record   # writes the baseline anew
//!
//! Each scenario runs twice in processes of its own that differ in nothing but how many checks they do. The difference, by
//! the difference in checks, is what a check takes: neither starting up nor building the limiter is in it.
//!
//! valgrind itself is called, and not through a framework: gungraun keeps its baselines among build products, and wants a
//! runner of its own version installed on every machine.

mod baseline;
mod scenarios;

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use baseline::{Baseline, Change};
use scenarios::SCENARIOS;

/// Checks of the short process, and of the long one. Multiples of a batch.
const SHORT: usize = 960;
const LONG: usize = SHORT + 9_600;

const BASELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions/baseline.txt");

fn main() -> ExitCode {
    // cargo itself adds `--bench`.
    let words: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["--run", scenario, checks] => run(scenario, checks),
        [] => judged(compare()),
        ["--record"] => judged(record()),
        _ => judged(Err(format!("`{}`? There is only --record", words.join(" ")))),
    }
}

fn judged(outcome: Result<ExitCode, String>) -> ExitCode {
    outcome.unwrap_or_else(|why| {
        eprintln!("instructions: {why}");
        ExitCode::from(2)
    })
}

/// One scenario, in the process that is counted.
fn run(scenario: &str, checks: &str) -> ExitCode {
    let found = SCENARIOS.iter().find(|(name, _)| *name == scenario).zip(checks.parse().ok());
    let Some(((_, asks), checks)) = found else { return ExitCode::from(2) };
    asks(checks);
    ExitCode::SUCCESS
}

/// Whether valgrind is here; says so if not.
fn has_valgrind() -> bool {
    let found =
        Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        println!("Skipped: there is no valgrind here, which counts the instructions (apt install valgrind).");
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
        let (before, change) = baseline.judge(name, now);
        let before = before.map_or_else(|| "none".to_owned(), |before| format!("{before:.1}"));
        println!("{name:<34} {now:>8.1} {before:>9}   {change}");
        worse += usize::from(change.is_bad());
    }
    if baseline.compiler != compiler() {
        println!(
            "The baseline is of {}, and this is {}: another compiler makes other instructions, so nothing is judged. \
             Record the baseline of a commit that is known to be good.",
            baseline.compiler,
            compiler()
        );
        return Ok(ExitCode::SUCCESS);
    }
    if worse > 0 {
        println!("{worse} of {} are worse. If that is meant: -- --record, and say why.", SCENARIOS.len());
    }
    Ok(ExitCode::from(u8::from(worse > 0)))
}

/// Instructions a check.
fn count(scenario: &str) -> Result<f64, String> {
    let (short, long) = (executed(scenario, SHORT)?, executed(scenario, LONG)?);
    Ok((long as f64 - short as f64) / (LONG - SHORT) as f64)
}

/// Instructions of a whole process that does so many checks.
fn executed(scenario: &str, checks: usize) -> Result<u64, String> {
    let exe = env::current_exe().map_err(|error| error.to_string())?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(exe);
    // The size of the environment is in the count of what starts up.
    valgrind.args(["--run", scenario, &format!("{checks:06}")]).env_clear();
    valgrind.envs(env::var_os("PATH").map(|path| ("PATH", path)));
    let output = valgrind.output().map_err(|error| format!("valgrind: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    let collected = told.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    collected
        .filter(|_| output.status.success())
        .ok_or_else(|| format!("{scenario}: valgrind ended with {}:\n{told}", output.status))
}

/// By whom this was compiled, as far as `rustc` here tells.
fn compiler() -> String {
    let told = Command::new("rustc").arg("--version").output();
    let told = told.ok().and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let version = told.split(" (").next().unwrap_or_default().trim().to_owned();
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
