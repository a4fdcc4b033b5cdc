//! `tollgate-bench server-speed`: the cost of a rate limiting layer in an axum server. `wrk` loads
//! the server bare, behind tollgate-tower and behind tower_governor. The output is a page of
//! Markdown.
//!
//! The server has one core and `wrk` another, so that the server is the bottleneck and the
//! scheduler moves neither. All servers run and take turns under load. Each round compares them
//! with its first server, so that other activity of the machine affects all of a round. The median
//! of many rounds is precise where a single round is not.

use std::process::{Command, ExitCode};

use crate::build;
use crate::error::BenchError;
use crate::machine::Machine;
use crate::measure::Spread;
use crate::paired::{MIN_ROUNDS, excess};
use crate::process::{CORES, LOADER, Process};

/// The rounds after which the servers restart: the random memory layout of a process makes it
/// faster or slower for its lifetime.
const ROUNDS_A_PROCESS: u32 = 5;

/// The names of the servers in the example, and their titles.
const SERVERS: [(&str, &str); 6] = [
    ("bare", "bare"),
    ("two-headers", "a layer that puts in two headers of fixed text"),
    ("tollgate", "tollgate-tower, `RateLimit` and `RateLimit-Policy`"),
    ("governor", "tower_governor, `x-ratelimit-*`"),
    ("tollgate-no-headers", "tollgate-tower, no headers"),
    ("governor-no-headers", "tower_governor, no headers"),
];

/// A server and its figures, one of each kind for each round.
struct Server {
    name: &'static str,
    title: &'static str,
    process: Process,
    requests_a_second: Vec<f64>,
    p99_micros: Vec<f64>,
    cpu_micros: Vec<f64>,
}

impl Server {
    fn start(program: &str, name: &'static str, title: &'static str) -> Result<Self, String> {
        let process = spawn(program, name)?;
        let (requests_a_second, p99_micros, cpu_micros) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { name, title, process, requests_a_second, p99_micros, cpu_micros })
    }

    /// Restarts the server and warms it up.
    fn restart(&mut self, program: &str) -> Result<(), String> {
        self.process = spawn(program, self.name)?;
        self.load(1)?;
        for figures in [&mut self.requests_a_second, &mut self.p99_micros, &mut self.cpu_micros] {
            figures.pop();
        }
        Ok(())
    }

    /// Loads the server and adds the figures.
    fn load(&mut self, seconds: u32) -> Result<(), String> {
        let before = self.process.cpu_micros()?;
        let url = format!("http://127.0.0.1:{}/", self.process.port);
        let output = Command::new("taskset")
            .args(["-c", LOADER, "wrk", "-t1", "-c32", &format!("-d{seconds}s"), "--latency", &url])
            .output()
            .map_err(|error| format!("wrk: {error}"))?;
        let cpu = self.process.cpu_micros()? - before;
        let text = String::from_utf8_lossy(&output.stdout);
        let report =
            WrkReport::parse(&text).ok_or_else(|| format!("{url}: wrk printed no valid report:\n{text}"))?;
        self.requests_a_second.push(report.requests_a_second);
        self.p99_micros.push(report.p99_micros);
        self.cpu_micros.push(cpu / report.requests);
        Ok(())
    }

    fn row(&self, first: &Self) -> String {
        let median = |figures: &[f64]| Spread::of(figures.to_vec()).median;
        format!(
            "| {} | {:.0} | {} | {:.0} us | {:.2} us | {} |",
            self.title,
            median(&self.requests_a_second),
            excess(&self.requests_a_second, &first.requests_a_second),
            median(&self.p99_micros),
            median(&self.cpu_micros),
            excess(&self.cpu_micros, &first.cpu_micros),
        )
    }
}

/// Starts a server of the example on the servers' core.
fn spawn(program: &str, name: &str) -> Result<Process, String> {
    Process::start(name, |command, port| {
        command.args([program, name, &port.to_string()]);
        Ok(())
    })
}

/// Returns the servers with these names; all if there are no names.
fn chosen(only: &[String]) -> Result<Vec<(&'static str, &'static str)>, String> {
    if only.is_empty() {
        return Ok(SERVERS.into());
    }
    let find = |name: &String| SERVERS.into_iter().find(|(known, _)| known == name);
    let names = SERVERS.map(|(name, _)| name).join(", ");
    only.iter()
        .map(|name| find(name).ok_or_else(|| format!("there is no server {name:?} among {names}")))
        .collect()
}

/// The figures in the output of `wrk`.
#[derive(Debug, PartialEq)]
pub(crate) struct WrkReport {
    pub(crate) requests: f64,
    pub(crate) requests_a_second: f64,
    pub(crate) p99_micros: f64,
}

impl WrkReport {
    /// `None` if the output is no report, or if a response was an error.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::trim);
        if lines.clone().any(|line| line.starts_with("Non-2xx") || line.starts_with("Socket errors")) {
            return None;
        }
        let p99 = lines.find_map(|line| line.strip_prefix("99%"))?.trim();
        let unit = p99.find(char::is_alphabetic)?;
        let micros = match &p99[unit..] {
            "us" => 1.0,
            "ms" => 1e3,
            "s" => 1e6,
            _ => return None,
        };
        let requests = lines.find_map(|line| line.split_once(" requests in "))?.0;
        let rate = lines.find_map(|line| line.strip_prefix("Requests/sec:"))?.trim();
        Some(Self {
            requests: requests.parse().ok().filter(|&requests| requests > 0.0)?,
            requests_a_second: rate.parse().ok()?,
            p99_micros: p99[..unit].parse::<f64>().ok()? * micros,
        })
    }
}

/// Runs the measurement. `only` names the servers; the others are compared with the first.
pub(crate) fn run(rounds: u32, seconds: u32, only: &[String]) -> Result<ExitCode, BenchError> {
    if !build::succeeds("which", &["wrk", "taskset"]) {
        return Err(BenchError::Tool(
            "wrk, which loads the servers, or taskset is not installed (apt install wrk util-linux)."
                .to_owned(),
        ));
    }
    let machine = Machine::now();
    if machine.threads < CORES {
        return Err(BenchError::Tool("The server and the loader need a core each.".to_owned()));
    }
    let chosen = chosen(only).map_err(BenchError::Tool)?;
    let program = build::release("--package tollgate-bench --example axum_server")?;
    let program = program.to_str().ok_or_else(|| BenchError::Tool("a path that is no text".to_owned()))?;
    let start = |(name, title)| Server::start(program, name, title);
    let servers: Result<Vec<_>, _> = chosen.into_iter().map(start).collect();
    let mut servers = servers.map_err(BenchError::Tool)?;
    // The order of the servers rotates from round to round.
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        if round % ROUNDS_A_PROCESS == 0 {
            servers.iter_mut().try_for_each(|server| server.restart(program)).map_err(BenchError::Tool)?;
        }
        for turn in 0..servers.len() {
            let turn = (round as usize + turn) % servers.len();
            servers[turn].load(seconds).map_err(BenchError::Tool)?;
        }
    }
    let first = &servers[0];
    println!("# A rate limiting layer in front of an axum server\n");
    println!(
        "Generated by `tollgate-bench server-speed`. Each server has one core and is loaded from another by"
    );
    println!("`wrk -t1 -c32 -d{seconds}s --latency`, in turn: medians of {rounds} rounds, every");
    println!(
        "{ROUNDS_A_PROCESS} of them in new processes. The excess over the first server is compared within each round: its median, and in brackets the interval of the median with a confidence of {} 95 %.\n",
        if rounds < MIN_ROUNDS { "less than" } else { "at least" }
    );
    println!("{}", machine.lines());
    println!("| | requests a second | above {0} | p99 | CPU a request | above {0} |", first.title);
    println!("|---|---|---|---|---|---|");
    servers.iter().for_each(|server| println!("{}", server.row(first)));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRK_OUTPUT: &str = "Running 1s test @ http://127.0.0.1:3000/
  1 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   300.11us  353.94us   7.40ms   91.99%
    Req/Sec   118.73k    12.27k  134.26k    80.00%
  Latency Distribution
     50%  219.00us
     99%    1.78ms
  118190 requests in 1.00s, 14.88MB read
Requests/sec: 118129.26
Transfer/sec:     14.87MB
";

    #[test]
    fn wrks_output_is_read_unless_a_response_failed() {
        let report = WrkReport { requests: 118_190.0, requests_a_second: 118_129.26, p99_micros: 1_780.0 };
        assert_eq!(WrkReport::parse(WRK_OUTPUT), Some(report));
        assert_eq!(WrkReport::parse(&format!("{WRK_OUTPUT}  Non-2xx or 3xx responses: 7\n")), None);
        assert_eq!(WrkReport::parse("unable to connect"), None);
    }

    #[test]
    fn servers_are_chosen_by_name_in_the_given_order() {
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            Ok(chosen(&only)?.iter().map(|(name, _)| *name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["tollgate", "bare"]), Ok(vec!["tollgate", "bare"]));
        assert_eq!(names(&[]).map(|all| all.len()), Ok(SERVERS.len()));
        assert!(names(&["bare", "gate"]).is_err_and(|why: String| why.contains("\"gate\" among bare, ")));
    }
}
