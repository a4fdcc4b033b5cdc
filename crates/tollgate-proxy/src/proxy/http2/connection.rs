//! One connection to an upstream of HTTP/2: how many streams it has, and may have.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use h2::Reason;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http2::{Builder, Connection as Driven, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::Notify;

use super::heard::Heard;
use crate::counts::{OpenUpstream, UpstreamCounts};
use crate::proxy::dial::{Dial, Dialled};
use crate::proxy::failed::{Failed, Failure};
use crate::proxy::upload::{Fault, Upload};

/// The most streams of a connection, also where the upstream takes more.
const MOST_STREAMS: u32 = 1000;

/// How many bytes of an answer the upstream may send that its client has not read.
const WINDOW: u32 = 64 << 10;

/// How many bytes the upstream may send that no client has read: all streams together cannot use
/// them up, so that no unread answer stops another one.
const WINDOWS: u32 = WINDOW * MOST_STREAMS;

/// After how many streams that were reset a connection is worn: servers end one of which many are
/// reset, with all that is on it. The strictest known one bears 20 at once (hyper), others 200 in
/// half a minute (Netty), 500 (Envoy), 1,000 (Node.js).
const RESETS: usize = 16;

/// How long a connection that has refused a stream is used after others.
const REFUSED: Duration = Duration::from_secs(1);

pub(super) struct Connection {
    sender: SendRequest<Sending>,
    driver: Arc<Driver>,
    /// The streams that have not ended.
    streams: AtomicUsize,
    /// Those that were reset, as their clients left before the end of their answers.
    resets: AtomicUsize,
    silence: Silence,
    /// Whether an answer has come by it.
    has_answered: AtomicBool,
    /// Whether it takes no more requests.
    has_ended: AtomicBool,
    /// When it last refused a stream.
    refused: Mutex<Option<Instant>>,
    /// Since when it has no streams, as far as looks have seen that.
    idle: Mutex<Option<Instant>>,
    counted: OpenUpstream,
}

/// hyper's side of a connection. It is kept here for what it knows.
#[derive(Default)]
struct Driver(Mutex<Option<Running>>);

type Running = Driven<TokioIo<Heard<Dialled>>, Sending, TokioExecutor>;

/// Since when requests wait without an answer to any of them. A connection may die without a word:
/// the machine behind it is gone, or one in between has forgotten it.
#[derive(Default)]
struct Silence(Mutex<Option<Instant>>);

/// A stream of a connection, until both its bodies have ended.
pub(super) struct Stream {
    connection: Arc<Connection>,
    /// Whether its answer has ended, or cannot come.
    has_ended: AtomicBool,
    /// Told of the end.
    freed: Arc<Notify>,
}

/// The body of a request, which keeps its stream.
struct Sending {
    upload: Upload,
    _stream: Arc<Stream>,
}

/// The body of an answer, which keeps its stream until it has ended.
pub(in crate::proxy) struct StreamBody {
    body: Incoming,
    stream: Option<Arc<Stream>>,
}

/// Why a stream has no answer.
pub(super) struct Unanswered {
    pub(super) fate: Fate,
    pub(super) failed: Failed,
}

/// How far a request came that has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing of it was sent.
    Unsent,
    /// The upstream has not acted on it (RFC 9113, section 8.7).
    Unserved,
    /// The connection ended, or the upstream bounds what it keeps of one. It may have acted on it.
    Unanswered,
    /// The upstream broke it off.
    Broken,
}

impl Connection {
    /// Makes a connection. It is open when the upstream has said how many streams it takes: more
    /// would be refused.
    pub(super) async fn open(dial: &Dial, counts: &Arc<UpstreamCounts>) -> Result<Arc<Self>, Failed> {
        let began = Instant::now();
        let stream = dial.clone().connect().await?;
        let heard = Arc::new(AtomicWaker::new());
        let io = TokioIo::new(Heard::new(stream, Arc::clone(&heard)));
        // As long as the upstream has not said it, there are none.
        let made = Builder::new(TokioExecutor::new())
            .initial_max_send_streams(0)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOWS)
            .handshake(io)
            .await;
        let (sender, running) = made.map_err(|error| Failed::new(Failure::Connect, &error))?;
        let driver = Arc::new(Driver(Mutex::new(Some(running))));
        let (drives, ends) = (Arc::clone(&driver), Arc::clone(&heard));
        tokio::spawn(async move {
            poll_fn(|context| drives.poll(context)).await;
            ends.wake();
        });
        let settled = poll_fn(|context| {
            heard.register(context.waker());
            match driver.most_streams() {
                None => Poll::Ready(Err(io::Error::other("the connection ended before its settings"))),
                Some(0) => Poll::Pending,
                Some(_) => Poll::Ready(Ok(())),
            }
        });
        let left = dial.timeout().saturating_sub(began.elapsed());
        let settled = tokio::time::timeout(left, settled).await.map_err(|_| Failure::ConnectLate)?;
        settled.map_err(|error| Failed::new(Failure::Connect, &error))?;
        Ok(Arc::new(Self {
            sender,
            driver,
            streams: AtomicUsize::new(0),
            resets: AtomicUsize::new(0),
            silence: Silence::default(),
            has_answered: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            refused: Mutex::default(),
            idle: Mutex::default(),
            counted: counts.open(),
        }))
    }

    /// Whether requests may go by it: it is open, not worn out, and was not silent for longer than
    /// half of the `patience` with a request. Half: a request whose time is over began before it
    /// had the connection, and the next one must not wait for the same silence.
    pub(super) fn is_usable(&self, patience: Duration) -> bool {
        let has_ended = self.sender.is_closed() || self.has_ended.load(Relaxed) || self.is_worn_out();
        !has_ended && !self.silence.is_longer_than(patience / 2)
    }

    /// Whether it has room for a stream.
    pub(super) fn has_room(&self) -> bool {
        let streams = self.streams.load(Relaxed);
        streams < MOST_STREAMS as usize && self.driver.most_streams().is_some_and(|most| streams < most)
    }

    /// Takes a stream. Its worker's connections are locked: no other request takes the same.
    pub(super) fn stream(self: &Arc<Self>, freed: &Arc<Notify>) -> Stream {
        self.streams.fetch_add(1, Relaxed);
        let has_ended = AtomicBool::new(false);
        Stream { connection: Arc::clone(self), has_ended, freed: Arc::clone(freed) }
    }

    /// A stream was reset.
    fn is_reset(&self) {
        if self.resets.fetch_add(1, Relaxed) + 1 == RESETS {
            self.counted.is_worn();
        }
    }

    /// Whether so many of its streams were reset that the upstream may soon end it.
    pub(super) fn is_worn(&self) -> bool {
        self.resets.load(Relaxed) >= RESETS
    }

    /// Whether it is worn, and serves nothing any more.
    fn is_worn_out(&self) -> bool {
        self.is_worn() && self.streams.load(Relaxed) == 0
    }

    /// Whether it has refused a stream just now.
    pub(super) fn has_refused(&self) -> bool {
        lock(&self.refused).is_some_and(|at| at.elapsed() < REFUSED)
    }

    /// Looks whether there are streams. Returns whether it is open, and had none for so long as far
    /// as looks have seen.
    pub(super) fn is_idle_for(&self, time: Duration) -> bool {
        let is_idle = self.streams.load(Relaxed) == 0;
        let mut idle = lock(&self.idle);
        *idle = idle.filter(|_| is_idle).or_else(|| is_idle.then(Instant::now));
        idle.is_some_and(|since| since.elapsed() >= time)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    /// Reads and writes what there is. Is ready when the connection has ended.
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut running = lock(&self.0);
        let Some(driven) = running.as_mut() else { return Poll::Ready(()) };
        let Poll::Ready(ended) = Pin::new(driven).poll(context) else { return Poll::Pending };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection to an upstream ended");
        }
        let ended = running.take();
        drop(running);
        drop(ended);
        Poll::Ready(())
    }

    /// How many streams the upstream takes at a time; 0 if it has not said it yet, `None` if the
    /// connection has ended.
    fn most_streams(&self) -> Option<usize> {
        lock(&self.0).as_ref().map(Running::current_max_send_streams)
    }
}

impl Stream {
    /// Whether the connection has served a request before.
    pub(super) fn was_kept(&self) -> bool {
        self.connection.has_answered.load(Relaxed)
    }

    /// Its answer has ended, or will not come: no end of the request resets it.
    fn ends(&self) {
        self.has_ended.store(true, Relaxed);
    }

    /// Sends a request, and waits for the head of its answer.
    pub(super) async fn ask(
        self: Arc<Self>,
        request: Request<Upload>,
    ) -> Result<Response<StreamBody>, Unanswered> {
        let connection = &self.connection;
        let request = request.map(|upload| Sending { upload, _stream: Arc::clone(&self) });
        connection.silence.waits();
        let answer = connection.sender.clone().try_send_request(request).await;
        connection.silence.ends();
        let mut error = match answer {
            Ok(answer) => {
                if answer.body().is_end_stream() {
                    self.ends();
                }
                connection.has_answered.store(true, Relaxed);
                return Ok(answer.map(|body| StreamBody::new(body, Arc::clone(&self))));
            }
            Err(error) => error,
        };
        let fate = if error.take_message().is_some() { Fate::Unsent } else { Fate::of(error.error()) };
        // Else h2 resets it, as when the request breaks off.
        if fate != Fate::Broken || of_http2(error.error()).is_some_and(h2::Error::is_remote) {
            self.ends();
        }
        if fate == Fate::Unserved || is_calmed(error.error()) {
            *lock(&connection.refused) = Some(Instant::now());
        }
        // hyper may see the end of the connection later than that of its streams.
        let is_go_away = of_http2(error.error()).is_some_and(h2::Error::is_go_away);
        if fate == Fate::Unanswered && !is_calmed(error.error()) || is_go_away {
            connection.has_ended.store(true, Relaxed);
        }
        Err(Unanswered { fate, failed: Failed::new(failure(error.error()), error.error()) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !*self.has_ended.get_mut() {
            self.connection.is_reset();
        }
        self.connection.streams.fetch_sub(1, Relaxed);
        self.freed.notify_one();
    }
}

/// What HTTP/2 says of an error.
fn of_http2(error: &hyper::Error) -> Option<&h2::Error> {
    error.source()?.downcast_ref()
}

/// Whether the upstream asks for less. Servers that bound the memory of a connection say so of each
/// further stream, while a client leaves an answer unread.
fn is_calmed(error: &hyper::Error) -> bool {
    let says_so = |error: &h2::Error| {
        error.is_reset() && error.is_remote() && error.reason() == Some(Reason::ENHANCE_YOUR_CALM)
    };
    of_http2(error).is_some_and(says_so)
}

/// What an error of a stream that was sent says of it.
fn failure(error: &hyper::Error) -> Failure {
    match of_http2(error) {
        // The connection ended, before or after h2 has seen why.
        None => Failure::Closed,
        Some(error) if error.is_io() || error.is_go_away() && error.is_remote() => Failure::Closed,
        Some(error) if error.is_reset() && error.is_remote() => Failure::Reset,
        Some(_) => Failure::Broken,
    }
}

impl Fate {
    fn of(error: &hyper::Error) -> Self {
        if error.source().is_some_and(|source| source.is::<io::Error>()) || is_calmed(error) {
            return Self::Unanswered;
        }
        let Some(error) = of_http2(error).filter(|error| error.is_remote()) else { return Self::Broken };
        // h2 says GOAWAY of streams beyond the last one that the frame names, and of no others.
        let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        if is_refused || error.is_go_away() { Self::Unserved } else { Self::Broken }
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        Pin::new(&mut self.upload).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.upload.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.upload.size_hint()
    }
}

impl StreamBody {
    fn new(body: Incoming, stream: Arc<Stream>) -> Self {
        let stream = Some(stream).filter(|_| !body.is_end_stream());
        Self { body, stream }
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if (matches!(polled, Poll::Ready(None | Some(Err(_)))) || self.body.is_end_stream())
            && let Some(stream) = self.stream.take()
        {
            stream.ends();
        }
        polled.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Silence {
    /// A request waits for an answer.
    fn waits(&self) {
        let mut since = lock(&self.0);
        *since = since.or_else(|| Some(Instant::now()));
    }

    /// An answer is there.
    fn ends(&self) {
        *lock(&self.0) = None;
    }

    fn is_longer_than(&self, patience: Duration) -> bool {
        lock(&self.0).is_some_and(|since| since.elapsed() >= patience)
    }
}
