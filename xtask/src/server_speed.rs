//! `cargo xtask server-speed`: what does a rate limiting layer take of an axum server? The server bare, behind
//! tollgate-tower and behind tower_governor, loaded by `wrk`. The answer is a page of Markdown.
//!
//! All servers are up and take turns, so that what else the machine does falls on all of them. Requests a second tell
//! what the loader and the server get of the machine; the server's own processor time tells what a request takes.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use crate::step::works;
use crate::told::{built, commit, median, processor, said, threads};

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
    title: &'static str,
    process: Child,
    port: u16,
    requests_a_second: Vec<f64>,
    p99_micros: Vec<f64>,
    cpu_micros: Vec<f64>,
}

impl Server {
    fn start(program: &str, name: &str, title: &'static str) -> Result<Self, String> {
        // Free now, and soon taken again.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = port.map_err(|error| format!("no port is free: {error}"))?.port();
        let mut command = Command::new(program);
        command.args([name, &port.to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
        let process = command.spawn().map_err(|error| format!("{program}: {error}"))?;
        let (requests_a_second, p99_micros, cpu_micros) = (Vec::new(), Vec::new(), Vec::new());
        let server = Self { title, process, port, requests_a_second, p99_micros, cpu_micros };
        for _ in 0..200 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(format!("the server {name} does not listen"))
    }

    /// Loads it for so many seconds.
    fn load(&mut self, seconds: u32) -> Result<(), String> {
        let before = self.cpu_micros()?;
        let url = format!("http://127.0.0.1:{}/", self.port);
        let output = Command::new("wrk")
            .args(["-t1", "-c32", &format!("-d{seconds}s"), "--latency", &url])
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

    fn row(&mut self) -> String {
        let requests = median(&mut self.requests_a_second);
        let (least, most) =
            (self.requests_a_second[0], self.requests_a_second[self.requests_a_second.len() - 1]);
        let (cpu, p99) = (median(&mut self.cpu_micros), median(&mut self.p99_micros) / 1_000.0);
        let quartile = |part: usize| self.cpu_micros[(self.cpu_micros.len() - 1) * part / 4];
        format!(
            "| {} | {requests:.0} | {least:.0} .. {most:.0} | {p99:.2} ms | {cpu:.3} us | {:.3} .. {:.3} |",
            self.title,
            quartile(1),
            quartile(3)
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
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

pub(crate) fn run(rounds: u32, seconds: u32) -> Result<ExitCode, String> {
    if !works("which wrk") {
        return Err("There is no wrk here, which loads the servers (apt install wrk).".to_owned());
    }
    let program = built("--package tollgate-bench --example axum_server")?;
    let program = program.to_str().ok_or("a path that is no text")?;
    let start = |(name, title)| Server::start(program, name, title);
    let mut servers = SERVERS.into_iter().map(start).collect::<Result<Vec<_>, _>>()?;
    // Once that nobody counts. Then in turn, each round beginning with another.
    servers.iter_mut().try_for_each(|server| server.load(1))?;
    for server in &mut servers {
        (server.requests_a_second, server.p99_micros, server.cpu_micros) = Default::default();
    }
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for turn in 0..servers.len() {
            let turn = (round as usize + turn) % servers.len();
            servers[turn].load(seconds)?;
        }
    }
    println!("# A rate limiting layer in front of an axum server\n");
    println!(
        "Written by `cargo xtask server-speed --rounds {rounds} --seconds {seconds}`, and never by hand."
    );
    println!("Each is loaded by `wrk -t1 -c32 -d{seconds}s --latency`, in turn: medians of {rounds} rounds,");
    println!("the range of requests a second, and the middle half of the server's CPU time a request.\n");
    println!("* Machine: {}, {} threads; load {}.", processor(), threads(), said("cat /proc/loadavg"));
    println!("* Commit {}.\n", commit());
    println!(
        "| | requests a second | range | p99 | CPU a request | middle half |\n|---|---|---|---|---|---|"
    );
    servers.iter_mut().for_each(|server| println!("{}", server.row()));
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
    fn processor_time_is_found_behind_any_name() {
        let stat = "7 (a) b 1 2) S 1 7 7 0 -1 4194304 100 0 0 0 23 19 0 0 20 0 3 0 1 2 3";
        assert_eq!(cpu_ticks(stat), Some(42.0));
    }
}
