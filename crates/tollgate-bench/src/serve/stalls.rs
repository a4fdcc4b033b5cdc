//! The longest answer while rules are exchanged, state is saved, and the table grows.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::SystemTime;

use crate::error::BenchError;

use super::commands::{self, PIPELINE, fill, load};
use super::open_loop::{Answer, Latencies, OpenLoop};
use super::proxies::{Limits, request_of};
use super::servers::{Kind, Running, Servers};
use super::summary::{Row, Summary};

/// The longest stall that is allowed, in milliseconds.
const AT_MOST: f64 = 5.0;

/// How often a load is tried at most while its longest answer exceeds that.
const TRIES: u32 = 3;

/// Pipelines a second: a third of a core.
const RATE: f64 = 10_000.0;

/// Requests a second to the proxy, and their clients.
const REQUESTS: f64 = 8_000.0;
pub(super) const CLIENTS: u64 = 1_000_000;

/// The keys of the rule while rules are exchanged.
const RULE_KEYS: u64 = 1_000_000;

/// How long rules are exchanged, and how often.
const SECONDS: f64 = 10.0;
const RELOADS: u32 = 5;

/// Measures the longest stalls of servers with up to so many keys.
pub(super) fn measure(servers: &Servers, keys: u64, summary: &mut Summary) -> Result<(), BenchError> {
    println!("## The longest answer\n");
    println!(
        "{RATE} pipelines of {PIPELINE} commands a second, in an open loop. *Disturbed* are those during which"
    );
    println!(
        "the loader itself had no processor, or the server's core was taken by the host of this virtual"
    );
    println!(
        "machine, as a witness on that core saw: no server answers then. They count nowhere. *Taken* is"
    );
    println!(
        "for how long at most. A load whose longest answer exceeds {AT_MOST} ms is tried again, {TRIES} times in all,"
    );
    println!("and the shortest counts: a stall of the server's own comes back each time.\n");
    println!("| | p99.9 | longest | disturbed | taken |\n|---|---|---|---|---|");
    phases(servers, keys, summary).map_err(BenchError::Tool)?;
    println!();
    Ok(())
}

fn phases(servers: &Servers, keys: u64, summary: &mut Summary) -> Result<(), String> {
    let mut phases = Phases(summary);
    phases.tell(&format!("during growth to {keys} keys"), true, || {
        let server = servers.start(Kind::Tollgate)?;
        let latencies = load(&server, RATE, keys.div_ceil(PIPELINE), keys, commands::throttle)?;
        let live = metric(&server, "tollgate_call_keys")?;
        if live < keys as f64 * 0.999 {
            return Err(format!("{live} of {keys} keys are in debt"));
        }
        Ok(latencies)
    })?;

    let server = servers.start(Kind::Tollgate)?;
    let some_seconds = (RATE * SECONDS) as u64;
    let check = || load(&server, RATE, some_seconds, RULE_KEYS, commands::check);
    phases.tell("while nothing else happens", false, check)?;

    let interval = SECONDS / f64::from(RELOADS + 1);
    phases.tell(&format!("during {RELOADS} reloads"), true, || {
        let before = metric(&server, "tollgate_rules_generation")?;
        let changes = servers.change_rules(Kind::Tollgate, &server, RELOADS, interval)?;
        let latencies = check()?;
        changes.wait()?;
        let generation = metric(&server, "tollgate_rules_generation")?;
        if generation < before + f64::from(RELOADS) {
            return Err(format!("generation {generation} {RELOADS} reloads after {before}"));
        }
        Ok(latencies)
    })?;
    drop(server);

    let server = servers.start_saving()?;
    fill(&server, keys)?;
    let begun = SystemTime::now();
    phases.tell(&format!("during saves of {keys} keys"), true, || {
        load(&server, RATE, some_seconds * 2, keys, commands::throttle)
    })?;
    let saved = std::fs::metadata(servers.state()).and_then(|file| file.modified());
    if saved.map_err(|error| format!("no state was saved: {error}"))? < begun {
        return Err("no state was saved".to_owned());
    }
    drop(server);

    let kind = Kind::Proxy(Limits::Clients);
    if !servers.has(kind) {
        return Ok(());
    }
    phases.tell(&format!("of the proxy during growth to {CLIENTS} clients"), true, || {
        requests(&servers.start(kind)?, CLIENTS)
    })?;
    let server = servers.start(kind)?;
    requests(&server, CLIENTS)?;
    phases.tell(&format!("of the proxy during {RELOADS} reloads"), true, || {
        let changes = servers.change_rules(kind, &server, RELOADS, interval)?;
        let latencies = requests(&server, (REQUESTS * SECONDS) as u64)?;
        changes.wait()?;
        Ok(latencies)
    })
}

/// Loads, one after the other, and the table of what they found.
struct Phases<'s>(&'s mut Summary);

impl Phases<'_> {
    /// Loads a server and tells its longest answer: once, if there is no target.
    fn tell(
        &mut self,
        what: &str,
        has_target: bool,
        mut load: impl FnMut() -> Result<Latencies, String>,
    ) -> Result<(), String> {
        let (mut figure, mut note) = (f64::NAN, String::new());
        for tries in 1..=if has_target { TRIES } else { 1 } {
            eprintln!("stalls {what}, try {tries}");
            let latencies = load()?;
            let taken = latencies.taken.as_secs_f64() * 1e3;
            let longest = latencies.longest_millis();
            let (p999, disturbed) = (latencies.p999_micros(), latencies.disturbed);
            println!("| {what} | {p999:.0} us | {longest:.2} ms | {disturbed} | {taken:.2} ms |");
            if !latencies.is_disturbed() {
                // Of a number and none it is the number.
                figure = figure.min(longest);
            }
            note = match tries {
                1 => format!(" ({disturbed} of all disturbed; the core was taken for up to {taken:.1} ms)"),
                _ => format!(
                    " ({tries} tries; in the last {disturbed} disturbed, the core taken for up to {taken:.1} ms)"
                ),
            };
            if figure <= AT_MOST {
                break;
            }
        }
        if has_target {
            let what = format!("longest answer {what}");
            self.0.add(Row { what, figure, at_most: AT_MOST, unit: " ms", note });
        }
        Ok(())
    }
}

/// Sends one request of each of so many clients to a proxy.
fn requests(server: &Running, clients: u64) -> Result<Latencies, String> {
    let load = OpenLoop {
        port: server.http_port,
        rate: REQUESTS,
        messages: clients,
        answer: Answer::Http,
        message: &request_of,
    };
    load.run_with_witness()
}

/// Reads a metric without labels.
fn metric(server: &Running, name: &str) -> Result<f64, String> {
    let page = || {
        let mut stream = TcpStream::connect(("127.0.0.1", server.admin_port))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        Ok(page)
    };
    let page = page().map_err(|error: std::io::Error| format!("/metrics: {error}"))?;
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.trim().parse().ok()).ok_or_else(|| format!("{name} is not in\n{page}"))
}
