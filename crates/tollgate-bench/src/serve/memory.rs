//! The memory of servers with many live keys.

use crate::error::BenchError;

use super::commands::fill;
use super::open_loop::{Answer, OpenLoop};
use super::proxies::{Limits, request_of};
use super::servers::{Kind, Running, Servers};
use super::stalls::CLIENTS;
use super::summary::{Row, Summary};

/// How much of redis-cell's memory ours may be, and of nginx's.
const AT_MOST: f64 = 0.25;
const PROXY_AT_MOST: f64 = 1.0;

/// What brings so many keys into debt.
type Fill = fn(&Running, u64) -> Result<(), String>;

/// Loads servers with so many keys and prints what memory they have then.
pub(super) fn measure(servers: &Servers, keys: u64, summary: &mut Summary) -> Result<(), BenchError> {
    let cell = [("tollgate", Kind::Tollgate), ("redis-cell", Kind::RedisCell)];
    compare(servers, "live keys", keys, cell, fill, AT_MOST, summary)?;
    let nginx = [
        ("tollgate proxy", Kind::Proxy(Limits::Clients)),
        ("nginx with `limit_req`", Kind::Nginx(Limits::Clients)),
    ];
    compare(servers, "clients of a proxy", CLIENTS, nginx, send, PROXY_AT_MOST, summary)
}

/// Sends a request of each client, as fast as the proxy takes them.
fn send(server: &Running, clients: u64) -> Result<(), String> {
    let load = OpenLoop {
        port: server.http_port,
        rate: f64::INFINITY,
        messages: clients,
        answer: Answer::Http,
        message: &request_of,
    };
    load.run().map(drop)
}

/// Compares the memory of the first of two servers with that of the second.
fn compare(
    servers: &Servers,
    what: &str,
    keys: u64,
    contestants: [(&str, Kind); 2],
    fill: Fill,
    at_most: f64,
    summary: &mut Summary,
) -> Result<(), BenchError> {
    println!("## Memory with {keys} {what}\n");
    println!("| | resident | the first divided by it |");
    println!("|---|---|---|");
    let mut ours = None;
    for (title, kind) in contestants {
        if !servers.has(kind) {
            continue;
        }
        eprintln!("memory of {title}");
        let server = servers.start(kind).map_err(BenchError::Tool)?;
        fill(&server, keys).map_err(BenchError::Tool)?;
        let resident = server.process.resident().map_err(BenchError::Tool)? as f64;
        let is_first = ours.is_none();
        let ratio = *ours.get_or_insert(resident) / resident;
        println!("| {title} | {:.0} MiB | {ratio:.2} |", resident / f64::from(1 << 20));
        if !is_first {
            let what = format!("memory with {keys} {what}, by that of {title}");
            summary.add(Row { what, figure: ratio, at_most, unit: "", note: String::new() });
        }
    }
    println!();
    Ok(())
}
