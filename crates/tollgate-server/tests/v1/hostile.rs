//! Clients that mean harm: many, slow, long, broken.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{Running, start, start_with};

const RULES: &str = "rule = [{ name = 'all', key = 'everyone', limits = '1/h,burst=50' }]";
const QUICK: Duration = Duration::from_millis(400);

async fn quick() -> Running {
    start_with(RULES, |settings| settings.limits.read_timeout = QUICK).await
}

/// Sends `first`, and then a byte every 50 ms, until the server closes.
async fn dribble(server: &Running, first: &str, byte: &[u8]) -> (Duration, String) {
    let began = Instant::now();
    let (mut read, mut write) = TcpStream::connect(server.address).await.unwrap().into_split();
    write.write_all(first.as_bytes()).await.unwrap();
    let byte = byte.to_vec();
    let dribbling = tokio::spawn(async move {
        while write.write_all(&byte).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let mut answer = Vec::new();
    let read = read.read_to_end(&mut answer);
    let _ = tokio::time::timeout(Duration::from_secs(10), read).await.expect("the server closes");
    dribbling.abort();
    (began.elapsed(), String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test]
async fn slow_heads_and_bodies_are_closed() {
    let server = quick().await;
    for (first, byte, answer) in [
        ("", "", ""),
        ("POST /v1/check HTTP/1.1\r\nhost: a\r\nx: ", "x", ""),
        ("P", "", ""),
        ("POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n", " ", "HTTP/1.1 408 "),
        (
            "POST /v1/check HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n",
            "1\r\n \r\n",
            "HTTP/1.1 408 ",
        ),
    ] {
        let (took, said) = dribble(&server, first, byte.as_bytes()).await;
        assert!(said.starts_with(answer) && said.is_empty() == answer.is_empty(), "{first:?}: {said}");
        assert!((QUICK..QUICK * 5).contains(&took), "{first:?}: {took:?}");
    }
    assert_eq!(server.post("/v1/check", "{}").await.json()["remaining"], 49);
}

#[tokio::test]
async fn an_idle_connection_outlives_the_time_of_a_head() {
    let server = start_with(RULES, |settings| {
        (settings.limits.read_timeout, settings.limits.idle_timeout) = (QUICK, QUICK * 4);
    })
    .await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let mut buffer = [0; 4096];
    for _ in 0..2 {
        stream.write_all(b"GET /openapi.jso HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        assert!(stream.read(&mut buffer).await.unwrap() > 0);
        tokio::time::sleep(QUICK * 2).await;
    }
    let began = Instant::now();
    assert_eq!(stream.read(&mut buffer).await.unwrap(), 0);
    assert!(began.elapsed() < QUICK * 5, "{:?}", began.elapsed());
}

#[tokio::test]
async fn long_heads_are_refused() {
    let server = start(RULES).await;
    let many: String = (0..101).map(|number| format!("x-{number}: 1\r\n")).collect();
    for head in [format!("x: {}\r\n", "x".repeat(20 << 10)), many] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let text = format!("POST /v1/check HTTP/1.1\r\nhost: a\r\n{head}content-length: 2\r\n\r\n{{}}");
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(answer.starts_with(b"HTTP/1.1 431 "), "{}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(server.post("/v1/check", "{}").await.json()["remaining"], 49);
}

#[tokio::test]
async fn an_announced_length_alone_takes_no_memory() {
    let server = start(RULES).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 999999999999999\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 413");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_connections_beyond_the_limit_are_answered() {
    let server = start_with(RULES, |settings| settings.limits.connections = 8).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET /v1/check HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 405");
        held.push(stream);
    }
    let mut refused = 0;
    for _ in 0..100 {
        let address = server.address;
        let wave: Vec<_> = (0..100)
            .map(|_| {
                tokio::spawn(async move {
                    let mut stream = TcpStream::connect(address).await.unwrap();
                    stream
                        .write_all(b"POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}")
                        .await
                        .unwrap();
                    let mut answer = Vec::new();
                    stream.read_to_end(&mut answer).await.unwrap();
                    answer.starts_with(b"HTTP/1.1 503 ")
                })
            })
            .collect();
        for one in wave {
            refused += u32::from(one.await.unwrap());
        }
    }
    assert_eq!(refused, 10_000);
    drop(held);
    for _ in 0..100 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream
            .write_all(
                b"POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
            )
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        if answer.starts_with("HTTP/1.1 200") {
            assert!(answer.contains("\"remaining\":49"), "the refused ones were charged nothing: {answer}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no place became free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_streams_share_the_limit_exactly() {
    let server = start(RULES).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let calls: Vec<_> = (0..80)
        .map(|_| {
            let mut sender = sender.clone();
            tokio::spawn(async move {
                let request =
                    Request::post("http://a.test/v1/check").body(Full::new(Bytes::from("{}"))).unwrap();
                let answer = sender.send_request(request).await.unwrap();
                let status = answer.status().as_u16();
                answer.into_body().collect().await.unwrap();
                status
            })
        })
        .collect();
    let mut statuses = Vec::new();
    for call in calls {
        statuses.push(call.await.unwrap());
    }
    let count = |status| statuses.iter().filter(|own| **own == status).count();
    assert_eq!((count(200), count(429)), (50, 30));
}
