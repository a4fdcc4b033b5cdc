//! How many requests of one trace proxies admit under one limit, and how many they may.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::error::BenchError;

use super::proxies::Limits;
use super::servers::{Kind, Servers};
use super::summary::{Row, Summary};

/// The limit that all are given.
const RATE: f64 = 10.0;
const BURST: f64 = 20.0;

/// The trace: bursts with pauses, and a flood. Waits before each group, and the requests in it.
const TRACE: [(u64, u32); 9] =
    [(2_500, 30), (1_050, 15), (450, 10), (2_100, 40), (50, 1), (50, 1), (3_000, 25), (975, 12), (0, 200)];

/// A request, in seconds since the first.
struct Sent {
    at: f64,
    answered: f64,
    is_admitted: bool,
}

/// Sends the trace to each proxy.
pub(super) fn measure(servers: &Servers, summary: &mut Summary) -> Result<(), BenchError> {
    let mut table = format!(
        "One trace under a limit of {RATE}/s, {BURST} at once. *Exactly* is what a token bucket admits that saw each\n\
         request when it was sent. *Above* are the requests beyond burst + rate * interval, in the interval where\n\
         they are most.\n\n\
         | | requests | admitted | exactly | above |\n|---|---|---|---|---|\n"
    );
    for (title, kind) in [
        ("tollgate proxy", Kind::Proxy(Limits::Trace)),
        ("nginx with `limit_req`", Kind::Nginx(Limits::Trace)),
        ("Envoy with a local limit", Kind::Envoy(Limits::Trace)),
    ] {
        if !servers.has(kind) {
            continue;
        }
        eprintln!("trace: {title}");
        let server = servers.start(kind).map_err(BenchError::Tool)?;
        let sent = replay(server.http_port).map_err(|error| BenchError::Tool(format!("{title}: {error}")))?;
        let admitted = sent.iter().filter(|one| one.is_admitted).count();
        let (exact, above) = (exact(&sent), above(&sent));
        table += &format!("| {title} | {} | {admitted} | {exact} | {above} |\n", sent.len());
        if kind == Kind::Proxy(Limits::Trace) {
            summary.add(Row {
                what: "requests of a trace above its limit".to_owned(),
                figure: above as f64,
                at_most: 0.0,
                unit: "",
                note: format!(" (admitted {admitted} of {}; exactly {exact})", sent.len()),
            });
        }
    }
    println!("## One trace\n\n{table}");
    summary.append(table);
    Ok(())
}

/// Sends the trace by one connection.
fn replay(port: u16) -> std::io::Result<Vec<Sent>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let (begun, mut sent) = (Instant::now(), Vec::new());
    for (wait, requests) in TRACE {
        std::thread::sleep(Duration::from_millis(wait));
        for _ in 0..requests {
            let at = begun.elapsed().as_secs_f64();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
            let status = answer(&mut stream)?;
            sent.push(Sent { at, answered: begun.elapsed().as_secs_f64(), is_admitted: status == 200 });
        }
    }
    Ok(sent)
}

/// Reads an answer. Returns its status.
fn answer(stream: &mut TcpStream) -> std::io::Result<u16> {
    let wrong = |read: &[u8]| std::io::Error::other(String::from_utf8_lossy(read).into_owned());
    let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buffer)? {
            0 => return Err(wrong(&read)),
            length => read.extend(&buffer[..length]),
        }
        let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let length: usize = length.ok_or_else(|| wrong(&read))?;
        if read.len() >= end + 4 + length {
            return head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(|| wrong(&read));
        }
    }
}

/// How many requests a token bucket admits. It is full at the first.
fn exact(sent: &[Sent]) -> usize {
    let (mut tokens, mut last) = (BURST, 0.0);
    let mut admits = |one: &&Sent| {
        tokens = (tokens + (one.at - last) * RATE).min(BURST);
        last = one.at;
        let admits = tokens >= 1.0;
        if admits {
            tokens -= 1.0;
        }
        admits
    };
    sent.iter().filter(&mut admits).count()
}

/// The most requests admitted in any interval beyond what the limit allows there. The interval
/// counts from when its first request was sent until the answer to its last one was there: in
/// between the proxy decided both, so the rest is above the limit at any instants in there.
fn above(sent: &[Sent]) -> usize {
    let admitted: Vec<&Sent> = sent.iter().filter(|one| one.is_admitted).collect();
    let mut above = 0;
    for (first, from) in admitted.iter().enumerate() {
        for (count, to) in (1..).zip(&admitted[first..]) {
            let may = (BURST + (to.answered - from.at) * RATE).floor() as usize;
            above = above.max(usize::saturating_sub(count, may));
        }
    }
    above
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(times: &[f64]) -> Vec<Sent> {
        times.iter().map(|&at| Sent { at, answered: at, is_admitted: true }).collect()
    }

    #[test]
    fn what_a_limit_admits_is_counted_over_every_interval() {
        let burst: Vec<f64> = vec![0.0; 25];
        assert_eq!((exact(&sent(&burst)), above(&sent(&burst))), (20, 5));
        let late: Vec<f64> = [vec![0.0; 1], vec![100.0; 22]].concat();
        assert_eq!((exact(&sent(&late)), above(&sent(&late))), (21, 2));
        let paced: Vec<f64> = (0..100).map(|at| f64::from(at) / 9.0).collect();
        assert_eq!((exact(&sent(&paced)), above(&sent(&paced))), (100, 0));
    }
}
