//! Clients that leave, wherever their request is: what it holds comes back.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tollgate_testing::certificates::Authority;
use tollgate_testing::folder::Folder;
use tollgate_testing::upstream::{Gate, Written, echo, full, upstream};
use tollgate_testing::wait::{LONG, eventually};

use super::support::{Proxy, start, start_with, unbuffered};

const ONE_AT_ONCE: &str = "rule = [{ name = 'at-once', key = 'everyone', limits = 'in-flight:1' }]";

/// A request that waits waits for hours. `/look` tells what is left of the day, and costs nothing.
pub(crate) const HOURLY: &str = "rule = [
    { name = 'paced', key = 'everyone', limits = 'leaky-bucket:1/h,capacity=3,mode=queue', match.path = '/slow' },
    { name = 'daily', key = 'everyone', limits = 'fixed-window:9/d',
      cost = [{ match.path = '/look', is = 0 }, { is = 1 }] }]";

fn request(path: &str, body: Written) -> Request<Written> {
    Request::post(format!("http://a.test{path}")).header("host", "a.test").body(body).unwrap()
}

/// Waits until this much of the day is left.
pub(crate) async fn until_left(proxy: &Proxy, left: u64) {
    let (expected, began) = (format!("\"daily\";r={left};"), Instant::now());
    loop {
        assert!(began.elapsed() < LONG, "there are never {left} left");
        let answer = proxy.get("/look", &[]).await;
        if answer.header("ratelimit").contains(&expected) {
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn half_a_head_charges_nothing() {
    let proxy = start(HOURLY, &[echo().await]).await;
    let mut stream = proxy.connect().await;
    stream.write_all(b"POST /slow HTTP/1.1\r\nhost: a.te").await.unwrap();
    drop(stream);
    until_left(&proxy, 9).await;
}

/// Whether the client has sent nothing of its body, or a part.
async fn leaves_a_queue(is_http2: bool, sends_half: bool) {
    let proxy = start(HOURLY, &[echo().await]).await;
    assert_eq!(proxy.status("/slow").await, 200);
    for _ in 0..3 {
        let (sender, body) = Written::new();
        let call = proxy.begin(is_http2, request("/slow", body)).await;
        if sends_half {
            sender.send(Some(Bytes::from_static(b"half"))).await.unwrap();
        }
        until_left(&proxy, 7).await;
        call.leave();
        until_left(&proxy, 8).await;
        call.end();
    }
}

#[tokio::test]
async fn one_that_waits_gives_its_turn_back() {
    for is_http2 in [false, true] {
        leaves_a_queue(is_http2, false).await;
    }
}

#[tokio::test]
async fn one_that_waits_with_half_a_body_does_so_too() {
    for is_http2 in [false, true] {
        leaves_a_queue(is_http2, true).await;
    }
}

#[tokio::test]
async fn half_a_body_holds_no_place() {
    let read = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read);
    let address = upstream(move |request: Request<Incoming>| {
        let counted = Arc::clone(&counted);
        async move {
            let mut body = request.into_body();
            while let Some(Ok(_)) = body.frame().await {
                counted.fetch_add(1, Relaxed);
            }
            Response::new(full("done"))
        }
    });
    let proxy = start_with(ONE_AT_ONCE, &[format!("http://{}", address.await)], unbuffered).await;
    for is_http2 in [false, true] {
        let before = read.load(Relaxed);
        let (sender, body) = Written::new();
        let call = proxy.begin(is_http2, request("/", body)).await;
        sender.send(Some(Bytes::from_static(b"half"))).await.unwrap();
        eventually(|| read.load(Relaxed) > before).await;
        assert_eq!(proxy.status("/").await, 429);
        // HTTP/2 tells that the body breaks off; HTTP/1 ends the connection.
        let _ = sender.send(None).await;
        call.leave();
        proxy.until("/", 200).await;
        call.end();
    }
}

#[tokio::test]
async fn one_that_awaits_its_answer_holds_no_place() {
    let gate = Gate::new().await;
    let proxy = start(ONE_AT_ONCE, std::slice::from_ref(&gate.url)).await;
    for is_http2 in [false, true] {
        let before = gate.arrived.load(Relaxed);
        let (sender, body) = Written::new();
        drop(sender);
        let call = proxy.begin(is_http2, request("/", body)).await;
        gate.arrivals(before + 1).await;
        assert_eq!(proxy.status("/free").await, 429);
        call.leave();
        proxy.until("/free", 200).await;
        call.end();
    }
}

#[tokio::test]
async fn half_an_answer_holds_no_place() {
    let address = upstream(move |request: Request<Incoming>| async move {
        if request.uri().path() == "/free" {
            return Response::new(full("done"));
        }
        let (sender, body) = Written::new();
        tokio::spawn(async move {
            let _ = sender.send(Some(Bytes::from_static(b"half"))).await;
            sender.closed().await;
        });
        let body = body.map_err(|error| unreachable!("{error}"));
        Response::new(body.boxed())
    });
    let proxy = start(ONE_AT_ONCE, &[format!("http://{}", address.await)]).await;
    for is_http2 in [false, true] {
        let (sender, body) = Written::new();
        drop(sender);
        let call = proxy.begin(is_http2, request("/", body)).await;
        eventually(|| call.frames.load(Relaxed) > 0).await;
        assert_eq!(proxy.status("/free").await, 429);
        call.leave();
        proxy.until("/free", 200).await;
        call.end();
    }
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n";
const STREAMED: &[u8] =
    b"POST / HTTP/1.1\r\nhost: a.test\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
const LAST: &[u8] = b"GET /free HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n";

trait Io: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Io for S {}

/// A connection that is reset when it is dropped.
async fn resetting(proxy: &Proxy, tls: Option<&TlsConnector>) -> Box<dyn Io> {
    let stream = proxy.connect().await;
    stream.set_zero_linger().unwrap();
    match tls {
        Some(tls) => Box::new(tls.connect("localhost".try_into().unwrap(), stream).await.unwrap()),
        None => Box::new(stream),
    }
}

/// It has sent its next requests before it has an answer, with the first one or after it.
#[tokio::test]
async fn one_that_resets_with_unread_requests_holds_no_place() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let files = authority.write(folder.path(), "localhost", None);
    let connector = authority.client(None);
    for tls in [None, Some(&connector)] {
        let gate = Gate::new().await;
        let proxy = start_with(ONE_AT_ONCE, std::slice::from_ref(&gate.url), |settings| {
            settings.proxy_tls = tls.map(|_| files.parse().unwrap());
            // In it hyper's connections are looked at four times.
            settings.limits.read_timeout = Duration::from_secs(4);
        });
        let proxy = proxy.await;
        let by_hyper = [STREAMED, REQUEST, REQUEST].concat();
        let late = vec![REQUEST.to_vec(), REQUEST.repeat(2), REQUEST.to_vec()];
        for parts in [vec![REQUEST.repeat(3)], late, vec![by_hyper]] {
            let before = gate.arrived.load(Relaxed);
            let mut stream = resetting(&proxy, tls).await;
            for part in parts {
                stream.write_all(&part).await.unwrap();
                stream.flush().await.unwrap();
                eventually(|| gate.arrived.load(Relaxed) == before + 1).await;
                // For the proxy to read it.
                sleep(Duration::from_millis(20)).await;
            }
            drop(stream);
            let free = async {
                loop {
                    let mut stream = resetting(&proxy, tls).await;
                    stream.write_all(LAST).await.unwrap();
                    let mut answer = String::new();
                    let _ = stream.read_to_string(&mut answer).await;
                    if answer.starts_with("HTTP/1.1 200 ") {
                        return;
                    }
                    sleep(Duration::from_millis(5)).await;
                }
            };
            assert!(timeout(LONG, free).await.is_ok(), "TLS: {}", tls.is_some());
        }
    }
}

/// It has sent all its requests, and waits for the answers. It counts as gone when the last one is
/// served.
#[tokio::test]
async fn one_that_ends_its_sending_side_leaves_no_answer_before() {
    let gate = Gate::new().await;
    let proxy =
        start("rule = [{ name = 'each', key = 'client', limits = '9/s' }]", std::slice::from_ref(&gate.url))
            .await;
    let mut stream = proxy.connect().await;
    stream.write_all(&[REQUEST, LAST].concat()).await.unwrap();
    stream.shutdown().await.unwrap();
    gate.arrivals(1).await;
    sleep(Duration::from_millis(20)).await;
    gate.open();
    let mut answers = String::new();
    timeout(LONG, stream.read_to_string(&mut answers)).await.unwrap().unwrap();
    assert!(answers.starts_with("HTTP/1.1 200 "), "{answers}");
}
