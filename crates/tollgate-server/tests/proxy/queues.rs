//! Bodies of requests that wait in a queue, and clients that leave it unseen.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};
use tollgate_server::Settings;
use tollgate_testing::frames::{HEADERS, block, frame, opening};
use tollgate_testing::upstream::{Written, echo, full, upstream};
use tollgate_testing::wait::LONG;

use super::leaves::{HOURLY, until_left};
use super::rules::metrics;
use super::support::{Proxy, start, start_with};

/// The body of a request that waits.
const BODY: usize = 1 << 20;

fn hold_4096(settings: &mut Settings) {
    settings.forward.buffer_requests = 4096;
}

/// A client whose own machine holds as little as it can.
async fn narrow(proxy: &Proxy) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_send_buffer_size(4096).unwrap();
    socket.connect(proxy.proxy()).await.unwrap()
}

/// What its client can write before its turn: what the proxy holds and the buffers on the way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_holds_a_body_up_to_a_bound() {
    let rule =
        "rule = [{ name = 'paced', key = 'everyone', limits = 'leaky-bucket:15/m,capacity=2,mode=queue' }]";
    let (read, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, noted) = (Arc::clone(&read), Arc::clone(&begun));
    let address = upstream(move |request: Request<Incoming>| {
        let (counted, noted) = (Arc::clone(&counted), Arc::clone(&noted));
        async move {
            noted.fetch_add(1, Relaxed);
            let body = request.into_body().collect().await.unwrap().to_bytes();
            counted.fetch_add(body.iter().filter(|byte| **byte == b'x').count(), Relaxed);
            Response::new(full("done"))
        }
    })
    .await;
    let proxy = start_with(rule, &[format!("http://{address}")], hold_4096).await;
    assert_eq!(proxy.status("/").await, 200);
    let mut stream = narrow(&proxy).await;
    let head = format!("POST / HTTP/1.1\r\nhost: a.test\r\ncontent-length: {BODY}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reads, mut writes) = tokio::io::split(stream);
    let written = Arc::new(AtomicUsize::new(0));
    let (counted, waits) = (Arc::clone(&written), Arc::clone(&begun));
    tokio::spawn(async move {
        for _ in 0..BODY / 1024 {
            writes.write_all(&[b'x'; 1024]).await.unwrap();
            // The first request has been there before.
            if waits.load(Relaxed) == 1 {
                counted.fetch_add(1024, Relaxed);
            }
        }
    });
    let mut answer = [0; 12];
    timeout(LONG, reads.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!((&answer, read.load(Relaxed)), (b"HTTP/1.1 200", BODY), "it arrives whole");
    let written = written.load(Relaxed);
    assert!((4096..BODY / 2).contains(&written), "{written} bytes were written before the turn");
}

/// Heads of HTTP/1 that wait with a body of which nothing more is read: their client is not seen to
/// leave.
const UNSEEN: [&str; 2] = [
    "POST /slow HTTP/1.1\r\nhost: a.test\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n",
    "POST /slow HTTP/1.1\r\nhost: a.test\r\ncontent-length: 99999\r\n\r\n",
];

/// As much as is held, and more.
const MORE: [u8; 5000] = [b'x'; 5000];

/// A client that waits in the queue, and of which no more is read.
async fn unseen(proxy: &Proxy, head: &str) -> TcpStream {
    assert_eq!(proxy.status("/slow").await, 200);
    let mut stream = proxy.connect().await;
    stream.write_all(head.as_bytes()).await.unwrap();
    if !head.contains("expect") {
        stream.write_all(&MORE).await.unwrap();
    }
    until_left(proxy, 7).await;
    stream
}

#[tokio::test]
async fn a_client_with_an_unread_body_leaves_unseen() {
    for head in UNSEEN {
        let proxy = start_with(HOURLY, &[echo().await], hold_4096).await;
        drop(unseen(&proxy, head).await);
        // One that comes and leaves later is seen meanwhile.
        let mut other = proxy.connect().await;
        other.write_all(b"GET /slow HTTP/1.1\r\nhost: a.test\r\n\r\n").await.unwrap();
        until_left(&proxy, 6).await;
        drop(other);
        until_left(&proxy, 7).await;
    }
}

/// In HTTP/2 it is told apart from the body.
#[tokio::test]
async fn an_unread_client_of_http2_gives_its_turn_back() {
    let proxy = start_with(HOURLY, &[echo().await], hold_4096).await;
    assert_eq!(proxy.status("/slow").await, 200);
    for expects in [true, false] {
        let (sender, body) = Written::new();
        let mut request = Request::post("http://a.test/slow");
        if expects {
            request = request.header("expect", "100-continue");
        }
        let call = proxy.begin(true, request.body(body).unwrap()).await;
        if !expects {
            sender.send(Some(Bytes::from_static(&MORE))).await.unwrap();
        }
        until_left(&proxy, 7).await;
        call.leave();
        until_left(&proxy, 8).await;
        call.end();
    }
}

/// What it was charged stays then: the request is on its way.
#[tokio::test]
async fn a_client_that_left_unseen_is_missed_at_its_turn() {
    let rules = "rule = [
        { name = 'paced', key = 'everyone', limits = 'leaky-bucket:30/m,capacity=3,mode=queue', match.path = '/slow' },
        { name = 'at-once', key = 'everyone', limits = 'in-flight:1', match.path = '/slow' },
        { name = 'daily', key = 'everyone', limits = 'fixed-window:9/d',
          cost = [{ match.path = '/look', is = 0 }, { is = 1 }] }]";
    for head in UNSEEN {
        let set = |settings: &mut Settings| {
            hold_4096(settings);
            settings.admin.push("127.0.0.1:0".parse().unwrap());
        };
        let proxy = start_with(rules, &[echo().await], set).await;
        drop(unseen(&proxy, head).await);
        let missed = "tollgate_protocol_errors_total{listener=\"proxy\",kind=\"body\"} 1";
        let misses = async {
            while !metrics(&proxy).await.contains(missed) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(LONG, misses).await.expect("its body breaks off");
        until_left(&proxy, 7).await;
        proxy.until("/slow", 200).await;
    }
}

#[tokio::test]
async fn half_a_head_of_http2_charges_nothing() {
    let proxy = start(HOURLY, &[echo().await]).await;
    let fields = [(":method", "GET"), (":scheme", "http"), (":authority", "a.test"), (":path", "/slow")];
    let mut stream = proxy.connect().await;
    // Neither END_HEADERS nor END_STREAM.
    let begun = [opening(), frame(HEADERS, 0, 1, &block(&fields))].concat();
    stream.write_all(&begun).await.unwrap();
    // The proxy has read it when it has answered the settings.
    timeout(LONG, stream.read_exact(&mut [0; 9])).await.unwrap().unwrap();
    until_left(&proxy, 9).await;
    drop(stream);
    until_left(&proxy, 9).await;
    assert_eq!(proxy.status("/slow").await, 200, "it has the first turn");
    until_left(&proxy, 8).await;
}
