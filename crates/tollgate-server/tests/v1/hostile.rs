//! Clients that mean harm: many, slow, long, broken.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{Running, start, start_with};

/// A connection of HTTP/2 whose client gives each stream so many bytes until it reads.
async fn http2(server: &Running, window: u32) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(server.http()).await.unwrap();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn check(body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post("http://a.test/v1/check").body(Full::new(body.into())).unwrap()
}

const RULES: &str = "rule = [{ name = 'all', key = 'everyone', limits = '1/h,burst=50' }]";
const QUICK: Duration = Duration::from_millis(400);

async fn quick() -> Running {
    start_with(RULES, |settings| settings.limits.read_timeout = QUICK).await
}

/// Sends `first`, and then a byte every 50 ms, until the server closes.
async fn dribble(server: &Running, first: impl AsRef<[u8]>, byte: &[u8]) -> (Duration, String) {
    let began = Instant::now();
    let (mut read, mut write) = TcpStream::connect(server.http()).await.unwrap().into_split();
    write.write_all(first.as_ref()).await.unwrap();
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

/// The preface of HTTP/2, and SETTINGS that say nothing.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

#[tokio::test]
async fn heads_of_http2_that_do_not_end_are_closed() {
    let server = quick().await;
    // A GET of a path, as the first request of the connection.
    let whole = &b"\x00\x00\x07\x01\x05\x00\x00\x00\x01\x82\x86\x84\x41\x02a."[..];
    // HEADERS of 200 bytes that are not all there, and without END_HEADERS.
    let half = &b"\x00\x00\xc8\x01\x05\x00\x00\x00\x03\x82"[..];
    let open = &b"\x00\x00\x01\x01\x01\x00\x00\x00\x03\x82"[..];
    for (frames, byte) in [
        (vec![], &[][..]),
        (vec![half], &[0x82]),
        (vec![open], &[]),
        (vec![whole, half], &[0x82]),
        (vec![whole, open], &[]),
    ] {
        let bytes = [PREFACE, &frames.concat()].concat();
        let (took, _) = dribble(&server, &bytes, byte).await;
        assert!((QUICK..QUICK * 5).contains(&took), "{frames:?}: {took:?}");
    }
}

#[tokio::test]
async fn an_idle_connection_of_http2_stays() {
    let server = quick().await;
    let mut sender = http2(&server, 1 << 16).await;
    for _ in 0..3 {
        let answer = sender.send_request(check("{}")).await.unwrap();
        answer.into_body().collect().await.unwrap();
        tokio::time::sleep(QUICK * 2).await;
    }
    assert!(!sender.is_closed());
}

#[tokio::test]
async fn an_idle_connection_outlives_the_time_of_a_head() {
    let server = start_with(RULES, |settings| {
        (settings.limits.read_timeout, settings.limits.idle_timeout) = (QUICK, QUICK * 4);
    })
    .await;
    let mut stream = TcpStream::connect(server.http()).await.unwrap();
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
        let mut stream = TcpStream::connect(server.http()).await.unwrap();
        let text = format!("POST /v1/check HTTP/1.1\r\nhost: a\r\n{head}content-length: 2\r\n\r\n{{}}");
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(answer.starts_with(b"HTTP/1.1 431 "), "{}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(server.post("/v1/check", "{}").await.json()["remaining"], 49);
}

#[tokio::test]
async fn a_long_header_list_of_http2_is_refused() {
    let server = start(RULES).await;
    let mut sender = http2(&server, 1 << 16).await;
    let list = |headers: usize| {
        let mut request = check("{}");
        for number in 0..headers {
            let name = http::HeaderName::from_bytes(format!("x-{number}").as_bytes()).unwrap();
            request.headers_mut().insert(name, "x".repeat(1 << 10).parse().unwrap());
        }
        request
    };
    // Each header is short; all together are beyond 16 KiB, as the standard counts them.
    for (headers, status) in [(14, 200), (17, 431), (14, 200)] {
        sender.ready().await.unwrap();
        let answer = sender.send_request(list(headers)).await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{headers} KiB");
    }
    // A list far above the limit is not read to its end.
    assert!(sender.send_request(list(60)).await.is_err());
    assert!(sender.ready().await.is_err(), "the connection is closed");
    assert_eq!(server.post("/v1/check", "{}").await.json()["remaining"], 47);
}

#[tokio::test]
async fn an_announced_length_alone_takes_no_memory() {
    let server = start(RULES).await;
    let mut stream = TcpStream::connect(server.http()).await.unwrap();
    let head = "POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 999999999999999\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 413");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_connections_beyond_the_limit_are_answered() {
    let server = start_with(RULES, |settings| {
        settings.limits.connections = 8;
        settings.limits.read_timeout = Duration::from_secs(600);
    })
    .await;
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(server.http()).await.unwrap();
        // Its body is awaited: it is not idle.
        let head = "POST /v1/check HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 100");
        held.push(stream);
    }
    let mut refused = 0;
    for _ in 0..400 {
        let address = server.http();
        // Also with those of the wave before, a client has no more that are answered at a time.
        let wave: Vec<_> = (0..25)
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
        let mut stream = TcpStream::connect(server.http()).await.unwrap();
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
    let sender = http2(&server, 1 << 16).await;
    let calls: Vec<_> = (0..80)
        .map(|_| {
            let mut sender = sender.clone();
            tokio::spawn(async move {
                let answer = sender.send_request(check("{}")).await.unwrap();
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

#[tokio::test]
async fn answers_that_are_not_taken_are_reset() {
    let server = start_with(RULES, |settings| {
        (settings.limits.read_timeout, settings.limits.idle_timeout) = (QUICK, QUICK * 2);
    })
    .await;
    // No byte of the body, and one byte that is never read.
    for window in [0, 1] {
        let mut sender = http2(&server, window).await;
        let mut answers = Vec::new();
        // A client that asks on is not idle.
        for _ in 0..16 {
            answers.push(sender.send_request(check("{}")).await.unwrap().into_body());
            tokio::time::sleep(QUICK / 4).await;
        }
        let overdue = answers.drain(..4);
        for mut body in overdue {
            let mut ends = async || body.frame().await.expect("it is not whole").err();
            let error = tokio::time::timeout(Duration::from_secs(10), async {
                loop {
                    if let Some(error) = ends().await {
                        return format!("{error:?}");
                    }
                }
            });
            let error = error.await.expect("it is reset");
            assert!(error.contains("CANCEL"), "window {window}: {error}");
        }
        assert!(!sender.is_closed());
    }
    assert_eq!(server.post("/v1/peek", "{}").await.status, 200, "others are served");
}

#[tokio::test]
async fn an_answer_may_be_taken_slowly() {
    const IDLE: Duration = Duration::from_secs(3);
    let server = start_with(RULES, |settings| {
        (settings.limits.read_timeout, settings.limits.idle_timeout) = (QUICK, IDLE);
    })
    .await;
    let mut sender = http2(&server, (1 << 16) - 1).await;
    let batch = format!("{{\"requests\":[{}]}}", vec!["{}"; 1000].join(","));
    let mut answer = sender.send_request(check(batch)).await.unwrap().into_body();
    let (began, mut length) = (Instant::now(), 0);
    while let Some(frame) = answer.frame().await {
        length += frame.unwrap().into_data().map_or(0, |data| data.len());
        tokio::time::sleep(IDLE / 15).await;
    }
    assert!(length > 3 << 16 && began.elapsed() > IDLE, "{length} bytes in {:?}", began.elapsed());
}
