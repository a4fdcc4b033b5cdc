//! The body of a request.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::head::strip_trailers;
use super::patience::{Late, Patience};
use crate::settings::ProxySettings;
use crate::web::RequestBody;

pub(super) type Fault = Box<dyn std::error::Error + Send + Sync>;

/// How much of a body is read that goes to no upstream, and for how long: a client that writes
/// still may not see its answer. It may pause for less.
const DISCARDED: (usize, Duration) = (64 << 20, Duration::from_secs(30));
const PAUSE: Duration = Duration::from_secs(5);

/// The body of a request, on its way to an upstream. While the request waits in a queue, a part of
/// the body is held here: a client of HTTP/1 whose body is not read is not seen to leave. The body
/// of a client that expects to be told to continue is not: reading it tells it so.
///
/// Clones are the same body. An upstream that was not reached has read nothing of it.
#[derive(Clone, Default)]
pub(super) struct Upload(Option<Arc<Mutex<Arriving>>>);

struct Arriving {
    body: RequestBody,
    /// Data as one part: each part would cost more than the smallest ones have bytes.
    held: BytesMut,
    held_trailers: Option<Frame<Bytes>>,
    most_held: usize,
    /// How many bytes may still come.
    left: u64,
    /// Whether the client sends the body once it is read (`Expect: 100-continue`).
    is_expecting: bool,
    /// Where the rules read the client's address.
    client_header: Box<str>,
    /// The other headers that the rules read.
    read: Arc<[Box<str>]>,
    is_taken: bool,
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

/// Why the body of a request does not reach its upstream whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadBody {
    /// It broke off, came too slowly, or is none.
    Broken,
    /// It is longer than it may be.
    TooLong,
}

impl BadBody {
    /// What its client is told.
    pub(super) fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::Broken => (StatusCode::BAD_REQUEST, "the body is broken, or came too slowly"),
            Self::TooLong => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too long"),
        }
    }
}

impl Arriving {
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

    /// It breaks off, unless it is too long.
    fn fail(&mut self) {
        self.failure.get_or_insert(BadBody::Broken);
    }
}

impl Upload {
    pub(super) fn new(
        body: RequestBody,
        is_expecting: bool,
        settings: &ProxySettings,
        ends: Option<Instant>,
        (client_header, read): (&str, &Arc<[Box<str>]>),
    ) -> Self {
        if body.is_end_stream() {
            return Self(None);
        }
        let patience = Patience::new(settings.idle_timeout, ends);
        let bounds = (settings.held_bytes, settings.max_body.unwrap_or(u64::MAX));
        Self::of(body, bounds, is_expecting, patience, (client_header, Arc::clone(read)))
    }

    /// A body that is whole.
    pub(super) fn whole(body: Bytes) -> Self {
        if body.is_empty() {
            return Self(None);
        }
        let patience = Patience::new(Duration::ZERO, None);
        Self::of(RequestBody::whole(body), (0, u64::MAX), false, patience, ("", Arc::default()))
    }

    fn of(
        body: RequestBody,
        (most_held, left): (usize, u64),
        is_expecting: bool,
        patience: Patience,
        (client_header, read): (&str, Arc<[Box<str>]>),
    ) -> Self {
        Self(Some(Arc::new(Mutex::new(Arriving {
            body,
            held: BytesMut::new(),
            held_trailers: None,
            most_held,
            left,
            is_expecting,
            client_header: client_header.into(),
            read,
            is_taken: false,
            has_ended: false,
            failure: None,
            is_awaited: false,
            is_left: false,
            waker: None,
            patience,
        }))))
    }

    fn lock(&self) -> Option<MutexGuard<'_, Arriving>> {
        self.0.as_ref().map(|arriving| arriving.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The request goes to an upstream, which reads the body from now on.
    pub(super) fn take(&self) {
        if let Some(mut arriving) = self.lock() {
            arriving.is_taken = true;
            arriving.patience.moved();
        }
    }

    /// The body, if it is whole and unread.
    pub(super) fn at_hand(&self) -> Option<Bytes> {
        match self.lock() {
            None => Some(Bytes::new()),
            Some(arriving) => match &arriving.body {
                RequestBody::Whole(body) => body.clone(),
                RequestBody::Arriving(..) => None,
            },
        }
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
        }
    }

    /// Reads and drops what comes of a body that went to no upstream.
    pub(super) fn discard(self) {
        let is_left = self.lock().is_some_and(|arriving| {
            !arriving.is_taken && !arriving.is_expecting && !arriving.body.is_end_stream()
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
        if arriving.is_expecting {
            return Poll::Pending;
        }
        while !arriving.is_taken && arriving.held.len() < arriving.most_held && arriving.failure.is_none() {
            match ready!(arriving.poll_next(context)).map(|frame| frame.map(Frame::into_data)) {
                None => return Poll::Pending,
                Some(Ok(Ok(data))) => arriving.held.extend_from_slice(&data),
                Some(Ok(Err(trailers))) => arriving.held_trailers = Some(trailers),
                Some(Err(_)) => arriving.fail(),
            }
        }
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
                arriving.patience.moved();
                if arriving.patience.is_over() {
                    arriving.fail();
                    return Poll::Ready(Some(Err(Late.into())));
                }
                if let Some(trailers) = frame.trailers_mut() {
                    arriving.has_ended = true;
                    strip_trailers(trailers, &arriving.client_header, &arriving.read);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                arriving.fail();
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                arriving.has_ended = true;
                Poll::Ready(None)
            }
            Poll::Pending => {
                arriving.waker = Some(context.waker().clone());
                let late = ready!(arriving.patience.poll(context));
                arriving.fail();
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
