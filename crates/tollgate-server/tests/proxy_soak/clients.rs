//! Clients: some ask on, some leave, wherever their request is.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tollgate_testing::random::Random;

use super::upstreams::Counts;
use super::{FLOOD, KEYS, LONG};

/// How often each status was answered.
pub(crate) type Statuses = BTreeMap<u16, u64>;

/// The clients of each kind.
const HTTP1: u64 = 14;
const HTTP2: u64 = 4;
const LEAVERS: u64 = 6;

/// The requests of a client of HTTP/2 at a time.
const STREAMS: usize = 8;

/// The paths beside `/`, which is answered at once.
const PATHS: [&str; 9] =
    ["/paced", "/slow", "/fail", "/break", "/early", "/paced", "/slow", "/stuck", "/stall"];

/// What all clients share.
#[derive(Clone)]
struct Shared {
    address: SocketAddr,
    counts: Arc<Counts>,
    is_over: Arc<AtomicBool>,
}

impl Shared {
    /// A request of a random key. One in four is of the flood.
    fn request(&self, random: &mut Random) -> Request<Full<Bytes>> {
        let path = match random.u32(..8) {
            0 => PATHS[random.usize(..PATHS.len())],
            _ => "/",
        };
        let key = match random.u32(..4) {
            0 => KEYS + random.u32(..FLOOD),
            _ => random.u32(..KEYS),
        };
        self.request_to(path, key, ["GET", "PATCH", "POST"][random.usize(..3)])
    }

    fn request_to(&self, path: &str, key: u32, method: &str) -> Request<Full<Bytes>> {
        let body = if method == "GET" { Bytes::new() } else { Bytes::from_static(&[b'x'; 2000]) };
        let request = Request::builder().method(method).uri(format!("http://a.test{path}"));
        let request = request.header("host", "a.test").header("x-key", key);
        let request = request.header("x-number", self.counts.next.fetch_add(1, Relaxed));
        let sent = u64::try_from(self.counts.begun.elapsed().as_nanos()).expect("less than centuries");
        request.header("x-sent", sent).body(Full::new(body)).expect("a request")
    }

    /// `None`: the proxy has closed the connection meanwhile, or is not there any more.
    async fn http1(&self) -> Option<http1::SendRequest<Full<Bytes>>> {
        let stream = TokioIo::new(TcpStream::connect(self.address).await.ok()?);
        let (sender, connection) = http1::handshake(stream).await.ok()?;
        tokio::spawn(connection);
        Some(sender)
    }

    async fn http2(&self) -> Option<http2::SendRequest<Full<Bytes>>> {
        let stream = TokioIo::new(TcpStream::connect(self.address).await.ok()?);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.ok()?;
        tokio::spawn(connection);
        Some(sender)
    }
}

/// All clients.
pub(crate) struct Clients(JoinSet<Statuses>);

impl Clients {
    pub(crate) fn begin(address: SocketAddr, counts: &Arc<Counts>, is_over: &Arc<AtomicBool>) -> Self {
        let shared = Shared { address, counts: Arc::clone(counts), is_over: Arc::clone(is_over) };
        let mut tasks = JoinSet::new();
        for seed in 0..HTTP1 {
            tasks.spawn(ask_by_http1(shared.clone(), Random::with_seed(seed)));
        }
        for seed in 0..HTTP2 {
            tasks.spawn(ask_by_http2(shared.clone(), Random::with_seed(100 + seed)));
        }
        for seed in 0..LEAVERS {
            tasks.spawn(leave(shared.clone(), Random::with_seed(200 + seed)));
        }
        Self(tasks)
    }

    /// Waits until all have seen that it is over.
    pub(crate) async fn end(self) -> Statuses {
        let all = timeout(LONG, self.0.join_all()).await.expect("no request takes for ever");
        let mut sums = Statuses::new();
        for (status, count) in all.into_iter().flatten() {
            *sums.entry(status).or_default() += count;
        }
        sums
    }
}

/// Reads an answer to its end. `None`: it breaks off.
async fn whole(answer: Response<Incoming>) -> Option<u16> {
    let (head, body) = answer.into_parts();
    body.collect().await.ok().map(|_| head.status.as_u16())
}

/// One request after the other. One in eight is left.
async fn ask_by_http1(shared: Shared, mut random: Random) -> Statuses {
    let (mut statuses, mut kept) = (Statuses::new(), None);
    while !shared.is_over.load(Relaxed) {
        let sender = match kept.take() {
            Some(sender) => Some(sender),
            None => shared.http1().await,
        };
        let Some(mut sender) = sender else { continue };
        let request = shared.request(&mut random);
        let patience = match random.u32(..8) {
            0 => Duration::from_micros(random.u32(..20_000).into()),
            _ => LONG,
        };
        let asked = async {
            sender.ready().await.ok()?;
            whole(sender.send_request(request).await.ok()?).await
        };
        if let Ok(Some(status)) = timeout(patience, asked).await {
            *statuses.entry(status).or_default() += 1;
            kept = Some(sender);
        }
    }
    statuses
}

/// Some requests at a time. Half of them are left, and their streams reset.
async fn ask_by_http2(shared: Shared, mut random: Random) -> Statuses {
    let mut statuses = Statuses::new();
    'connections: while !shared.is_over.load(Relaxed) {
        let Some(sender) = shared.http2().await else { continue };
        for _ in 0..random.u32(..50) {
            let mut streams = JoinSet::new();
            for _ in 0..STREAMS {
                let (mut sender, request) = (sender.clone(), shared.request(&mut random));
                let patience = match random.u32(..2) {
                    0 => Duration::from_micros(random.u32(..20_000).into()),
                    _ => LONG,
                };
                streams.spawn(timeout(patience, async move {
                    sender.ready().await.ok()?;
                    whole(sender.send_request(request).await.ok()?).await
                }));
            }
            let answers = streams.join_all().await;
            for status in answers.into_iter().filter_map(|answer| answer.ok().flatten()) {
                *statuses.entry(status).or_default() += 1;
            }
            if sender.is_closed() || shared.is_over.load(Relaxed) {
                continue 'connections;
            }
        }
    }
    statuses
}

/// Sends a part of a request, waits a little, and leaves: every other time by a reset.
async fn leave(shared: Shared, mut random: Random) -> Statuses {
    while !shared.is_over.load(Relaxed) {
        let request = shared.request(&mut random);
        let mut bytes = format!("POST {} HTTP/1.1\r\n", request.uri().path()).into_bytes();
        for (name, value) in request.headers() {
            bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        bytes.extend(b"content-length: 2000\r\n\r\n");
        bytes.extend([b'x'; 2000]);
        let Ok(mut stream) = TcpStream::connect(shared.address).await else { continue };
        let part = random.usize(1..=bytes.len());
        // The proxy may have refused it already.
        let _ = stream.write_all(&bytes[..part]).await;
        sleep(Duration::from_micros(random.u32(..10_000).into())).await;
        if random.bool() {
            stream.set_zero_linger().expect("it may be reset");
        }
    }
    Statuses::new()
}

/// Asserts that so many requests may be in flight, and no more: none is held by one that has left.
pub(crate) async fn assert_all_turns_are_free(address: SocketAddr, counts: &Arc<Counts>, turns: usize) {
    let begun = Instant::now();
    let shared = Shared { address, counts: Arc::clone(counts), is_over: Arc::default() };
    let ask = |path: &'static str, key| {
        let shared = shared.clone();
        async move {
            let mut sender = shared.http1().await?;
            let request = shared.request_to(path, key, "GET");
            whole(sender.send_request(request).await.ok()?).await
        }
    };
    for key in KEYS + FLOOD.. {
        assert!(begun.elapsed() < LONG, "{turns} requests are never in flight together");
        counts.held.store(0, Relaxed);
        counts.release.send_replace(false);
        let mut held = JoinSet::new();
        (0..turns).for_each(|_| drop(held.spawn(ask("/hold", key))));
        let arrive = async {
            while counts.held.load(Relaxed) < turns {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let all_arrive = timeout(Duration::from_millis(700), arrive).await.is_ok();
        let one_more = ask("/", key).await;
        counts.release.send_replace(true);
        let answers = held.join_all().await;
        if all_arrive && answers.iter().all(|status| *status == Some(200)) {
            assert_eq!(one_more, Some(429), "no more than {turns} are in flight");
            return;
        }
    }
}
