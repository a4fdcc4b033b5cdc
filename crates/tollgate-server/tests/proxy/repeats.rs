//! Requests that are sent once more: the connection ended under them, or the upstream refused them.

use std::sync::atomic::Ordering::Relaxed;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_testing::upstream::{ByHand, by_hand};

use super::support::start;
use super::threads::ANY;

const SIX: &str = "rule = [{ name = 'six', key = 'client', limits = '6/h' }]";

/// Reads a request whose body, if it has one, is `body`.
async fn is_asked(stream: &mut TcpStream) -> bool {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") && !read.ends_with(b"\r\n\r\nbody") {
        if !matches!(stream.read_buf(&mut read).await, Ok(1..)) {
            return false;
        }
    }
    true
}

/// An upstream that closes each connection as its second request comes.
async fn closing(answer: &'static [u8]) -> ByHand {
    by_hand(move |mut stream| async move {
        if is_asked(&mut stream).await {
            stream.write_all(answer).await.unwrap();
            is_asked(&mut stream).await;
        }
    })
    .await
}

/// hyper reads the second answer, and all requests by its connection.
#[tokio::test]
async fn a_connection_that_ends_under_a_request_costs_none() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"[..],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ] {
        for (method, body) in [("GET", ""), ("DELETE", ""), ("PUT", "body")] {
            let upstream = closing(answer).await;
            let proxy = start(SIX, &[upstream.url()]).await;
            for request in 1..=6 {
                let answer = proxy.call(method, "/", &[], body).await;
                assert!(answer.status == 200 && answer.body == "ok", "{method} {request}: {answer:?}");
            }
            // Each was charged once, and all but the first were sent twice.
            assert_eq!(proxy.call(method, "/", &[], body).await.status, 429, "{method}");
            assert_eq!(upstream.accepted.load(Relaxed), 6, "{method}");
        }
    }
}

#[tokio::test]
async fn what_would_count_twice_is_not_repeated() {
    let upstream = closing(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let proxy = start(SIX, &[upstream.url()]).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(proxy.call("POST", "/", &[], "body").await.status.as_u16());
    }
    assert_eq!(statuses, [200, 502, 200, 502]);
}

/// What an upstream of HTTP/2 does with the second request of a connection.
#[derive(Clone, Copy, Debug)]
enum Second {
    /// It refuses the stream.
    Refuse,
    /// It says that the first request was the last one.
    LeaveBefore,
    /// It says that this request is the last one, and closes the connection.
    LeaveAfter,
    Close,
}

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;

/// A frame of HTTP/2 with a payload of at most 255 bytes.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let head = [0, 0, payload.len().try_into().unwrap(), kind, flags];
    [&head[..], &stream.to_be_bytes()[..], payload].concat()
}

/// The kind, the flags and the stream of the next frame. `None`: the connection has ended.
async fn next_frame(stream: &mut TcpStream) -> Option<(u8, u8, u32)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let length = (usize::from(head[1]) << 8) + usize::from(head[2]);
    stream.read_exact(&mut vec![0; length]).await.ok()?;
    Some((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]])))
}

/// Serves a connection of HTTP/2, whose second request is on its third stream.
async fn serve(mut stream: TcpStream, second: Second) -> Option<()> {
    stream.read_exact(&mut [0; 24]).await.ok()?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.ok()?;
    loop {
        let (kind, flags, number) = next_frame(&mut stream).await?;
        let ok = frame(HEADERS, 5, number, &[0x88]);
        let said = match (kind, second) {
            (SETTINGS, _) if flags == 0 => frame(SETTINGS, 1, 0, &[]),
            (HEADERS, Second::Refuse) if number == 3 => frame(3, 0, number, &[0, 0, 0, 7]),
            (HEADERS, Second::LeaveBefore) if number == 3 => frame(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]),
            (HEADERS, Second::LeaveAfter) if number == 3 => {
                stream.write_all(&frame(7, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0])).await.ok()?;
                return None;
            }
            (HEADERS, Second::Close) if number == 3 => return None,
            (HEADERS, _) => ok,
            _ => continue,
        };
        stream.write_all(&said).await.ok()?;
    }
}

async fn leaving(second: Second) -> ByHand {
    by_hand(move |stream| async move {
        let _ = serve(stream, second).await;
    })
    .await
}

/// Whatever its method: the upstream says that it has not acted on it.
#[tokio::test]
async fn a_refused_stream_of_http2_costs_no_request() {
    for second in [Second::Refuse, Second::LeaveBefore] {
        for method in ["GET", "POST"] {
            let upstream = leaving(second).await;
            let proxy = start(SIX, &[format!("h2c://{}", upstream.address)]).await;
            for _ in 0..2 {
                let status = proxy.call(method, "/", &[], "body").await.status;
                assert_eq!(status, 200, "{second:?} {method}");
            }
            assert_eq!(upstream.accepted.load(Relaxed), 2, "{second:?} {method}");
        }
    }
}

#[tokio::test]
async fn a_connection_of_http2_that_ends_costs_no_get() {
    for second in [Second::LeaveAfter, Second::Close] {
        for (method, status) in [("GET", 200), ("PUT", 200), ("POST", 502)] {
            let upstream = leaving(second).await;
            let proxy = start(ANY, &[format!("h2c://{}", upstream.address)]).await;
            assert_eq!(proxy.call(method, "/", &[], "body").await.status, 200);
            let answer = proxy.call(method, "/", &[], "body").await;
            assert_eq!(answer.status, status, "{second:?} {method}");
        }
    }
}
