//! Clients of HTTP/2 that reset what they ask before it is answered.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::{sleep, timeout};
use tollgate_testing::frames::{
    END_HEADERS, GO_AWAY, HEADERS, RESET, WHOLE, WINDOW_UPDATE, block, frame, opening,
};
use tollgate_testing::upstream::Gate;
use tollgate_testing::wait::LONG;

use super::rules::metrics;
use super::support::{start_with, unbuffered};

/// The streams that a client may have at a time.
const STREAMS: usize = 200;

const ENHANCE_YOUR_CALM: [u8; 4] = [0, 0, 0, 0xb];
const CANCEL: [u8; 4] = [0, 0, 0, 8];

const FIVE_AT_ONCE: &str = "rule = [{ name = 'at-once', key = 'everyone', limits = 'in-flight:5' }]";

fn head(method: &str, path: &str) -> Vec<u8> {
    block(&[(":method", method), (":scheme", "http"), (":authority", "a.test"), (":path", path)])
}

/// Reads a connection to its end. Returns why it was told to go away.
async fn told(mut stream: OwnedReadHalf) -> Option<[u8; 4]> {
    let mut why = None;
    let mut head = [0; 9];
    while stream.read_exact(&mut head).await.is_ok() {
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        if stream.read_exact(&mut payload).await.is_err() {
            break;
        }
        if head[3] == GO_AWAY {
            why = payload[4..8].try_into().ok();
        }
    }
    why
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_resets_all_it_asks_is_cut_off() {
    resets_all(WHOLE, "GET").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_resets_all_its_uploads_is_cut_off() {
    resets_all(END_HEADERS, "POST").await;
}

/// Each request is on its way to the upstream before it is reset, and refusals come between.
async fn resets_all(flags: u8, method: &str) {
    let rules = "rule = [
        { name = 'at-once', match.path = '/', key = 'everyone', limits = 'in-flight:5' },
        { name = 'once', match.path = '/free', key = 'everyone', limits = 'fixed-window:1/d' }]";
    let gate = Gate::new().await;
    let proxy = start_with(rules, std::slice::from_ref(&gate.url), |settings| {
        settings.admin.push("127.0.0.1:0".parse().unwrap());
        unbuffered(settings);
    })
    .await;
    assert_eq!((proxy.status("/free").await, proxy.status("/free").await), (200, 429));
    let stream = proxy.connect().await;
    stream.set_nodelay(true).unwrap();
    let (reads, mut writes) = stream.into_split();
    // All refusals together are longer than the first window.
    let window = frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
    writes.write_all(&[opening(), window].concat()).await.unwrap();
    let end = tokio::spawn(told(reads));
    let (mut requests, began) = (0, Instant::now());
    while !end.is_finished() && requests < 3_000 {
        assert!(began.elapsed() < LONG, "{requests} in {:?}", began.elapsed());
        requests += 1;
        let stream = 4 * requests - 1;
        let asks = [
            frame(HEADERS, WHOLE, stream - 2, &head("GET", "/free")),
            frame(HEADERS, flags, stream, &head(method, "/")),
        ];
        // An error: it is closed.
        let _ = writes.write_all(&asks.concat()).await;
        // Of those that are asked for here, no `/free` comes to the upstream.
        while gate.arrived.load(Relaxed) <= requests as usize && !end.is_finished() {
            assert!(began.elapsed() < LONG, "{requests} in {:?}", began.elapsed());
            sleep(Duration::from_micros(200)).await;
        }
        let _ = writes.write_all(&frame(RESET, 0, stream, &CANCEL)).await;
    }
    assert!((2 * STREAMS..3 * STREAMS).contains(&(requests as usize)), "{requests} reached the upstream");
    assert_eq!(timeout(LONG, end).await.unwrap().unwrap(), Some(ENHANCE_YOUR_CALM));
    let counted = "tollgate_protocol_errors_total{listener=\"proxy\",kind=\"resets\"} 1";
    assert!(metrics(&proxy).await.contains(counted));
    gate.open();
    proxy.until("/", 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_half_of_what_it_asks_stays() {
    let gate = Gate::new().await;
    let proxy = start_with(FIVE_AT_ONCE, std::slice::from_ref(&gate.url), |_| {}).await;
    let stream = proxy.connect().await;
    stream.set_nodelay(true).unwrap();
    let client = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = client.unwrap();
    tokio::spawn(connection);
    let get = |path: &str| Request::get(format!("http://a.test{path}")).body(Empty::<Bytes>::new()).unwrap();
    for round in 0..3 * STREAMS {
        let left = tokio::spawn(sender.send_request(get("/")));
        gate.arrivals(2 * round + 1).await;
        left.abort();
        let answer = timeout(LONG, sender.send_request(get("/free"))).await.unwrap();
        let answer = answer.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(answer.status(), 200, "round {round}");
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "done");
    }
}
