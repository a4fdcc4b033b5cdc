//! The body of a request.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Instant;
use tollgate_net::listen::{Held, Presence};
use tollgate_net::web::RequestBody;

use super::head::strip_trailers;
use super::patience::{Late, Patience};
use crate::ProxySettings;

pub(super) type Fault = Box<dyn std::error::Error + Send + Sync>;

/// How much of a body is read that goes to no upstream, and for how long: a client that writes
/// still may not see its answer. It may pause for less.
const DISCARDED: (usize, Duration) = (64 << 20, Duration::from_secs(30));
const PAUSE: Duration = Duration::from_secs(5);

/// Types of bodies that go on as they come: their clients may await an answer to a part before they
/// send the next one.
const STREAMS: [&str; 2] = ["application/grpc", "application/connect+"];

/// The body of a request, on its way to an upstream. We read and hold its first part before an
/// upstream is taken: none waits for a client that sends slowly. While the request waits in a
/// queue, that begins already: a client of HTTP/1 whose body is not read is not seen to leave.
/// The body of a client that expects to be told to continue is not read so early: reading it tells
/// it so.
///
/// Clones are the same body. An upstream that was not reached has read nothing of it.
#[derive(Clone, Default)]
pub(super) struct Upload(Option<Arc<Mutex<Arriving>>>);

struct Arriving {
    body: RequestBody,
    /// Data as one part: each part would cost more than the smallest ones have bytes.
    held: BytesMut,
    held_trailers: Option<Frame<Bytes>>,
    /// What its connection holds of it. `None`: nothing.
    memory: Option<Held>,
    /// Whether there is no room for more of it.
    is_full: bool,
    /// Whether all of it has come, which was nothing.
    came_empty: bool,
    most_held: usize,
    /// How many bytes may still come.
    left: u64,
    /// Whether the client sends the body once it is read (`Expect: 100-continue`).
    is_expecting: bool,
    /// Whether it goes on as it comes.
    is_stream: bool,
    /// Where the rules read the client's address.
    client_header: Box<str>,
    /// The other headers that the rules read.
    read: Arc<[Box<str>]>,
    reader: Reader,
    has_ended: bool,
    failure: Option<BadBody>,
    /// Whether the upstream waits for the client to send more.
    is_awaited: bool,
    /// Whether the answer was given up.
    is_left: bool,
    /// Wakes the upstream's connection, which waits for the client.
    waker: Option<Waker>,
    patience: Patience,
}

/// Who reads a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    /// We do, while its request waits in a queue.
    Queue,
    /// We do, before an upstream is taken.
    Buffer,
    Upstream,
}

/// Why the body of a request does not reach its upstream whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadBody {
    /// It broke off, or is none.
    Broken,
    /// It came too slowly.
    TooSlow,
    /// It is longer than it may be.
    TooLong,
}

impl BadBody {
    /// What its client is told.
    pub(super) fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::Broken => (StatusCode::BAD_REQUEST, "the body is broken"),
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "the body came too slowly"),
            Self::TooLong => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too long"),
        }
    }
}

/// Whether a body goes on as it comes.
fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    STREAMS.iter().any(|stream| {
        kind.get(..stream.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(stream.as_bytes()))
    })
}

impl Arriving {
    /// A body of any length, of which nothing is held.
    fn new(body: RequestBody, patience: Patience) -> Self {
        Self {
            body,
            held: BytesMut::new(),
            held_trailers: None,
            memory: None,
            is_full: false,
            came_empty: false,
            most_held: 0,
            left: u64::MAX,
            is_expecting: false,
            is_stream: false,
            client_header: Box::default(),
            read: Arc::default(),
            reader: Reader::Queue,
            has_ended: false,
            failure: None,
            is_awaited: false,
            is_left: false,
            waker: None,
            patience,
        }
    }

    /// What comes of the body, as long as that may be.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        let polled = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &polled {
            let length = frame.data_ref().map_or(0, Bytes::len) as u64;
            let Some(left) = self.left.checked_sub(length) else {
                self.failure = Some(BadBody::TooLong);
                return Poll::Ready(Some(Err("the body is longer than it may be".into())));
            };
            self.left = left;
        }
        Poll::Ready(polled.map(|frame| frame.map_err(Into::into)))
    }

    /// Reads as much as may be held. Is ready when that is held, or there is no more.
    fn poll_ahead(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // Trailers come last.
        while self.failure.is_none() && self.held_trailers.is_none() && self.is_arriving() {
            if self.body.is_end_stream() {
                self.become_whole();
            } else if self.held.len() >= self.most_held || self.is_full {
                break;
            } else {
                match ready!(self.poll_next(context)).map(|frame| frame.map(Frame::into_data)) {
                    None => self.become_whole(),
                    Some(Ok(Ok(data))) => {
                        self.held.extend_from_slice(&data);
                        let held = self.held.len();
                        self.is_full = self.memory.as_mut().is_some_and(|of| of.hold(held).is_err());
                        self.patience.moved(data.len());
                    }
                    Some(Ok(Err(trailers))) => self.held_trailers = Some(trailers),
                    Some(Err(_)) => self.fail(BadBody::Broken),
                }
            }
        }
        Poll::Ready(())
    }

    fn is_arriving(&self) -> bool {
        matches!(self.body, RequestBody::Arriving(..))
    }

    /// All of it has come, and counts once more when it is read.
    fn become_whole(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.came_empty = held.is_empty();
        self.left = self.left.saturating_add(held.len() as u64);
        self.body = RequestBody::whole(held.freeze());
    }

    /// Whether its first part comes before an upstream is taken.
    fn comes_first(&self) -> bool {
        // An upstream may want nothing of a long one.
        let is_short = |most: u64| most <= self.most_held as u64;
        let is_wanted = !self.is_expecting || self.body.size_hint().upper().is_some_and(is_short);
        self.is_arriving() && !self.is_stream && is_wanted
    }

    /// It fails, unless it has failed already.
    fn fail(&mut self, how: BadBody) {
        self.failure.get_or_insert(how);
    }
}

impl Upload {
    pub(super) fn new(
        body: RequestBody,
        head: &Parts,
        is_expecting: bool,
        settings: &ProxySettings,
        ends: Option<Instant>,
        (client_header, read): (&str, &Arc<[Box<str>]>),
        presence: &Arc<Presence>,
    ) -> Self {
        if body.is_end_stream() {
            return Self(None);
        }
        let is_stream = is_stream(&head.headers);
        let least_rate = if is_stream { 0 } else { settings.least_rate };
        let patience = Patience::new(settings.idle_timeout, ends).at_least(least_rate);
        Self(Some(Arc::new(Mutex::new(Arriving {
            memory: matches!(body, RequestBody::Arriving(..)).then(|| Held::new(presence, 0)),
            most_held: settings.buffer_requests,
            left: settings.max_body.unwrap_or(u64::MAX),
            is_expecting,
            is_stream,
            client_header: client_header.into(),
            read: Arc::clone(read),
            ..Arriving::new(body, patience)
        }))))
    }

    /// A body that is whole.
    pub(super) fn whole(body: Bytes) -> Self {
        if body.is_empty() {
            return Self(None);
        }
        let patience = Patience::new(Duration::ZERO, None);
        Self(Some(Arc::new(Mutex::new(Arriving::new(RequestBody::whole(body), patience)))))
    }

    fn lock(&self) -> Option<MutexGuard<'_, Arriving>> {
        self.0.as_ref().map(|arriving| arriving.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the first part before an upstream is taken: all of a short body.
    pub(super) async fn hold(&self) -> Result<(), BadBody> {
        match self.lock() {
            Some(mut arriving) if arriving.comes_first() => {
                // From here on, it is told to continue.
                (arriving.reader, arriving.is_expecting) = (Reader::Buffer, false);
                arriving.patience.begin();
            }
            _ => return Ok(()),
        }
        poll_fn(|context| self.poll_buffer(context)).await
    }

    fn poll_buffer(&self, context: &mut Context<'_>) -> Poll<Result<(), BadBody>> {
        let Some(mut arriving) = self.lock() else { return Poll::Ready(Ok(())) };
        if arriving.poll_ahead(context).is_pending() {
            let _late = ready!(arriving.patience.poll(context));
            arriving.fail(BadBody::TooSlow);
        }
        Poll::Ready(arriving.failure.map_or(Ok(()), Err))
    }

    /// The request goes to an upstream, which reads the body from now on.
    pub(super) fn take(&self) {
        if let Some(mut arriving) = self.lock() {
            arriving.reader = Reader::Upstream;
            arriving.patience.begin();
        }
    }

    /// The body, if it is whole and unread.
    pub(super) fn at_hand(&self) -> Option<Bytes> {
        match self.lock() {
            None => Some(Bytes::new()),
            Some(arriving) => match &arriving.body {
                RequestBody::Whole(None) if arriving.came_empty => Some(Bytes::new()),
                RequestBody::Whole(body) => body.clone(),
                RequestBody::Arriving(..) => None,
            },
        }
    }

    /// Whether the request has a body, be it of no bytes.
    pub(super) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Takes back the whole body that was at hand, for another connection.
    pub(super) fn restore(&self, whole: Bytes) {
        let Some(mut arriving) = self.lock() else { return };
        if matches!(arriving.body, RequestBody::Whole(None)) {
            arriving.left = arriving.left.saturating_add(whole.len() as u64);
            arriving.body = RequestBody::whole(whole);
            arriving.has_ended = false;
        }
    }

    /// All of the body that was at hand went to the upstream.
    pub(super) fn was_sent(&self) {
        if let Some(mut arriving) = self.lock() {
            arriving.has_ended = true;
            arriving.memory = None;
        }
    }

    /// Reads and drops what comes of a body that went to no upstream.
    pub(super) fn discard(self) {
        let is_left = self.lock().is_some_and(|arriving| {
            let is_read = arriving.reader == Reader::Upstream;
            !is_read && !arriving.is_expecting && !arriving.body.is_end_stream()
        });
        if is_left {
            if let Some(mut arriving) = self.lock() {
                arriving.left = u64::MAX;
            }
            tokio::spawn(tokio::time::timeout(DISCARDED.1, async move {
                let (mut body, mut read) = (self, 0);
                while let Ok(Some(Ok(frame))) = tokio::time::timeout(PAUSE, body.frame()).await {
                    read += frame.data_ref().map_or(0, Bytes::len);
                    if read > DISCARDED.0 {
                        break;
                    }
                }
            }));
        }
    }

    /// Breaks the body off: the client gets no whole answer.
    pub(super) fn leave(&self) {
        let Some(mut arriving) = self.lock() else { return };
        if arriving.has_ended {
            return;
        }
        (arriving.is_left, arriving.failure) = (true, Some(BadBody::Broken));
        // A stream of HTTP/2 is not reset while its body is here.
        arriving.body = RequestBody::whole(Bytes::new());
        arriving.held.clear();
        arriving.memory = None;
        if let Some(waker) = arriving.waker.take() {
            drop(arriving);
            waker.wake();
        }
    }

    /// When a part of the body last went to the upstream.
    pub(super) fn last_move(&self) -> Option<Instant> {
        self.lock().map(|arriving| arriving.patience.last_move())
    }

    /// Whether the upstream waits for the client: the time that this takes is not the upstream's.
    pub(super) fn awaits_client(&self) -> bool {
        self.lock().is_some_and(|arriving| arriving.is_awaited)
    }

    /// Why the body does not reach its upstream, if it does not.
    pub(super) fn failure(&self) -> Option<BadBody> {
        self.lock().and_then(|arriving| arriving.failure)
    }

    /// Whether the head announces a body that is longer than it may be.
    pub(super) fn is_too_long(&self) -> bool {
        self.lock().is_some_and(|arriving| arriving.body.size_hint().lower() > arriving.left)
    }

    /// Reads the body of a request that waits, as far as it may be held. Is ready when the client
    /// has left.
    pub(super) fn poll_held(&self, context: &mut Context<'_>) -> Poll<()> {
        let Some(mut arriving) = self.lock() else { return Poll::Pending };
        if arriving.is_expecting || arriving.reader != Reader::Queue {
            return Poll::Pending;
        }
        ready!(arriving.poll_ahead(context));
        if arriving.failure.is_some() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        let Some(mut arriving) = self.lock() else { return Poll::Ready(None) };
        if arriving.is_left {
            return Poll::Ready(Some(Err("its answer was given up".into())));
        }
        let polled = if !arriving.held.is_empty() {
            let held = std::mem::take(&mut arriving.held);
            Poll::Ready(Some(Ok(Frame::data(held.freeze()))))
        } else if let Some(trailers) = arriving.held_trailers.take() {
            Poll::Ready(Some(Ok(trailers)))
        } else {
            arriving.poll_next(context)
        };
        arriving.is_awaited = polled.is_pending();
        match polled {
            Poll::Ready(Some(Ok(mut frame))) => {
                // All that was held goes on at once.
                arriving.memory = None;
                arriving.patience.moved(frame.data_ref().map_or(0, Bytes::len));
                if arriving.patience.is_over() {
                    arriving.fail(BadBody::TooSlow);
                    return Poll::Ready(Some(Err(Late.into())));
                }
                if let Some(trailers) = frame.trailers_mut() {
                    arriving.has_ended = true;
                    strip_trailers(trailers, &arriving.client_header, &arriving.read);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                arriving.fail(BadBody::Broken);
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                arriving.has_ended = true;
                Poll::Ready(None)
            }
            Poll::Pending => {
                arriving.waker = Some(context.waker().clone());
                let late = ready!(arriving.patience.poll(context));
                arriving.fail(BadBody::TooSlow);
                Poll::Ready(Some(Err(late.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.lock().is_none_or(|arriving| {
            let is_none_held = arriving.held.is_empty() && arriving.held_trailers.is_none();
            arriving.has_ended || is_none_held && arriving.body.is_end_stream()
        })
    }

    fn size_hint(&self) -> SizeHint {
        let Some(arriving) = self.lock() else { return SizeHint::with_exact(0) };
        let held = arriving.held.len() as u64;
        let rest = arriving.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(held));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(held));
        }
        hint
    }
}
