//! Connections that do nothing, beside clients that come and clients that stay.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tollgate_testing::client::{ask, connect};
use tollgate_testing::servers::Addresses;
use tollgate_testing::wait::LONG;

use super::metrics::value;
use super::support::{metrics, request, start};

/// The connections that a listener takes.
const MOST: usize = 16;

const PING: &str = "PING\r\n";
const PONG: &str = "+PONG\r\n";

/// The listeners, with a request for each and the beginning of its answer.
fn doors(to: &Addresses) -> [(&'static str, SocketAddr, String, &'static str); 4] {
    [
        ("http", to.http(), request("POST", "/v1/check", "", "{}"), "HTTP/1.1 200 "),
        ("admin", to.admin(), request("GET", "/healthz", "", ""), "HTTP/1.1 200 "),
        ("proxy", to.proxy(), request("GET", "/", "", ""), "HTTP/1.1 502 "),
        ("resp", to.resp(), PING.to_owned(), PONG),
    ]
}

/// The answer of a listener, over a connection that stays.
async fn answer(stream: &mut TcpStream, asked: &str) -> String {
    if asked != PING {
        return ask(stream, asked).await;
    }
    stream.write_all(PING.as_bytes()).await.unwrap();
    let mut answer = vec![0; PONG.len()];
    timeout(LONG, stream.read_exact(&mut answer)).await.expect("it answers").unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_keep_no_client_out() {
    let server = start("", |settings, _| settings.limits.connections = MOST).await;
    let to = server.addresses;
    for (name, address, asked, expected) in doors(&to) {
        let served = async |stream: &mut TcpStream| {
            let answer = answer(stream, &asked).await;
            assert!(answer.starts_with(expected), "{name}: {answer}");
        };
        let new = async || {
            let mut stream = connect(address).await;
            served(&mut stream).await;
            stream
        };
        let mut idle = Vec::new();
        for _ in 0..MOST {
            idle.push(new().await);
        }
        let mut steady = new().await;
        for _ in 0..20 {
            served(&mut steady).await;
            drop(new().await);
            idle.push(new().await);
        }
    }
    let page = metrics(&mut connect(to.admin()).await).await;
    for listener in ["http", "admin", "proxy", "resp"] {
        let of = |kind| format!("tollgate_protocol_errors_total{{listener=\"{listener}\",kind=\"{kind}\"}}");
        assert!(value(&page, &of("idle_connection_closed")) >= 20.0, "{listener}");
        assert!(!page.contains(&of("too_many_connections")), "{listener}");
    }
}

/// Those that were silent from the beginning make room for several newcomers of a client at once.
#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_are_closed_at_once() {
    const NEWCOMERS: usize = 6;
    let server = start("", |settings, _| settings.limits.connections = MOST).await;
    let to = server.addresses;
    for (name, address, asked, expected) in doors(&to) {
        let mut silent = Vec::new();
        for _ in 0..MOST {
            silent.push(connect(address).await);
        }
        // All are accepted when one more is.
        let mut newcomers = Vec::new();
        for _ in 0..NEWCOMERS {
            newcomers.push(connect(address).await);
        }
        for newcomer in &mut newcomers {
            let answer = answer(newcomer, &asked).await;
            assert!(answer.starts_with(expected), "{name}: {answer}");
        }
    }
}
