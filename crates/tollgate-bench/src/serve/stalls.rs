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
    println!("the loader itself had no processor; they count nowhere.\n");
    println!("| | p99.9 | longest | disturbed |\n|---|---|---|---|");
    phases(servers, keys, summary).map_err(BenchError::Tool)?;
    println!();
    Ok(())
}

fn phases(servers: &Servers, keys: u64, summary: &mut Summary) -> Result<(), String> {
    let mut tell = |what: &str, latencies: &Latencies, has_target: bool| {
        let longest = latencies.longest_millis();
        let (p999, disturbed) = (latencies.p999_micros(), latencies.disturbed);
        println!("| {what} | {p999:.0} us | {longest:.2} ms | {disturbed} |");
        if has_target {
            let what = format!("longest answer {what}");
            let figure = if latencies.is_disturbed() { f64::NAN } else { longest };
            summary.add(Row { what, figure, at_most: AT_MOST, unit: " ms", note: String::new() });
        }
    };
    let server = servers.start(Kind::Tollgate)?;
    eprintln!("stalls: growth");
    let growth = load(&server, RATE, keys.div_ceil(PIPELINE), keys, commands::throttle)?;
    let live = metric(&server, "tollgate_call_keys")?;
    if live < keys as f64 * 0.999 {
        return Err(format!("{live} of {keys} keys are in debt"));
    }
    tell(&format!("during growth to {keys} keys"), &growth, true);

    eprintln!("stalls: quiet");
    let some_seconds = (RATE * SECONDS) as u64;
    let quiet = load(&server, RATE, some_seconds, RULE_KEYS, commands::check)?;
    tell("while nothing else happens", &quiet, false);

    eprintln!("stalls: reloads");
    let changes = servers.change_rules(Kind::Tollgate, &server, RELOADS, SECONDS / f64::from(RELOADS + 1))?;
    let reloads = load(&server, RATE, some_seconds, RULE_KEYS, commands::check)?;
    changes.wait()?;
    let generation = metric(&server, "tollgate_rules_generation")?;
    if generation <= f64::from(RELOADS) {
        return Err(format!("generation {generation} after {RELOADS} reloads"));
    }
    tell(&format!("during {RELOADS} reloads"), &reloads, true);
    drop(server);

    eprintln!("stalls: saves");
    let server = servers.start_saving()?;
    fill(&server, keys)?;
    let begun = SystemTime::now();
    let saves = load(&server, RATE, some_seconds * 2, keys, commands::throttle)?;
    let saved = std::fs::metadata(servers.state()).and_then(|file| file.modified());
    if saved.map_err(|error| format!("no state was saved: {error}"))? < begun {
        return Err("no state was saved".to_owned());
    }
    tell(&format!("during saves of {keys} keys"), &saves, true);
    drop(server);

    let kind = Kind::Proxy(Limits::Clients);
    if !servers.has(kind) {
        return Ok(());
    }
    eprintln!("stalls: clients of the proxy");
    let server = servers.start(kind)?;
    tell(&format!("of the proxy during growth to {CLIENTS} clients"), &requests(&server, CLIENTS)?, true);
    eprintln!("stalls: reloads of the proxy");
    let changes = servers.change_rules(kind, &server, RELOADS, SECONDS / f64::from(RELOADS + 1))?;
    let reloads = requests(&server, (REQUESTS * SECONDS) as u64)?;
    changes.wait()?;
    tell(&format!("of the proxy during {RELOADS} reloads"), &reloads, true);
    Ok(())
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
    load.run()
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
