//! `tollgate-bench server-speed`: the cost of a rate limiting layer in an axum server. `wrk` loads
//! the server bare, behind tollgate-tower and behind tower_governor. The output is a page of
//! Markdown.
//!
//! The server has one core and `wrk` another, so that the server is the bottleneck and the
//! scheduler moves neither. All servers run and take turns under load. Each round compares them
//! with its first server, so that other activity of the machine affects all of a round. The median
//! of many rounds is precise where a single round is not.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use crate::build;
use crate::error::BenchError;
use crate::machine::Machine;
use crate::measure::Spread;

/// The cores of the servers and of `wrk`.
const CORES: [&str; 2] = ["0", "1"];

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
    process: Child,
    port: u16,
    requests_a_second: Vec<f64>,
    p99_micros: Vec<f64>,
    cpu_micros: Vec<f64>,
}

impl Server {
    fn start(program: &str, name: &'static str, title: &'static str) -> Result<Self, String> {
        let (process, port) = spawn_server(program, name)?;
        let (requests_a_second, p99_micros, cpu_micros) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { name, title, process, port, requests_a_second, p99_micros, cpu_micros })
    }

    /// Restarts the server and warms it up.
    fn restart(&mut self, program: &str) -> Result<(), String> {
        self.stop();
        (self.process, self.port) = spawn_server(program, self.name)?;
        self.load(1)?;
        for figures in [&mut self.requests_a_second, &mut self.p99_micros, &mut self.cpu_micros] {
            figures.pop();
        }
        Ok(())
    }

    fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Loads the server and adds the figures.
    fn load(&mut self, seconds: u32) -> Result<(), String> {
        let before = self.cpu_micros()?;
        let url = format!("http://127.0.0.1:{}/", self.port);
        let output = Command::new("taskset")
            .args(["-c", CORES[1], "wrk", "-t1", "-c32", &format!("-d{seconds}s"), "--latency", &url])
            .output()
            .map_err(|error| format!("wrk: {error}"))?;
        let cpu = self.cpu_micros()? - before;
        let text = String::from_utf8_lossy(&output.stdout);
        let report =
            WrkReport::parse(&text).ok_or_else(|| format!("{url}: wrk printed no valid report:\n{text}"))?;
        self.requests_a_second.push(report.requests_a_second);
        self.p99_micros.push(report.p99_micros);
        self.cpu_micros.push(cpu / report.requests);
        Ok(())
    }

    /// Returns the user and system time of the process so far.
    fn cpu_micros(&self) -> Result<f64, String> {
        let path = format!("/proc/{}/stat", self.process.id());
        let stat = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        cpu_ticks(&stat).map(|ticks| ticks * 10_000.0).ok_or_else(|| format!("{path}: {stat}"))
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

/// Returns how much figures exceed those of another server in the same rounds: the median and its
/// confidence interval.
fn excess(figures: &[f64], others: &[f64]) -> String {
    let mut percents: Vec<_> =
        figures.iter().zip(others).map(|(one, other)| (one / other - 1.0) * 100.0).collect();
    percents.sort_by(f64::total_cmp);
    let median = Spread::of(percents.clone()).median;
    let (low, high) = median_interval(percents.len());
    format!("{median:+.1} % ({:+.1} .. {:+.1})", percents[low], percents[high])
}

/// The fewest rounds whose range contains the median with a confidence of 95 %.
const MIN_ROUNDS: u32 = 6;

/// Returns the indices of the two sorted figures that contain the median of their distribution with
/// a confidence of 95 %. With fewer than [`MIN_ROUNDS`] figures, these are the first and the last.
fn median_interval(count: usize) -> (usize, usize) {
    // The number of figures below the median is binomial with probability 1/2. The interval is 1.96
    // standard deviations to each side.
    let margin = 1.96 * (count as f64).sqrt() / 2.0;
    let least = (count as f64 / 2.0 - margin).floor().max(1.0) as usize - 1;
    (least, count - 1 - least)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts a server and returns its process and port once it listens.
fn spawn_server(program: &str, name: &str) -> Result<(Child, u16), String> {
    // A port that is free now.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let port = port.map_err(|error| format!("no port is free: {error}"))?.port();
    let mut command = Command::new("taskset");
    command.args(["-c", CORES[0], program, name, &port.to_string()]);
    let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let process = process.map_err(|error| format!("{program}: {error}"))?;
    for _ in 0..200 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok((process, port));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(format!("the server {name} does not listen"))
}

/// Returns the user and system time of `/proc/PID/stat`, in hundredths of a second.
fn cpu_ticks(stat: &str) -> Option<f64> {
    // The name is in brackets and may contain blanks. User and system time are fields 14 and 15.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some(next()? + next()?)
}

/// The figures in the output of `wrk`.
#[derive(Debug, PartialEq)]
struct WrkReport {
    requests: f64,
    requests_a_second: f64,
    p99_micros: f64,
}

impl WrkReport {
    /// `None` if the output is no report, or if a response was an error.
    fn parse(text: &str) -> Option<Self> {
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
    if machine.threads < CORES.len() {
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
    fn the_median_interval_has_a_confidence_of_95_percent() {
        // The whole range of a few figures; about two standard deviations to each side of many.
        assert_eq!([1, 5, 10, 25, 100].map(median_interval), [(0, 0), (0, 4), (0, 9), (6, 18), (39, 60)]);
        for count in 1..=200_u32 {
            // The probability that at most `least` figures are on one side of the median.
            let least = median_interval(count as usize).0 as u32;
            let next_term = |term: &mut f64, k: u32| {
                let current = *term;
                *term *= f64::from(count - k) / f64::from(k + 1);
                Some(current)
            };
            let outside = 2.0 * (0..=least).scan(0.5_f64.powi(count as i32), next_term).sum::<f64>();
            assert_eq!(outside <= 0.05, count >= MIN_ROUNDS, "{outside} of {count}");
        }
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

    #[test]
    fn processor_time_is_found_after_any_process_name() {
        let stat = "7 (a) b 1 2) S 1 7 7 0 -1 4194304 100 0 0 0 23 19 0 0 20 0 3 0 1 2 3";
        assert_eq!(cpu_ticks(stat), Some(42.0));
    }
}
