//! The body of an answer.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tollgate_tower::InFlightBody;

use super::patience::{Late, Patience};
use super::pool::AnswerBody;
use super::upload::{Fault, Upload};
use super::upstreams::Load;

/// The body of an answer that the rules let pass, or refuse.
pub(super) enum Download {
    /// Our own.
    Text(Full<Bytes>),
    /// The upstream's. Boxed: an answer is moved often on its way to the client.
    Upstream(Box<Passed>),
    /// None: the connection is a tunnel from now on, and counts until that has ended.
    Tunnel(#[expect(dead_code, reason = "counts until it is dropped")] Load),
}

/// The body of an upstream's answer, on its way to the client.
pub(super) struct Passed {
    answering: Answering,
    patience: Patience,
    /// Why the body has broken off, which its reader is told next.
    broken: Option<Broken>,
    _load: Load,
}

/// The body of an upstream's answer. If it is dropped before its end, the request's body is left.
struct Answering {
    body: AnswerBody,
    upload: Option<Upload>,
}

/// The body of any answer.
pub(super) enum Answered {
    /// Of a request that no rule has seen.
    Unasked(Full<Bytes>),
    /// It holds what the request holds.
    Asked(InFlightBody<Download>),
}

/// Why a body broke off.
#[derive(Debug)]
pub(super) enum Broken {
    Upstream(Fault),
    Late(Late),
}

impl Passed {
    /// `upload` is the request's body, if that has not ended.
    pub(super) fn new(body: AnswerBody, upload: Option<Upload>, patience: Patience, load: Load) -> Self {
        Self { answering: Answering { body, upload }, patience, broken: None, _load: load }
    }
}

impl From<Full<Bytes>> for Answered {
    fn from(body: Full<Bytes>) -> Self {
        Self::Unasked(body)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take().filter(|_| !self.body.is_end_stream()) {
            upload.leave();
        }
    }
}

impl From<String> for Download {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

fn never(never: Infallible) -> Broken {
    match never {}
}

impl Body for Download {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            Self::Text(text) => Pin::new(text).poll_frame(context).map_err(never),
            Self::Upstream(passed) => {
                let Passed { answering, patience, broken, .. } = &mut **passed;
                let Answering { body, upload } = answering;
                if let Some(broken) = broken.take() {
                    return Poll::Ready(Some(Err(broken)));
                }
                match Pin::new(body).poll_frame(context) {
                    Poll::Ready(Some(Err(error))) => {
                        // With the error hyper drops what it has not written: it writes that first.
                        *broken = Some(Broken::Upstream(error));
                        context.waker().wake_by_ref();
                        Poll::Pending
                    }
                    Poll::Ready(frame) => {
                        let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
                        patience.moved(data.map_or(0, Bytes::len));
                        if frame.is_some() && patience.is_over() {
                            return Poll::Ready(Some(Err(Broken::Late(Late))));
                        }
                        if frame.as_ref().is_none_or(|frame| frame.as_ref().is_ok_and(Frame::is_trailers)) {
                            *upload = None;
                        }
                        Poll::Ready(frame.map(|frame| frame.map_err(Broken::Upstream)))
                    }
                    Poll::Pending => patience.poll(context).map(|late| Some(Err(Broken::Late(late)))),
                }
            }
            Self::Tunnel(_) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(text) => text.is_end_stream(),
            Self::Upstream(passed) => passed.answering.body.is_end_stream(),
            // What the request holds is given back when the tunnel has ended, not now.
            Self::Tunnel(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => text.size_hint(),
            Self::Upstream(passed) => passed.answering.body.size_hint(),
            Self::Tunnel(_) => SizeHint::with_exact(0),
        }
    }
}

impl Body for Answered {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            Self::Unasked(text) => Pin::new(text).poll_frame(context).map_err(never),
            Self::Asked(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Unasked(text) => text.is_end_stream(),
            Self::Asked(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Unasked(text) => text.size_hint(),
            Self::Asked(body) => body.size_hint(),
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upstream(error) => write!(f, "the upstream broke off: {error}"),
            Self::Late(late) => write!(f, "the upstream stood still: {late}"),
        }
    }
}

impl std::error::Error for Broken {}
