//! `cargo xtask soak`: `tollgate stress` for every algorithm, with 1 to 8 threads and in a flood of
//! keys, on the real clock. It stops at the first key beyond its bound. With `--serve`, the server
//! over sockets; with `--proxy`, the proxy between clients that leave and upstreams that fail; with
//! `--fairness`, honest clients beside attackers; with `--redis`, random faults of a real store, in
//! the test `soak` of `tollgate-redis`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::root;
use crate::step::{Plan, Step};
use crate::test;

/// The threads of each run, which may be more than the machine's.
const THREADS: [&str; 4] = ["1", "2", "4", "8"];

/// Every algorithm with a limit that keys reach repeatedly, and with one that they reach once.
const LIMITS: [(&str, &str); 7] = [
    ("token-bucket:1000/s,burst=100", "token-bucket:100/h,burst=20"),
    ("leaky-bucket:1000/s,capacity=100", "leaky-bucket:100/h,capacity=20"),
    ("leaky-bucket:1000/s,capacity=100,mode=queue", "leaky-bucket:100/h,capacity=20,mode=queue"),
    ("fixed-window:100/100ms", "fixed-window:20/h"),
    ("sliding-window:100/100ms", "sliding-window:20/h"),
    ("sliding-window:100/s,subwindows=4", "sliding-window:20/h,subwindows=4"),
    ("sliding-log:100/100ms", "sliding-log:20/h"),
];

/// The result of a run.
struct StressReport {
    decisions: u64,
    row: String,
}

/// Runs what the options ask for. `None`: they are not known.
pub(crate) fn run(options: &[&str]) -> Option<Result<ExitCode, String>> {
    let (options, seconds) = match options {
        [options @ .., unit @ ("--seconds" | "--minutes"), length] => {
            let seconds = length.parse::<u32>().ok()?.checked_mul(if *unit == "--minutes" { 60 } else { 1 });
            (options, Some(seconds.filter(|&n| n > 0)?))
        }
        options => (options, None),
    };
    match options {
        [] => Some(engine(seconds.unwrap_or(5))),
        ["--serve"] => Some(Ok(test::run(vec![server(seconds.unwrap_or(600))]))),
        ["--proxy"] => Some(Ok(test::run(vec![proxy(seconds.unwrap_or(600))]))),
        ["--fairness"] => Some(Ok(test::run(vec![fairness(seconds.unwrap_or(600))]))),
        ["--redis"] => Some(Ok(test::run(vec![store(seconds.unwrap_or(600))]))),
        _ => None,
    }
}

/// The load on a server, for `seconds`.
fn server(seconds: u32) -> Plan {
    let test = "cargo test --release -p tollgate-cli --all-features --test serve soak:: -- --nocapture";
    Plan::Run(Step::new("soak over sockets", test).with("TOLLGATE_SOAK_SECONDS", seconds.to_string()))
}

/// The load on a proxy, for `seconds`.
fn proxy(seconds: u32) -> Plan {
    let test = "cargo test --release -p tollgate-server --test proxy_soak -- --nocapture";
    Plan::Run(Step::new("soak of the proxy", test).with("TOLLGATE_SOAK_SECONDS", seconds.to_string()))
}

/// Honest clients beside attackers, for `seconds`.
fn fairness(seconds: u32) -> Plan {
    let test = "cargo test --release -p tollgate-server --test fairness -- --nocapture --test-threads 1";
    let step = Step::new("honest clients beside attackers", test);
    Plan::Run(step.with("TOLLGATE_FAIRNESS_SECONDS", seconds.to_string()))
}

/// The random faults of real stores, for `seconds`: half on Redis, half on Valkey. One that cannot
/// be had is a failure.
fn store(seconds: u32) -> Plan {
    let test = "cargo test -p tollgate-redis --test soak -- --nocapture --exact random_faults_pass_no_bound";
    let step = Step::new("soak of the store", test).with("TOLLGATE_SOAK_SECONDS", seconds.to_string());
    Plan::Run(step.with("TOLLGATE_TOOLS", "required"))
}

/// Makes all runs of the engine, each for `seconds`.
fn engine(seconds: u32) -> Result<ExitCode, String> {
    let tollgate = build()?;
    let seconds = seconds.to_string();
    println!(
        "| limit | run | decisions | M a second | p99.9 (ns) | most admitted | of at most | bytes, of at most |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut decisions = 0;
    let mut runs = 0;
    for (limit, slow) in LIMITS {
        let crowd = THREADS.map(|threads| (limit, vec!["--threads", threads]));
        let flood = [limit, slow].map(|limit| (limit, vec!["--flood", "--track", "1000", "--threads", "4"]));
        for (limit, options) in crowd.into_iter().chain(flood) {
            let words = [&["--seconds", &seconds, "--limit", limit], &options[..]].concat();
            let report = stress(&tollgate, &words)?;
            println!("| `{limit}` | `{}` | {}", options.join(" "), report.row);
            decisions += report.decisions;
            runs += 1;
        }
    }
    println!("\n{decisions} decisions in {runs} runs, and no key beyond its bound.");
    Ok(ExitCode::SUCCESS)
}

/// Builds the command in release mode and returns the path of the binary.
fn build() -> Result<PathBuf, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--message-format=json", "--package", "tollgate-cli"]);
    let output = cargo.current_dir(root()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo: {error}"))?;
    let messages = String::from_utf8_lossy(&output.stdout);
    // Each line is a message; only the message of the binary has a path in this field.
    let path =
        messages.lines().rev().find_map(|line| line.split_once(r#""executable":""#)?.1.split_once('"'));
    let path = path.filter(|_| output.status.success());
    path.map(|(path, _)| path.into()).ok_or_else(|| "cargo did not build tollgate-cli".to_owned())
}

/// Makes one run. Returns an error if a key was admitted beyond its bound.
fn stress(tollgate: &Path, options: &[&str]) -> Result<StressReport, String> {
    let mut command = Command::new(tollgate);
    command.args(["stress", "--json"]).args(options).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("{}: {error}", tollgate.display()))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{stderr}To repeat it:\n  tollgate stress {}", options.join(" ")));
    }
    read(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| "stress printed no figures".to_owned())
}

/// Reads the figures of a run from its JSON object.
fn read(json: &str) -> Option<StressReport> {
    let number = |name: &str| {
        let (_, rest) = json.split_once(&format!("\"{name}\":"))?;
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        rest[..digits].parse::<u64>().ok()
    };
    let decisions = number("decisions")?;
    let row = format!(
        "{decisions} | {:.1} | {} | {} | {} | {}, {} |",
        number("decisions_per_s")? as f64 / 1e6,
        number("p99.9")?,
        number("admitted")?,
        number("bound")?,
        number("memory")?,
        number("memory_most")?,
    );
    Some(StressReport { decisions, row })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = r#"{"decisions":300,"decisions_per_s":2500000.0,"latency_ns":{"p99":7,"p99.9":80},"bound":9,
        "most_admitted":{"key":1,"admitted":8},"memory":256,"memory_most":512}"#;

    #[test]
    fn figures_are_read_from_the_output_of_a_run() {
        let report = read(OUTPUT).expect("it has all of them");
        assert_eq!((report.decisions, report.row.as_str()), (300, "300 | 2.5 | 80 | 8 | 9 | 256, 512 |"));
        assert!(read(&OUTPUT.replace("p99.9", "p99.8")).is_none());
    }

    #[test]
    fn a_run_that_fails_says_how_to_repeat_it() {
        let told = stress(Path::new("false"), &["--threads", "8"]);
        assert!(told.is_err_and(|why| why.contains("tollgate stress --threads 8")));
    }
}
