//! Very many connections held open at once, and what each takes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::alone::is_alone;
use super::limits::resident;
use super::start;

/// As many as two listeners take without a crowd, where a process has 20,000 descriptors.
const MANY: usize = 8_000;

/// What the process of the clients is told: an address, and what each connection asks first.
const HOLD: &str = "TOLLGATE_TEST_HOLD";

const REDIS: &str = "PING\r\n";
const HTTP: &str =
    "POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 24\r\n\r\n{\"client\":\"203.0.113.9\"}";

/// The clients: a process of their own, as both ends would need twice as many descriptors.
#[test]
fn clients_that_are_held_open() {
    let Ok(held) = std::env::var(HOLD) else { return };
    let (address, asks) = held.split_once(' ').unwrap();
    let address: SocketAddr = address.parse().unwrap();
    let mut streams: Vec<TcpStream> = Vec::new();
    for _ in 0..MANY {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(asks.as_bytes()).unwrap();
        streams.push(stream);
    }
    let answer = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut heard = [0; 4096];
        let length = stream.read(&mut heard).unwrap();
        assert!(heard.starts_with(b"+PONG") || heard.starts_with(b"HTTP/1.1 "), "{:?}", &heard[..length]);
    };
    streams.iter_mut().for_each(answer);
    println!("open");
    // Until it is told to go on.
    std::io::stdin().lines().next();
    // All are served still, the first of them, too.
    streams.iter_mut().for_each(|stream| stream.write_all(asks.as_bytes()).unwrap());
    streams.iter_mut().for_each(answer);
    println!("served");
}

/// Holds connections open. Returns the memory of the server's side of each, in bytes.
fn hold(address: SocketAddr, asks: &str) -> usize {
    let before = resident();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "many::clients_that_are_held_open", "--nocapture"])
        .env(HOLD, format!("{address} {asks}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.ends_with("open")), "{MANY} connections are open");
    let each = resident().saturating_sub(before) / MANY;
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(said.any(|line| line.ends_with("served")), "all are served");
    assert!(child.wait().unwrap().success());
    each
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_thousand_connections_are_held_at_once() {
    if !is_alone("many::eight_thousand_connections_are_held_at_once") {
        return;
    }
    let running = start(|settings| {
        settings.http.push("127.0.0.1:0".parse().unwrap());
        settings.limits.idle_timeout = Duration::from_secs(600);
    })
    .await;
    let (http, redis) = (running.http(), running.resp());
    let each = tokio::task::spawn_blocking(move || [hold(redis, REDIS), hold(http, HTTP)]).await.unwrap();
    println!("bytes of a connection: {} of a Redis client, {} of HTTP", each[0], each[1]);
    // As docs/reference/server.md says.
    assert!(each.iter().all(|bytes| *bytes < 32 << 10), "{each:?} bytes each");
}
