//! Servers that know nothing of limits, misbehave as their requests ask, and count them.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::{KEYS, MOST};

/// The numbers of requests that are remembered, to see whether one comes twice.
const NUMBERS: usize = 1 << 26;

/// The requests that came to all upstreams.
pub(crate) struct Counts {
    pub(crate) begun: Instant,
    pub(crate) arrived: AtomicUsize,
    /// Requests that came again and may not be repeated.
    pub(crate) twice: AtomicUsize,
    /// The number of the next request.
    pub(crate) next: AtomicU64,
    /// A bit for each number of a request.
    numbers: Vec<AtomicU64>,
    /// When requests of each key came, after `begun`.
    keys: Vec<Mutex<Vec<Duration>>>,
    /// The longest time from the client to an upstream, in nanoseconds.
    longest: AtomicU64,
    /// Those that wait to be answered.
    pub(crate) held: AtomicUsize,
    pub(crate) release: watch::Sender<bool>,
}

impl Counts {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            arrived: AtomicUsize::new(0),
            twice: AtomicUsize::new(0),
            next: AtomicU64::new(0),
            numbers: (0..NUMBERS / 64).map(|_| AtomicU64::new(0)).collect(),
            keys: (0..KEYS).map(|_| Mutex::default()).collect(),
            longest: AtomicU64::new(0),
            held: AtomicUsize::new(0),
            release: watch::Sender::new(false),
        }
    }

    fn note(&self, method: &Method, headers: &HeaderMap) {
        let number = |name| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.and_then(|value| value.parse::<u64>().ok())
        };
        let (Some(key), Some(own), Some(sent)) = (number("x-key"), number("x-number"), number("x-sent"))
        else {
            panic!("what a client says is passed on: {headers:?}")
        };
        let now = self.begun.elapsed();
        self.arrived.fetch_add(1, Relaxed);
        let (word, bit) = (&self.numbers[own as usize % NUMBERS / 64], 1 << (own % 64));
        if word.fetch_or(bit, Relaxed) & bit != 0 {
            // A GET is repeated when its connection ends without an answer. It is charged once.
            if method != Method::GET {
                self.twice.fetch_add(1, Relaxed);
            }
            return;
        }
        let way = u64::try_from(now.as_nanos()).expect("less than centuries").saturating_sub(sent);
        self.longest.fetch_max(way, Relaxed);
        if let Some(times) = self.keys.get(key as usize) {
            times.lock().expect("no thread has panicked").push(now);
        }
    }

    /// Asserts that every key stays within its bound over every interval: the burst, and the rate
    /// for the interval and for the longest way to an upstream. Returns how often the fullest key
    /// came, and that way.
    pub(crate) fn assert_bound(&self) -> (usize, Duration) {
        let longest = Duration::from_nanos(self.longest.load(Relaxed));
        let most = Duration::from_secs(1) + longest;
        let mut fullest = 0;
        for (key, times) in self.keys.iter().enumerate() {
            let mut times = times.lock().expect("no thread has panicked");
            // Two that came at once are noted in either order.
            times.sort_unstable();
            // When the bucket would be full again, were it charged at each arrival.
            let mut full_at = Duration::ZERO;
            for (count, time) in times.iter().enumerate() {
                full_at = full_at.max(*time) + Duration::from_secs(1) / MOST;
                let over = full_at.saturating_sub(*time + most);
                assert!(over.is_zero(), "key {key}: arrival {count} is {over:?} early, way {longest:?}");
            }
            fullest = fullest.max(times.len());
        }
        (fullest, longest)
    }
}

/// Servers that may go away, and come back at the same address.
pub(crate) struct Upstreams {
    counts: Arc<Counts>,
    all: Vec<(SocketAddr, Option<JoinHandle<()>>)>,
}

impl Upstreams {
    pub(crate) async fn new(counts: &Arc<Counts>) -> Self {
        let mut all = Vec::new();
        for _ in 0..3 {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("it is bound");
            all.push((address, Some(tokio::spawn(serve(listener, Arc::clone(counts))))));
        }
        Self { counts: Arc::clone(counts), all }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Two of HTTP/1, and one of HTTP/2.
    pub(crate) fn urls(&self) -> Vec<String> {
        let urls = self.all.iter().zip(["http", "http", "h2c"]);
        urls.map(|((address, _), scheme)| format!("{scheme}://{address}")).collect()
    }

    /// The server is not there any more, nor its connections.
    pub(crate) async fn close(&mut self, at: usize) {
        let at = at % self.all.len();
        if let Some(running) = self.all[at].1.take() {
            running.abort();
            let _ = running.await;
        }
    }

    pub(crate) async fn open(&mut self, at: usize) {
        let at = at % self.all.len();
        let (address, running) = &mut self.all[at];
        if running.is_none() {
            // Another socket may have got the port meanwhile.
            let listener = loop {
                match TcpListener::bind(*address).await {
                    Ok(listener) => break listener,
                    Err(_) => sleep(Duration::from_millis(10)).await,
                }
            };
            *running = Some(tokio::spawn(serve(listener, Arc::clone(&self.counts))));
        }
    }

    pub(crate) async fn close_all(&mut self) {
        for at in 0..self.all.len() {
            self.close(at).await;
        }
    }
}

/// Serves until it is aborted, which ends its connections: every other one by a reset.
async fn serve(listener: TcpListener, counts: Arc<Counts>) {
    let (mut connections, mut accepted) = (JoinSet::new(), 0_u32);
    while let Ok((stream, _)) = listener.accept().await {
        accepted += 1;
        if accepted.is_multiple_of(2) {
            stream.set_zero_linger().expect("it may be reset");
        }
        let counts = Arc::clone(&counts);
        let service = service_fn(move |request| answer(request, Arc::clone(&counts)));
        connections.spawn(async move {
            let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Answers as the path says. An error ends the connection.
async fn answer(request: Request<Incoming>, counts: Arc<Counts>) -> io::Result<Response<Answer>> {
    counts.note(request.method(), request.headers());
    let whole =
        |text: &'static str| Response::new(Full::new(Bytes::from(text)).map_err(never).boxed_unsync());
    match request.uri().path() {
        "/fail" => Err(io::ErrorKind::BrokenPipe.into()),
        "/stall" => std::future::pending().await,
        "/early" => Ok(whole("early")),
        "/break" => Ok(Response::new(Parts::new(3, End::Breaks).boxed_unsync())),
        "/stuck" => Ok(Response::new(Parts::new(3, End::Stalls).boxed_unsync())),
        "/slow" => Ok(Response::new(Parts::new(10, End::Ends).boxed_unsync())),
        "/hold" => {
            counts.held.fetch_add(1, Relaxed);
            let released = counts.release.subscribe().wait_for(|released| *released).await.is_ok();
            assert!(released, "the sender lives as long as the test");
            Ok(whole("held"))
        }
        _ => match request.into_body().collect().await {
            Ok(_) => Ok(whole("done")),
            Err(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        },
    }
}

type Answer = UnsyncBoxBody<Bytes, io::Error>;

fn never(never: Infallible) -> io::Error {
    match never {}
}

/// How a body of some parts ends.
#[derive(Clone, Copy)]
enum End {
    Ends,
    Breaks,
    Stalls,
}

/// A body that comes part by part.
struct Parts {
    left: u32,
    end: End,
    pause: std::pin::Pin<Box<tokio::time::Sleep>>,
}

impl Parts {
    fn new(left: u32, end: End) -> Self {
        Self { left, end, pause: Box::pin(sleep(Duration::ZERO)) }
    }
}

impl Body for Parts {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<io::Result<Frame<Bytes>>>> {
        use std::task::Poll;
        std::task::ready!(self.pause.as_mut().poll(context));
        if self.left == 0 {
            return match self.end {
                End::Ends => Poll::Ready(None),
                End::Breaks => Poll::Ready(Some(Err(io::ErrorKind::BrokenPipe.into()))),
                End::Stalls => Poll::Pending,
            };
        }
        self.left -= 1;
        self.pause = Box::pin(sleep(Duration::from_millis(5)));
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 1024])))))
    }
}
