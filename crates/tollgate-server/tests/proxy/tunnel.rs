//! Connections that switch to another protocol.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tollgate_server::Settings;
use tollgate_testing::upstream::{by_hand, echo};
use tollgate_testing::wait::LONG;

use super::support::{Proxy, start, start_with};

const ONE_AT_ONCE: &str = "rule = [{ name = 'at-once', key = 'everyone', limits = 'in-flight:1' }]";

const ASKS: &[u8] = b"GET /socket HTTP/1.1\r\nhost: a.test\r\nconnection: keep-alive, Upgrade\r\n\
    upgrade: websocket\r\nsec-websocket-key: k\r\n\r\n";

/// An upstream that switches to the protocol it is asked for, if that is one of these two, and then
/// sends back each byte in upper case.
async fn shouting() -> String {
    let upstream = by_hand(|mut stream| async move {
        let head = head(&mut stream).await;
        let asked = ["websocket", "irc/6.9"]
            .into_iter()
            .find(|protocol| head.contains(&format!("\r\nupgrade: {protocol}\r\n")));
        let Some(asked) = asked.filter(|_| head.contains("connection: upgrade\r\n")) else {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            return;
        };
        let switched = format!(
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: {asked}\r\n\
             connection: upgrade\r\nsec-websocket-accept: a\r\n\r\n"
        );
        stream.write_all(switched.as_bytes()).await.unwrap();
        let mut byte = [0];
        while let Ok(1) = stream.read(&mut byte).await {
            stream.write_all(&byte.to_ascii_uppercase()).await.unwrap();
        }
    });
    upstream.await.url()
}

async fn head(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(LONG, stream.read_u8()).await.unwrap().unwrap());
    }
    String::from_utf8(head).unwrap().to_ascii_lowercase()
}

async fn switch(proxy: &Proxy) -> tokio::net::TcpStream {
    let mut stream = proxy.connect().await;
    stream.write_all(ASKS).await.unwrap();
    let answer = head(&mut stream).await;
    assert!(answer.starts_with("http/1.1 101 ") && answer.contains("upgrade: websocket\r\n"), "{answer}");
    assert!(answer.contains("sec-websocket-accept: a\r\n"), "{answer}");
    stream
}

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways_and_is_in_flight() {
    let proxy = start(ONE_AT_ONCE, &[shouting().await]).await;
    for _ in 0..2 {
        let mut stream = switch(&proxy).await;
        for (sent, expected) in [(&b"hello"[..], &b"HELLO"[..]), (b"again", b"AGAIN")] {
            stream.write_all(sent).await.unwrap();
            let mut answer = [0; 5];
            timeout(LONG, stream.read_exact(&mut answer)).await.unwrap().unwrap();
            assert_eq!(answer, expected);
        }
        assert_eq!(proxy.status("/").await, 429, "the tunnel is in flight");
        drop(stream);
        proxy.until("/", 200).await;
    }
}

/// It is not idle, also while it carries nothing.
#[tokio::test]
async fn a_tunnel_is_not_closed_for_a_new_connection() {
    let set = |settings: &mut Settings| settings.limits.connections = 1;
    let proxy = start_with(ONE_AT_ONCE, &[shouting().await], set).await;
    let mut stream = switch(&proxy).await;
    for _ in 0..3 {
        let refused = proxy.raw(b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n").await;
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
        stream.write_all(b"hello").await.unwrap();
        let mut answer = [0; 5];
        timeout(LONG, stream.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(&answer, b"HELLO");
    }
}

#[tokio::test]
async fn each_end_of_a_tunnel_ends_alone() {
    let (told, mut tells) = tokio::sync::mpsc::channel(1);
    let upstream = by_hand(move |mut stream| {
        let told = told.clone();
        async move {
            head(&mut stream).await;
            let switched =
                b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                sec-websocket-accept: a\r\n\r\n";
            stream.write_all(switched).await.unwrap();
            stream.shutdown().await.unwrap();
            // The client's bytes wait on the way.
            tokio::time::sleep(Duration::from_millis(200)).await;
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            let _ = told.send(rest.len()).await;
        }
    });
    let proxy = start(ONE_AT_ONCE, &[upstream.await.url()]).await;
    let mut stream = switch(&proxy).await;
    assert_eq!(timeout(LONG, stream.read(&mut [0])).await.unwrap().unwrap(), 0);
    let after = vec![b'x'; 32 << 20];
    timeout(LONG, stream.write_all(&after)).await.unwrap().unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(timeout(LONG, tells.recv()).await.unwrap().unwrap(), after.len());
}

#[tokio::test]
async fn protocols_other_than_websocket_are_switched_to() {
    let proxy = start(ONE_AT_ONCE, &[shouting().await]).await;
    let mut stream = proxy.connect().await;
    let asks = b"POST /socket HTTP/1.1\r\nhost: a.test\r\nconnection: upgrade\r\nupgrade: IRC/6.9\r\n\r\n";
    stream.write_all(asks).await.unwrap();
    let answer = head(&mut stream).await;
    assert!(answer.starts_with("http/1.1 101 ") && answer.contains("upgrade: irc/6.9\r\n"), "{answer}");
    stream.write_all(b"nick").await.unwrap();
    let mut answer = [0; 4];
    timeout(LONG, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"NICK");
}

#[tokio::test]
async fn a_switch_that_nobody_asked_for_is_no_answer() {
    let (url, _) = tollgate_testing::upstream::recorder(
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    )
    .await;
    let proxy = start(ONE_AT_ONCE, &[url]).await;
    assert_eq!(proxy.status("/").await, 502);
    assert_eq!(proxy.until("/", 502).await.status, 502, "nothing is in flight");
}

#[tokio::test]
async fn a_switch_to_another_protocol_is_no_answer() {
    let (url, _) = tollgate_testing::upstream::recorder(
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: other\r\nconnection: upgrade\r\n\r\n",
    )
    .await;
    let proxy = start(ONE_AT_ONCE, &[url]).await;
    let asks = [("connection", "upgrade"), ("upgrade", "websocket")];
    assert_eq!(proxy.get("/", &asks).await.status, 502);
}

#[tokio::test]
async fn an_upstream_may_decline_to_switch() {
    let proxy = start(ONE_AT_ONCE, &[echo().await]).await;
    let mut stream = proxy.connect().await;
    stream.write_all(ASKS).await.unwrap();
    assert!(head(&mut stream).await.starts_with("http/1.1 200 "));
}

#[tokio::test]
async fn a_tunnel_that_carries_nothing_ends() {
    let brief = |settings: &mut tollgate_server::Settings| {
        settings.forward.tunnel_timeout = Duration::from_millis(100);
    };
    let proxy = start_with(ONE_AT_ONCE, &[shouting().await], brief).await;
    let mut stream = switch(&proxy).await;
    assert_eq!(timeout(LONG, stream.read(&mut [0])).await.unwrap().unwrap_or(0), 0);
    proxy.until("/", 200).await;
}
