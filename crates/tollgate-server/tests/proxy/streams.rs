//! Streams to an upstream of HTTP/2, which all clients share.

use std::convert::Infallible;
use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tollgate_server::Settings;
use tollgate_testing::servers::loopback;
use tollgate_testing::upstream::{ByHand, by_hand, full};
use tollgate_testing::wait::{LONG, eventually};

use super::support::{Proxy, start, start_with};
use super::threads::ANY;

/// An upstream that takes so many streams of a connection, and answers `/held` when it is told.
struct Narrow {
    upstream: ByHand,
    arrived: Arc<AtomicUsize>,
    open: watch::Sender<bool>,
}

impl Narrow {
    async fn of(streams: u32) -> Self {
        let (open, opened) = watch::channel(false);
        let arrived = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&arrived);
        let upstream = by_hand(move |stream| {
            let (opened, counted) = (opened.clone(), Arc::clone(&counted));
            let answer = move |request: Request<Incoming>| {
                let (mut opened, counted) = (opened.clone(), Arc::clone(&counted));
                async move {
                    counted.fetch_add(1, Relaxed);
                    if request.uri().path() == "/held" {
                        let _ = opened.wait_for(|open| *open).await;
                    }
                    Ok::<_, Infallible>(Response::new(full("done")))
                }
            };
            async move {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder.max_concurrent_streams(streams);
                let _ = builder.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
            }
        });
        Self { upstream: upstream.await, arrived, open }
    }

    fn url(&self) -> String {
        format!("h2c://{}", self.upstream.address)
    }

    /// Requests that are held, when all have arrived.
    async fn holding(&self, proxy: &Arc<Proxy>, count: usize) -> Vec<tokio::task::JoinHandle<u16>> {
        let ask = |_| {
            let proxy = Arc::clone(proxy);
            tokio::spawn(async move { proxy.status("/held").await })
        };
        let held = (0..count).map(ask).collect();
        eventually(|| self.arrived.load(Relaxed) == count).await;
        held
    }
}

/// A value of `/metrics`.
pub(crate) fn metric(proxy: &Proxy, name: &str, label: &str) -> f64 {
    let page = proxy.administer("GET", "/metrics", "");
    let line = page.text().lines().find(|line| line.starts_with(name) && line.contains(label));
    let value = line.and_then(|line| line.rsplit(' ').next()).unwrap_or_else(|| panic!("{name} {label}"));
    value.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn long_streams_stop_no_other_request() {
    let narrow = Narrow::of(5).await;
    let proxy = Arc::new(start_with(ANY, &[narrow.url()], administered).await);
    let held = narrow.holding(&proxy, 5).await;
    for _ in 0..3 {
        assert_eq!(timeout(LONG, proxy.status("/")).await.expect("it is served"), 200);
    }
    assert_eq!(narrow.upstream.accepted.load(Relaxed), 2);
    assert_eq!(metric(&proxy, "tollgate_upstream_connections", ""), 2.0);
    narrow.open.send_replace(true);
    for held in held {
        assert_eq!(held.await.unwrap(), 200);
    }
}

/// More than the upstream takes would be refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_burst_begins_no_stream_that_is_refused() {
    let narrow = Narrow::of(3).await;
    let proxy = Arc::new(start_with(ANY, &[narrow.url()], administered).await);
    let held = narrow.holding(&proxy, 12).await;
    narrow.open.send_replace(true);
    for held in held {
        assert_eq!(held.await.unwrap(), 200);
    }
    assert_eq!(narrow.upstream.accepted.load(Relaxed), 4);
    assert_eq!(metric(&proxy, "tollgate_upstream_events_total", "\"refused\""), 0.0);
}

fn administered(settings: &mut Settings) {
    settings.admin.push(loopback());
}

fn one_connection(settings: &mut Settings) {
    administered(settings);
    settings.forward.upstream_connections = NonZeroUsize::MIN;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_stream_is_not_charged() {
    let narrow = Narrow::of(2).await;
    let set = |settings: &mut Settings| {
        one_connection(settings);
        settings.forward.connect_timeout = Duration::from_millis(300);
    };
    let rules = "rule = [{ name = 'few', key = 'client', limits = '3/h' }]";
    let proxy = Arc::new(start_with(rules, &[narrow.url()], set).await);
    let held = narrow.holding(&proxy, 2).await;
    for _ in 0..3 {
        let answer = timeout(LONG, proxy.get("/", &[])).await.expect("it is answered");
        assert_eq!(answer.status, 502, "{answer:?}");
        assert!(answer.text().contains("the upstream takes no more streams"), "{answer:?}");
    }
    assert_eq!(narrow.arrived.load(Relaxed), 2, "none was sent");
    assert_eq!(metric(&proxy, "tollgate_upstream_events_total", "\"busy\""), 3.0);
    assert_eq!(metric(&proxy, "tollgate_protocol_errors_total", "\"upstream_busy\""), 3.0);
    narrow.open.send_replace(true);
    for held in held {
        assert_eq!(held.await.unwrap(), 200);
    }
    assert_eq!(proxy.status("/").await, 200, "the third of three");
    assert_eq!(proxy.status("/").await, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_waits_for_the_end_of_a_stream() {
    let narrow = Narrow::of(2).await;
    let proxy = Arc::new(start_with(ANY, &[narrow.url()], one_connection).await);
    let held = narrow.holding(&proxy, 2).await;
    let waits = tokio::spawn({
        let proxy = Arc::clone(&proxy);
        async move { proxy.status("/").await }
    });
    eventually_metric(&proxy, "\"waited\"", 1.0).await;
    narrow.open.send_replace(true);
    assert_eq!(timeout(LONG, waits).await.expect("it is served").unwrap(), 200);
    for held in held {
        assert_eq!(held.await.unwrap(), 200);
    }
}

async fn eventually_metric(proxy: &Proxy, label: &str, value: f64) {
    let reached = async {
        while metric(proxy, "tollgate_upstream_events_total", label) < value {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, reached).await.unwrap_or_else(|_| panic!("{label} does not become {value}"));
}

/// In HTTP/1 the charge stays: what remembers it would cost each request.
#[tokio::test]
async fn a_request_that_reached_no_upstream_is_not_charged() {
    let rules = "rule = [{ name = 'one', key = 'client', limits = '1/h' }]";
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for (scheme, last) in [("h2c", 502), ("http", 429)] {
        let proxy = start(rules, &[format!("{scheme}://{closed}")]).await;
        assert_eq!((proxy.status("/").await, proxy.status("/").await), (502, last), "{scheme}");
    }
}

/// One that other requests have made necessary is closed again.
#[tokio::test]
async fn a_connection_that_serves_nothing_is_closed() {
    let narrow = Narrow::of(1).await;
    let set = |settings: &mut Settings| settings.forward.keep_timeout = Duration::from_millis(100);
    let proxy = Arc::new(start_with(ANY, &[narrow.url()], set).await);
    let held = narrow.holding(&proxy, 3).await;
    narrow.open.send_replace(true);
    for held in held {
        assert_eq!(held.await.unwrap(), 200);
    }
    eventually(|| narrow.upstream.ended.load(Relaxed) == 2).await;
    assert_eq!(proxy.status("/").await, 200);
    assert_eq!(narrow.upstream.accepted.load(Relaxed), 3);
}

/// A client that reads nothing of the answers to so many requests for `/big`.
async fn reads_nothing(proxy: &Proxy, requests: usize) -> Vec<Response<Incoming>> {
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(0);
    let made = builder.handshake(TokioIo::new(proxy.connect().await)).await;
    let (mut sender, connection) = made.unwrap();
    tokio::spawn(connection);
    let mut unread = Vec::new();
    for _ in 0..requests {
        let request = Request::get("http://a.test/big").body(Empty::<Bytes>::new()).unwrap();
        unread.push(timeout(LONG, sender.send_request(request)).await.unwrap().unwrap());
    }
    unread
}

const BIG: usize = 20 << 20;

#[tokio::test]
async fn unread_answers_stop_no_other_answer() {
    let big = Bytes::from(vec![7; BIG]);
    let upstream = by_hand(move |stream| {
        let big = big.clone();
        let answer = move |_: Request<Incoming>| {
            let big = big.clone();
            async move { Ok::<_, Infallible>(Response::new(full(big))) }
        };
        async move {
            let builder = http2::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
        }
    });
    let proxy = start_with(ANY, &[format!("h2c://{}", upstream.await.address)], one_connection).await;
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(reads_nothing(&proxy, 12).await);
    }
    let answer = timeout(LONG, proxy.get("/big", &[])).await.expect("it is not stopped");
    assert_eq!((answer.status.as_u16(), answer.body.len()), (200, BIG));
    // They were not broken off.
    for mut unread in held.into_iter().flatten() {
        assert!(timeout(Duration::from_millis(1), unread.body_mut().frame()).await.is_err());
    }
}

/// An upstream that bounds the memory of a connection: while it has an unread answer there, it
/// refuses all other streams, for this reason.
async fn bounded(reason: Reason) -> ByHand {
    by_hand(move |stream| serve_bounded(stream, reason)).await
}

async fn serve_bounded(stream: TcpStream, reason: Reason) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let unread = Arc::new(AtomicUsize::new(0));
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        if unread.load(Relaxed) > 0 {
            respond.send_reset(reason);
            continue;
        }
        let answer = Response::new(());
        if request.uri().path() != "/big" {
            let mut body = respond.send_response(answer, false).unwrap();
            body.send_data(Bytes::from_static(b"small"), true).unwrap();
            continue;
        }
        unread.fetch_add(1, Relaxed);
        tokio::spawn(send_big(respond, answer, Arc::clone(&unread)));
    }
}

async fn send_big(mut respond: SendResponse<Bytes>, answer: Response<()>, unread: Arc<AtomicUsize>) {
    let mut body = respond.send_response(answer, false).unwrap();
    body.send_data(Bytes::from(vec![7; BIG]), false).unwrap();
    let _ = poll_fn(|context| body.poll_reset(context)).await;
    unread.fetch_sub(1, Relaxed);
}

#[tokio::test]
async fn an_upstream_that_bounds_its_memory_serves_others() {
    for (reason, method) in [
        (Reason::ENHANCE_YOUR_CALM, "GET"),
        (Reason::REFUSED_STREAM, "GET"),
        (Reason::REFUSED_STREAM, "POST"),
    ] {
        let upstream = bounded(reason).await;
        let proxy = start(ANY, &[format!("h2c://{}", upstream.address)]).await;
        let _unread = reads_nothing(&proxy, 1).await;
        for _ in 0..5 {
            let answer = proxy.call(method, "/small", &[], "").await;
            assert_eq!(answer.status, 200, "{reason:?} {method} {answer:?}");
            assert_eq!(answer.body, "small");
        }
        assert_eq!(upstream.accepted.load(Relaxed), 2, "{reason:?} {method}");
    }
}

/// What its client leaves unread for `--idle-timeout`.
#[tokio::test]
async fn an_unread_answer_is_reset_at_its_upstream() {
    let reset = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reset);
    let upstream = by_hand(move |stream| {
        let counted = Arc::clone(&counted);
        async move {
            let Ok(mut connection) = h2::server::handshake(stream).await else { return };
            while let Some(Ok((_, respond))) = connection.accept().await {
                tokio::spawn(send_big(respond, Response::new(()), Arc::clone(&counted)));
            }
        }
    });
    let set = |settings: &mut Settings| settings.forward.idle_timeout = Duration::from_millis(300);
    let proxy = start_with(ANY, &[format!("h2c://{}", upstream.await.address)], set).await;
    // It counts down.
    reset.store(2, Relaxed);
    let _unread = reads_nothing(&proxy, 2).await;
    eventually(|| reset.load(Relaxed) == 0).await;
}
