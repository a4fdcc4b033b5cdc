//! What clients are told when the server ends.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use tollgate_testing::client::{ask, connect};
use tollgate_testing::wait::LONG;

use super::metrics::value;
use super::support::{metrics, request, start};

const GOAWAY: u8 = 7;

/// The preface, and SETTINGS that say nothing.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

/// The type and the payload of the next frame. `None`: the connection has ended.
async fn frame(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    stream.read_exact(&mut payload).await.ok()?;
    Some((head[3], payload))
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_http2_are_told_that_the_server_ends() {
    let server = start("", |_, _| {}).await;
    let to = server.addresses;
    let mut streams = Vec::new();
    for (name, address) in
        [("http", to.http()), ("admin", to.admin()), ("grpc", to.grpc()), ("proxy", to.proxy())]
    {
        let mut stream = connect(address).await;
        stream.write_all(PREFACE).await.unwrap();
        assert_eq!(frame(&mut stream).await.unwrap().0, 4, "{name}: SETTINGS come first");
        streams.push((name, stream));
    }
    let ended = tokio::spawn(server.server.end());
    for (name, mut stream) in streams {
        let told = async {
            while let Some((kind, payload)) = frame(&mut stream).await {
                if kind == GOAWAY {
                    return Some(payload);
                }
            }
            None
        };
        let told = tokio::time::timeout(LONG, told).await.expect("the connection ends");
        let payload = told.unwrap_or_else(|| panic!("{name}: no GOAWAY"));
        assert_eq!(payload[4..8], [0; 4], "{name}: it is no error");
    }
    ended.await.unwrap().unwrap();
}

/// Its client may have sent a request already.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_has_just_been_made_is_answered() {
    let server = start("", |_, _| {}).await;
    let to = server.addresses;
    let mut admin = connect(to.admin()).await;
    let streams = [("http", connect(to.http()).await), ("proxy", connect(to.proxy()).await)];
    for (name, _) in &streams {
        let open = format!("tollgate_connections{{listener=\"{name}\"}}");
        while value(&metrics(&mut admin).await, &open) < 1.0 {}
    }
    let ended = tokio::spawn(server.server.end());
    tokio::time::sleep(Duration::from_millis(100)).await;
    for (name, mut stream) in streams {
        let answer = ask(&mut stream, &request("GET", "/", "", "")).await;
        assert!(answer.starts_with("HTTP/1.1 "), "{name}: {answer:?}");
    }
    ended.await.unwrap().unwrap();
}
