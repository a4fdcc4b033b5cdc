//! A connection's requests.

use std::convert::Infallible;
use std::error::Error;
use std::future::{poll_fn, ready};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::Either;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::MissedTickBehavior;

use super::answer::problem;
use super::body::RequestBody;
use super::early::EarlyResets;
use super::heads::Heads;
use super::idle::Activity;
use super::plain::{HEADERS, Left, Plain};
use super::streams::{Opening, StreamExecutor, WINDOW};
use super::untaken::Untaken;
use super::watched::Watched;
use crate::Limits;
use crate::counts::ListenerCounts;
use crate::listen::{Connection, Observed, Observer, Seldom};

const MILLISECOND: Duration = Duration::from_millis(1);

/// The most streams of a connection of HTTP/2 at a time. The server holds at most two parts of the
/// answer of each that its client does not take.
pub(super) const STREAMS: u32 = 200;

/// hyper takes no smaller buffer.
const LEAST_HEAD: usize = 8192;

/// Into how many parts the time of a head is divided: so often a connection is looked at.
pub const LOOKS: u32 = 4;

/// Serves the requests of a connection, HTTP/1 or HTTP/2, until the client or the server ends it.
/// A head that is too long, too slow or broken is answered here, and closes the connection. A
/// connection that an answer of status 101 hands over has ended here. `counts` has how long
/// each answer took, and broken heads.
pub async fn serve<F, B>(
    connection: Connection,
    limits: &Limits,
    counts: Arc<ListenerCounts>,
    handler: impl Fn(Request<RequestBody>) -> F + Send + Sync + 'static,
) where
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>
        + From<Full<Bytes>>
        + Unpin
        + Send
        + 'static,
{
    let Connection { stream, peer, presence } = connection;
    let told = presence.ends().clone();
    let (activity, untaken, mut stream) = (Activity::new(presence), Untaken::default(), stream);
    let (watched, looked, limits) = (Arc::clone(&activity), untaken.clone(), *limits);
    let mut overdue = Seldom::new(async move {
        let mut looks = tokio::time::interval((limits.read_timeout / LOOKS).max(MILLISECOND));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            watched.look();
            if watched.is_overdue(&limits) {
                return "no request came in time";
            }
            if looked.is_overdue(limits.idle_timeout) {
                return "its client does not take an answer";
            }
        }
    });
    let beginning = Arc::clone(&activity);
    let mut ends = Seldom::new(async move {
        told.cancelled_owned().await;
        // Before it knows the protocol, hyper closes the connection at once.
        beginning.wait_for_first_bytes().await;
    });
    let served = async {
        let plain = Plain::new(&mut stream, &activity, &untaken);
        let Left::Other { mut read, answer, is_http1 } = plain.serve(&counts, &handler).await else {
            return;
        };
        if is_http1 {
            // An empty line before a request means nothing (RFC 9112, section 2.2), and HTTP/2 does
            // not begin by one.
            read = [b"\r\n", &read[..]].concat().into();
        }
        let (heads, opening) = (Heads::new(Arc::clone(&activity)), untaken.opening());
        let watched = Watched::new(stream, Arc::clone(&activity));
        let early = EarlyResets::new(STREAMS);
        let observed = Observed::after(read, watched, Arriving { heads, opening, early: Arc::clone(&early) });
        let about = (peer.address(), &activity, &untaken, &early);
        // Boxed: most connections need no hyper, and would have room for it.
        Box::pin(serve_by_hyper(observed, &limits, counts, handler, answer, about)).await;
    };
    tokio::pin!(served);
    loop {
        tokio::select! {
            // A connection that is always busy spends what a task may do at a time.
            biased;
            why = &mut overdue => {
                tracing::debug!("a connection was closed: {why}");
                return;
            }
            () = &mut ends, if !activity.is_ending() => activity.end(),
            () = &mut served => return,
        }
    }
}

/// Whether a head of HTTP/1 has more bytes than this. hyper counts those of HTTP/2.
fn is_longer<B>(request: &Request<B>, most: usize) -> bool {
    /// Two blanks, the version and two line ends; a colon, a blank and a line end.
    const LINE: usize = 14;
    const FIELD: usize = 4;
    if request.version() > Version::HTTP_11 {
        return false;
    }
    let uri = request.uri();
    let target = uri.path_and_query().map_or(0, |target| target.as_str().len())
        + uri.authority().map_or(0, |authority| authority.as_str().len());
    let fields = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD);
    request.method().as_str().len() + target + LINE + fields.sum::<usize>() > most
}

/// What a client did wrong whose connection ended with this error, as labels say it. `None`: it has
/// left.
pub fn wrong(error: &hyper::Error) -> Option<&'static str> {
    if error.is_parse() {
        return Some("head");
    }
    let error: &h2::Error = error.source()?.downcast_ref()?;
    error.is_library().then_some("http2")
}

/// Its connection is closed.
fn too_long<B: From<Full<Bytes>>>() -> Response<B> {
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    let mut answer = problem(status, "the head is too long").map(B::from);
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// What looks at the bytes that arrive for hyper.
struct Arriving {
    heads: Heads,
    opening: Opening,
    early: Arc<EarlyResets>,
}

impl Observer for Arriving {
    fn arrived(&mut self, bytes: &[u8]) {
        self.opening.arrived(bytes);
        self.heads.arrived(bytes);
    }

    fn farewell(&self) -> Option<&'static [u8]> {
        self.early.farewell()
    }
}

/// Serves a connection from the first request on that is not plain. `answer` is the answer to that
/// request, if its handler has run.
async fn serve_by_hyper<S, F, B>(
    stream: S,
    limits: &Limits,
    counts: Arc<ListenerCounts>,
    handler: impl Fn(Request<RequestBody>) -> F + Send + Sync + 'static,
    answer: Option<Response<B>>,
    (client, activity, untaken, early): (IpAddr, &Arc<Activity>, &Untaken, &Arc<EarlyResets>),
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>
        + From<Full<Bytes>>
        + Unpin
        + Send
        + 'static,
{
    let mut builder = Builder::new(StreamExecutor::new(early));
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(limits.head_bytes.max(LEAST_HEAD))
        .max_headers(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW * STREAMS)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX));
    let (counted, noticed, answers) = (Arc::clone(&counts), Arc::clone(activity), untaken.clone());
    let (first, most, resets) = (Mutex::new(answer), limits.head_bytes, Arc::clone(early));
    let service = service_fn(move |request: Request<Incoming>| {
        let (busy, unread) = (noticed.begin(request.version()), answers.clone());
        let (is_old, handing) = (request.version() == Version::HTTP_10, Arc::clone(&noticed));
        let (began, counts) = (Instant::now(), Arc::clone(&counted));
        let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Boxed: hyper moves it, and each connection without a request would have room for it.
        let answer = match first {
            Some(answer) => Either::Left(ready(answer)),
            // It came together with others: hyper looks at its buffer only when it needs more.
            None if is_longer(&request, most) => {
                counts.protocol_error("head", client);
                Either::Left(ready(too_long()))
            }
            None => {
                let version = request.version();
                let reading = (!request.body().is_end_stream()).then(|| noticed.begin(version));
                let request = request.map(|body| RequestBody::Arriving(body, reading));
                let (wait, answer) = (resets.wait(), handler(request));
                Either::Right(Box::pin(async move {
                    if !wait.is_zero() {
                        tokio::time::sleep(wait).await;
                    }
                    answer.await
                }))
            }
        };
        async move {
            let is_first = matches!(answer, Either::Left(_));
            let mut answer = answer.await;
            // The end of the connection tells the end of such a body. hyper would say keep-alive,
            // but in an answer of this version.
            if is_old && answer.body().size_hint().exact().is_none() {
                *answer.version_mut() = Version::HTTP_10;
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
                handing.hand_over();
            }
            if !is_first {
                counts.took(began.elapsed());
            }
            Ok::<_, Infallible>(unread.answer(answer, busy))
        }
    });
    let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let mut is_told = false;
    let done = poll_fn(|context| {
        let done = connection.as_mut().poll(context);
        if done.is_pending() && activity.is_ending() && !is_told {
            is_told = true;
            connection.as_mut().graceful_shutdown();
            return connection.as_mut().poll(context);
        }
        done
    });
    let done = done.await;
    if early.farewell().is_some() {
        counts.protocol_error("resets", client);
        tracing::debug!("a connection was closed: its client resets what it asks");
    }
    if let Err(error) = done {
        if let Some(kind) = error.downcast_ref().and_then(wrong) {
            counts.protocol_error(kind, client);
        }
        tracing::debug!(%error, "a connection ended");
    }
}
