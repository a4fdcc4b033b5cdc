//! Clients and upstreams that are slow on purpose: what they hold comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tollgate_server::Settings;
use tollgate_testing::frames::{HEADERS, frame, opening};
use tollgate_testing::upstream::{Written, by_hand, echo, full, recorder, upstream};
use tollgate_testing::wait::LONG;

use super::bodies::{endless, hasty};
use super::support::start_with;

const ONE_AT_ONCE: &str = "rule = [{ name = 'at-once', key = 'everyone', limits = 'in-flight:1' }]";

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// The time between two bytes: shorter than any timeout.
const DRIBBLE: Duration = Duration::from_millis(20);

/// Writes `first`, then `byte` again and again, and returns the answer until the connection ends.
async fn dribble(stream: TcpStream, first: &[u8], byte: u8) -> String {
    let (mut read, mut write) = stream.into_split();
    write.write_all(first).await.unwrap();
    let dribbling = tokio::spawn(async move {
        while write.write_all(&[byte]).await.is_ok() {
            sleep(DRIBBLE).await;
        }
    });
    let mut answer = Vec::new();
    let _ = timeout(LONG, read.read_to_end(&mut answer)).await.expect("the connection ends");
    dribbling.abort();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_client_that_dribbles_its_head_is_closed() {
    let rule = "rule = [{ name = 'daily', key = 'everyone', limits = 'fixed-window:9/d' }]";
    let (url, record) = recorder(OK).await;
    let short = |settings: &mut Settings| settings.limits.read_timeout = Duration::from_millis(300);
    let proxy = start_with(rule, std::slice::from_ref(&url), short).await;
    for first in ["", "G", "GET / HTTP/1.1\r\nhost: a.test\r\nx: "] {
        let answer = dribble(proxy.connect().await, first.as_bytes(), b'x').await;
        assert_eq!(answer, "", "{first}");
    }
    assert!(proxy.get("/known", &[]).await.header("ratelimit").starts_with("\"daily\";r=8;"));
    // In HTTP/2, too, a head that arrives slowly is no request: here, a frame that announces
    // 16,000 bytes of a head.
    let proxy = start_with(rule, &[url], hasty).await;
    let frame = frame(HEADERS, 0, 1, &[0; 16_000]);
    dribble(proxy.connect().await, &[&opening(), &frame[..9]].concat(), 0).await;
    assert!(proxy.get("/known", &[]).await.header("ratelimit").starts_with("\"daily\";r=8;"));
    let seen = String::from_utf8_lossy(&record.lock().unwrap()).into_owned();
    assert!(seen.starts_with("GET /known ") && seen.matches("GET ").count() == 2, "{seen}");
}

fn in_all(settings: &mut Settings) {
    settings.forward.total_timeout = Some(Duration::from_millis(300));
}

/// Without a least rate each byte renews the time for which a body may stand still.
#[tokio::test]
async fn a_client_that_dribbles_its_body_has_the_total_time() {
    for buffer in [64 << 10, 0] {
        let set = |settings: &mut Settings| {
            in_all(settings);
            settings.forward.least_rate = 0;
            settings.forward.buffer_requests = buffer;
        };
        let proxy = start_with(ONE_AT_ONCE, &[echo().await], set).await;
        let head = b"POST / HTTP/1.1\r\nhost: a.test\r\ncontent-length: 9999999\r\n\r\n";
        let answer = dribble(proxy.connect().await, head, b'x').await;
        let is_late = answer.starts_with("HTTP/1.1 408 ") || answer.starts_with("HTTP/1.1 504 ");
        assert!(is_late, "buffer {buffer}: {answer}");
        proxy.until("/", 200).await;
    }
}

/// An upload, and an answer, that never stand still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_keeps_moving_has_the_total_time() {
    let read = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read);
    let address = upstream(move |request: Request<Incoming>| {
        let counted = Arc::clone(&counted);
        async move {
            if request.method() == "GET" && request.uri().path() == "/free" {
                return Response::new(full("done"));
            }
            let (sender, body) = Written::new();
            let is_upload = request.method() == "POST";
            tokio::spawn(async move {
                let mut body = request.into_body();
                while let Some(Ok(_)) = http_body_util::BodyExt::frame(&mut body).await {
                    counted.fetch_add(1, Relaxed);
                }
                while !is_upload && sender.send(Some(Bytes::from_static(&[b'x'; 1000]))).await.is_ok() {}
                sender.closed().await;
            });
            let body = http_body_util::BodyExt::map_err(body, |error| unreachable!("{error}"));
            Response::new(http_body_util::BodyExt::boxed(body))
        }
    })
    .await;
    for scheme in ["http", "h2c"] {
        let proxy = start_with(ONE_AT_ONCE, &[format!("{scheme}://{address}")], in_all).await;
        let answer = proxy.raw(b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n").await;
        assert!(answer.contains("xxx") && !answer.ends_with("0\r\n\r\n"), "{scheme}: {}", answer.len());
        proxy.until("/free", 200).await;

        let before = read.load(Relaxed);
        let head = format!("POST / HTTP/1.1\r\nhost: a.test\r\ncontent-length: {}\r\n\r\n", u64::MAX >> 1);
        let (mut reads, mut writes) = proxy.connect().await.into_split();
        writes.write_all(head.as_bytes()).await.unwrap();
        let writing = tokio::spawn(async move { while writes.write_all(&[b'x'; 1000]).await.is_ok() {} });
        let mut answer = Vec::new();
        let _ = timeout(LONG, reads.read_to_end(&mut answer)).await.expect("the connection ends");
        assert!(read.load(Relaxed) > before && !answer.ends_with(b"0\r\n\r\n"), "{scheme}");
        writing.abort();
        proxy.until("/free", 200).await;
    }
}

/// All that it reads is there already, so that its answer never stands still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_slower_than_its_answer_has_the_total_time() {
    let sent = Arc::default();
    let url = endless(&sent).await;
    for scheme in ["http", "h2c"] {
        let proxy = start_with(ONE_AT_ONCE, &[url.replace("http", scheme)], in_all).await;
        let mut stream = proxy.connect().await;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n").await.unwrap();
        let ends = async {
            let mut part = vec![0; 32 << 10];
            while let Ok(1..) = stream.read(&mut part).await {
                sleep(DRIBBLE / 10).await;
            }
        };
        timeout(LONG, ends).await.unwrap_or_else(|_| panic!("{scheme}: it does not break off"));
        proxy.until("/free", 200).await;
    }
}

#[tokio::test]
async fn an_upstream_that_dribbles_its_head_is_504() {
    let upstream = by_hand(|mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        dribble(stream, b"HTTP/1.1 200 OK\r\nx: ", b'x').await;
    })
    .await;
    let proxy = start_with(ONE_AT_ONCE, &[upstream.url()], hasty).await;
    proxy.twice(504, &upstream.ended).await;
}

/// Its client gets its answer though it writes.
#[tokio::test]
async fn an_upstream_that_never_reads_is_504() {
    let address = upstream(|request: Request<Incoming>| async move {
        if request.uri().path() == "/held" {
            std::future::pending::<()>().await;
        }
        Response::new(full("done"))
    })
    .await;
    for scheme in ["http", "h2c"] {
        let proxy = start_with(ONE_AT_ONCE, &[format!("{scheme}://{address}")], hasty).await;
        let head = "POST /held HTTP/1.1\r\nhost: a.test\r\ncontent-length: 67108864\r\n\r\n";
        let (mut read, mut write) = proxy.connect().await.into_split();
        write.write_all(head.as_bytes()).await.unwrap();
        let writing = tokio::spawn(async move { while write.write_all(&[b'x'; 1 << 16]).await.is_ok() {} });
        let mut answer = [0; 12];
        timeout(LONG, read.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(&answer, b"HTTP/1.1 504", "{scheme}");
        writing.abort();
        proxy.until("/free", 200).await;
    }
}
