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
    println!(
        "and the shortest counts: a stall of the server's own comes back each time. Where the same load has"
    );
    println!("longer answers while nothing else happens, the others tell nothing.\n");
    println!("| | p99.9 | longest | disturbed | taken |\n|---|---|---|---|---|");
    phases(servers, keys, summary).map_err(BenchError::Tool)?;
    println!();
    Ok(())
}

fn phases(servers: &Servers, keys: u64, summary: &mut Summary) -> Result<(), String> {
    let server = servers.start(Kind::Tollgate)?;
    let some_seconds = (RATE * SECONDS) as u64;
    let check = || load(&server, RATE, some_seconds, RULE_KEYS, commands::check);
    let mut phases = Phases { control: 0.0, summary };
    phases.set_control("while nothing else happens", check)?;

    let interval = SECONDS / f64::from(RELOADS + 1);
    phases.tell(&format!("during {RELOADS} reloads"), || {
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

    // The same commands at the same rate: keys out of the cache take longer than those of a rule.
    let each_once = |server: &Running| load(server, RATE, keys.div_ceil(PIPELINE), keys, commands::throttle);
    let server = servers.start(Kind::Tollgate)?;
    fill(&server, keys)?;
    phases.set_control(&format!("of {keys} keys while nothing else happens"), || each_once(&server))?;
    drop(server);
    phases.tell(&format!("during growth to {keys} keys"), || {
        let server = servers.start(Kind::Tollgate)?;
        let latencies = each_once(&server)?;
        let live = metric(&server, "tollgate_call_keys")?;
        if live < keys as f64 * 0.999 {
            return Err(format!("{live} of {keys} keys are in debt"));
        }
        Ok(latencies)
    })?;

    let server = servers.start_saving()?;
    fill(&server, keys)?;
    let begun = SystemTime::now();
    phases.tell(&format!("during saves of {keys} keys"), || {
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
    let server = servers.start(kind)?;
    requests(&server, CLIENTS)?;
    let again = || requests(&server, (REQUESTS * SECONDS) as u64);
    phases.set_control("of the proxy while nothing else happens", again)?;
    phases.tell(&format!("of the proxy during {RELOADS} reloads"), || {
        let changes = servers.change_rules(kind, &server, RELOADS, interval)?;
        let latencies = again()?;
        changes.wait()?;
        Ok(latencies)
    })?;
    drop(server);
    phases.tell(&format!("of the proxy during growth to {CLIENTS} clients"), || {
        requests(&servers.start(kind)?, CLIENTS)
    })
}

/// Loads, one after the other, and the table of what they found.
struct Phases<'s> {
    /// The longest answer of the same load while nothing else happened.
    control: f64,
    summary: &'s mut Summary,
}

impl Phases<'_> {
    /// Loads a server with which nothing else happens. Where that has long answers, those of other
    /// loads tell nothing.
    fn set_control(
        &mut self,
        what: &str,
        load: impl FnMut() -> Result<Latencies, String>,
    ) -> Result<(), String> {
        (self.control, _) = shortest(what, load)?;
        Ok(())
    }

    /// Loads a server and tells its longest answer.
    fn tell(&mut self, what: &str, load: impl FnMut() -> Result<Latencies, String>) -> Result<(), String> {
        let (mut figure, tries) = shortest(what, load)?;
        let mut note = if tries > 1 { format!(" ({tries} tries)") } else { String::new() };
        if figure > AT_MOST && self.control > AT_MOST {
            note = format!(": {figure:.2} ms, and {:.2} ms while nothing else happened", self.control);
            figure = f64::NAN;
        }
        let what = format!("longest answer {what}");
        self.summary.add(Row { what, figure, at_most: AT_MOST, unit: " ms", note });
        Ok(())
    }
}

/// Loads a server, again while its longest answer exceeds the target. Returns the shortest of the
/// longest answers, in milliseconds, and the number of tries.
fn shortest(what: &str, mut load: impl FnMut() -> Result<Latencies, String>) -> Result<(f64, u32), String> {
    let mut figure = f64::NAN;
    for tries in 1..=TRIES {
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
        if figure <= AT_MOST {
            return Ok((figure, tries));
        }
    }
    Ok((figure, TRIES))
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
