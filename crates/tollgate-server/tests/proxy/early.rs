//! Clients of HTTP/2 that reset what they ask before it is answered.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::Reason;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::{sleep, timeout};
use tollgate_testing::frames::{
    ACK, END_HEADERS, GO_AWAY, HEADERS, PING, RESET, WHOLE, WINDOW_UPDATE, block, frame, opening,
};
use tollgate_testing::upstream::{ByHand, Gate, by_hand};
use tollgate_testing::wait::{LONG, eventually};

use super::rules::metrics;
use super::support::{start_with, unbuffered};
use super::threads::ANY;

/// The streams that a client may have at a time.
const STREAMS: usize = 200;

const ENHANCE_YOUR_CALM: [u8; 4] = [0, 0, 0, 0xb];
const CANCEL: [u8; 4] = [0, 0, 0, 8];

/// The requests in flight.
const AT_ONCE: u32 = 5;
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
        let streams: Vec<u32> = (requests + 1..=requests + AT_ONCE).map(|number| 4 * number - 1).collect();
        requests += AT_ONCE;
        let asks = streams.iter().flat_map(|stream| {
            [
                frame(HEADERS, WHOLE, stream - 2, &head("GET", "/free")),
                frame(HEADERS, flags, *stream, &head(method, "/")),
            ]
        });
        // An error: it is closed.
        let _ = writes.write_all(&asks.collect::<Vec<_>>().concat()).await;
        // Of those that are asked for here, no `/free` comes to the upstream.
        while gate.arrived.load(Relaxed) <= requests as usize && !end.is_finished() {
            assert!(began.elapsed() < LONG, "{requests} in {:?}", began.elapsed());
            sleep(Duration::from_micros(200)).await;
        }
        let resets = streams.iter().map(|stream| frame(RESET, 0, *stream, &CANCEL));
        let _ = writes.write_all(&resets.collect::<Vec<_>>().concat()).await;
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

/// Requests that a client resets while they wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_requests_reset_at_once_few_reach_the_upstream() {
    const RESETS: u32 = 300;
    let gate = Gate::new().await;
    let proxy = start_with(ANY, std::slice::from_ref(&gate.url), |_| {}).await;
    let mut stream = proxy.connect().await;
    stream.set_nodelay(true).unwrap();
    stream.write_all(&opening()).await.unwrap();
    for number in 0..RESETS {
        let asked =
            [frame(HEADERS, WHOLE, 2 * number + 1, &head("GET", "/")), frame(PING, 0, 0, &[0; 8])].concat();
        stream.write_all(&asked).await.unwrap();
        let mut head = [0; 9];
        while head[3..5] != [PING, ACK] {
            stream.read_exact(&mut head).await.unwrap();
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            stream.read_exact(&mut payload).await.unwrap();
        }
        stream.write_all(&frame(RESET, 0, 2 * number + 1, &CANCEL)).await.unwrap();
    }
    gate.open();
    assert_eq!(proxy.status("/").await, 200);
    let reached = gate.arrived.load(Relaxed) - 1;
    assert!((1..RESETS as usize / 2).contains(&reached), "{reached} reached the upstream");
}

/// The most streams that an upstream lets its client reset.
const BORNE: usize = 20;

/// An upstream that ends a connection when more of its streams were reset.
struct Calm {
    upstream: ByHand,
    arrived: Arc<AtomicUsize>,
    resets: Arc<AtomicUsize>,
}

impl Calm {
    /// It answers `/held` when so many streams of all connections were reset.
    async fn until(enough: usize) -> Self {
        let (arrived, resets) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (begun, all) = (Arc::clone(&arrived), Arc::clone(&resets));
        let upstream = by_hand(move |stream| {
            let (begun, all) = (Arc::clone(&begun), Arc::clone(&all));
            async move {
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                let own = Arc::new(AtomicUsize::new(0));
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let (all, own) = (Arc::clone(&all), Arc::clone(&own));
                    if own.load(Relaxed) > BORNE {
                        connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                        continue;
                    }
                    begun.fetch_add(1, Relaxed);
                    tokio::spawn(async move {
                        if request.uri().path() == "/held" {
                            eventually(|| all.load(Relaxed) >= enough).await;
                            let _ = respond.send_response(Response::new(()), true);
                        } else if poll_fn(|context| respond.poll_reset(context)).await.is_ok() {
                            own.fetch_add(1, Relaxed);
                            all.fetch_add(1, Relaxed);
                        }
                    });
                }
            }
        });
        Self { upstream: upstream.await, arrived, resets }
    }
}

/// Each leaves a few of its requests, and the upstream bears that of no connection for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_leave_wear_out_no_connection_of_others() {
    const CLIENTS: usize = 12;
    const EACH: usize = 7;
    let calm = Calm::until(CLIENTS * EACH).await;
    let url = format!("h2c://{}", calm.upstream.address);
    let proxy = Arc::new(start_with(ANY, &[url], |settings| settings.forward.keep_timeout = 2 * LONG).await);
    let asks = Arc::clone(&proxy);
    // It is not repeated, and waits on the first connection.
    let held = tokio::spawn(async move { asks.call("POST", "/held", &[], "").await });
    eventually(|| calm.arrived.load(Relaxed) == 1).await;
    for client in 0..CLIENTS {
        let mut sender = proxy.http2::<Empty<Bytes>>().await;
        for number in 1..=EACH {
            let done = client * EACH + number;
            let request = Request::get("http://a.test/silent").body(Empty::new()).unwrap();
            let left = tokio::spawn(sender.send_request(request));
            eventually(|| calm.arrived.load(Relaxed) > done || held.is_finished()).await;
            left.abort();
            eventually(|| calm.resets.load(Relaxed) >= done || held.is_finished()).await;
        }
    }
    assert_eq!(timeout(LONG, held).await.unwrap().unwrap().status, 200);
    // None takes a request after sixteen, and those that serve nothing are closed.
    let accepted = calm.upstream.accepted.load(Relaxed);
    assert_eq!(accepted, (CLIENTS * EACH).div_ceil(16));
    assert_eq!(proxy.call("GET", "/held", &[], "").await.status, 200);
    eventually(|| calm.upstream.ended.load(Relaxed) + 1 >= accepted).await;
}
