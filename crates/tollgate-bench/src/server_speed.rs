//! `tollgate-bench server-speed`: what does a rate limiting layer take of an axum server? The server bare, behind
//! tollgate-tower and behind tower_governor, loaded by `wrk`. The answer is a page of Markdown.
//!
//! The server has one core and the loader another, so that the server is what limits them and nobody moves about. All
//! servers are up and take turns, and each round compares them with the first one of that round: what else the machine
//! does falls on all of a round, and the median of many rounds is certain where a single one is not.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use crate::build;
use crate::fault::Fault;
use crate::machine::Machine;
use crate::measure::Spread;

/// The cores of the servers and of the loader.
const CORES: [&str; 2] = ["0", "1"];

/// Then the servers are started anew: where a process happens to lie in memory makes it faster or slower for good.
const ROUNDS_A_PROCESS: u32 = 5;

/// What the example calls its servers, and what they are.
const SERVERS: [(&str, &str); 6] = [
    ("bare", "bare"),
    ("two-headers", "a layer that puts in two headers of fixed text"),
    ("tollgate", "tollgate-tower, `RateLimit` and `RateLimit-Policy`"),
    ("governor", "tower_governor, `x-ratelimit-*`"),
    ("tollgate-no-headers", "tollgate-tower, no headers"),
    ("governor-no-headers", "tower_governor, no headers"),
];

/// One server, and what each round found.
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
        let (process, port) = listening(program, name)?;
        let (requests_a_second, p99_micros, cpu_micros) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { name, title, process, port, requests_a_second, p99_micros, cpu_micros })
    }

    /// The same in a new process, warm.
    fn restart(&mut self, program: &str) -> Result<(), String> {
        self.stop();
        (self.process, self.port) = listening(program, self.name)?;
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

    /// Loads it for so many seconds.
    fn load(&mut self, seconds: u32) -> Result<(), String> {
        let before = self.cpu_micros()?;
        let url = format!("http://127.0.0.1:{}/", self.port);
        let output = Command::new("taskset")
            .args(["-c", CORES[1], "wrk", "-t1", "-c32", &format!("-d{seconds}s"), "--latency", &url])
            .output()
            .map_err(|error| format!("wrk: {error}"))?;
        let cpu = self.cpu_micros()? - before;
        let told = String::from_utf8_lossy(&output.stdout);
        let heard =
            Heard::of(&told).ok_or_else(|| format!("{url}: wrk did not say what was asked:\n{told}"))?;
        self.requests_a_second.push(heard.requests_a_second);
        self.p99_micros.push(heard.p99_micros);
        self.cpu_micros.push(cpu / heard.requests);
        Ok(())
    }

    /// The processor time that it has taken by now, its own and the system's for it.
    fn cpu_micros(&self) -> Result<f64, String> {
        let path = format!("/proc/{}/stat", self.process.id());
        let told = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        cpu_ticks(&told).map(|ticks| ticks * 10_000.0).ok_or_else(|| format!("{path}: {told}"))
    }

    fn row(&self, first: &Self) -> String {
        let middle = |figures: &[f64]| Spread::of(figures.to_vec()).median;
        format!(
            "| {} | {:.0} | {} | {:.0} us | {:.2} us | {} |",
            self.title,
            middle(&self.requests_a_second),
            above(&self.requests_a_second, &first.requests_a_second),
            middle(&self.p99_micros),
            middle(&self.cpu_micros),
            above(&self.cpu_micros, &first.cpu_micros),
        )
    }
}

/// The servers of these names, or all.
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

/// By how much figures are above the others of their rounds: the median, and where it stands for certain.
fn above(figures: &[f64], others: &[f64]) -> String {
    let mut more: Vec<_> =
        figures.iter().zip(others).map(|(one, other)| (one / other - 1.0) * 100.0).collect();
    more.sort_by(f64::total_cmp);
    let middle = Spread::of(more.clone()).median;
    let (least, most) = certain(more.len());
    format!("{middle:+.1} % ({:+.1} .. {:+.1})", more[least], more[most])
}

/// With fewer rounds than this, not even all of them are certain of a median in 95 of 100 cases.
const CERTAIN: u32 = 6;

/// Between which two of so many sorted figures the median of what they are drawn from stands, in 95 of 100 cases; of fewer
/// than [`CERTAIN`], the first and the last.
fn certain(count: usize) -> (usize, usize) {
    // The number of figures below it is binomial, with a half: that many standard deviations to each side.
    let aside = 1.96 * (count as f64).sqrt() / 2.0;
    let least = (count as f64 / 2.0 - aside).floor().max(1.0) as usize - 1;
    (least, count - 1 - least)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A process that serves, and its port.
fn listening(program: &str, name: &str) -> Result<(Child, u16), String> {
    // Free now, and soon taken again.
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

/// User and system time out of `/proc/PID/stat`, in hundredths of a second.
fn cpu_ticks(stat: &str) -> Option<f64> {
    // The name may hold blanks and stands in brackets; user and system time are the 14th and 15th field.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some(next()? + next()?)
}

/// What `wrk` said.
#[derive(Debug, PartialEq)]
struct Heard {
    requests: f64,
    requests_a_second: f64,
    p99_micros: f64,
}

impl Heard {
    /// `None` also when not all answers were good.
    fn of(told: &str) -> Option<Self> {
        let mut lines = told.lines().map(str::trim);
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

/// `only`: the names of some servers; the first is the one that the others are compared with.
pub(crate) fn run(rounds: u32, seconds: u32, only: &[String]) -> Result<ExitCode, Fault> {
    if !build::works("which", &["wrk", "taskset"]) {
        return Err(Fault::Tool(
            "wrk, which loads the servers, or taskset is not here (apt install wrk util-linux).".to_owned(),
        ));
    }
    let machine = Machine::now();
    if machine.threads < CORES.len() {
        return Err(Fault::Tool("The server and the loader need a core each.".to_owned()));
    }
    let chosen = chosen(only).map_err(Fault::Tool)?;
    let program = build::release("--package tollgate-bench --example axum_server")?;
    let program = program.to_str().ok_or_else(|| Fault::Tool("a path that is no text".to_owned()))?;
    let start = |(name, title)| Server::start(program, name, title);
    let servers: Result<Vec<_>, _> = chosen.into_iter().map(start).collect();
    let mut servers = servers.map_err(Fault::Tool)?;
    // In turn, each round beginning with another.
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        if round % ROUNDS_A_PROCESS == 0 {
            servers.iter_mut().try_for_each(|server| server.restart(program)).map_err(Fault::Tool)?;
        }
        for turn in 0..servers.len() {
            let turn = (round as usize + turn) % servers.len();
            servers[turn].load(seconds).map_err(Fault::Tool)?;
        }
    }
    let first = &servers[0];
    println!("# A rate limiting layer in front of an axum server\n");
    println!(
        "Written by `tollgate-bench server-speed`, and never by hand. Each has one core and is loaded from another by"
    );
    println!("`wrk -t1 -c32 -d{seconds}s --latency`, in turn: medians of {rounds} rounds, every");
    println!(
        "{ROUNDS_A_PROCESS} of them in new processes. What comes on top of the first is compared within each round; its median, and in brackets where that stands with a certainty of {} 95 %.\n",
        if rounds < CERTAIN { "less than" } else { "at least" }
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

    const TOLD: &str = "Running 1s test @ http://127.0.0.1:3000/
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
    fn what_wrk_says_is_read_unless_an_answer_was_not_good() {
        let heard = Heard { requests: 118_190.0, requests_a_second: 118_129.26, p99_micros: 1_780.0 };
        assert_eq!(Heard::of(TOLD), Some(heard));
        assert_eq!(Heard::of(&format!("{TOLD}  Non-2xx or 3xx responses: 7\n")), None);
        assert_eq!(Heard::of("unable to connect"), None);
    }

    #[test]
    fn a_median_is_as_certain_as_there_are_figures() {
        // All of a few figures; of more, two standard deviations of the binomial to each side.
        assert_eq!([1, 5, 10, 25, 100].map(certain), [(0, 0), (0, 4), (0, 9), (6, 18), (39, 60)]);
        for count in 1..=200_u32 {
            // How often no more than `least` figures are on one side of it, or on the other.
            let least = certain(count as usize).0 as u32;
            let one_more = |ways: &mut f64, k: u32| {
                let now = *ways;
                *ways *= f64::from(count - k) / f64::from(k + 1);
                Some(now)
            };
            let outside = 2.0 * (0..=least).scan(0.5_f64.powi(count as i32), one_more).sum::<f64>();
            assert_eq!(outside <= 0.05, count >= CERTAIN, "{outside} of {count}");
        }
    }

    #[test]
    fn servers_are_chosen_by_name_and_in_that_order() {
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            Ok(chosen(&only)?.iter().map(|(name, _)| *name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["tollgate", "bare"]), Ok(vec!["tollgate", "bare"]));
        assert_eq!(names(&[]).map(|all| all.len()), Ok(SERVERS.len()));
        assert!(names(&["bare", "gate"]).is_err_and(|why: String| why.contains("\"gate\" among bare, ")));
    }

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "7 (a) b 1 2) S 1 7 7 0 -1 4194304 100 0 0 0 23 19 0 0 20 0 3 0 1 2 3";
        assert_eq!(cpu_ticks(stat), Some(42.0));
    }
}
