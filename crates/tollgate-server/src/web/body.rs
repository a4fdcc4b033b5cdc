//! A request's body, up to a limit.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::idle::Busy;
use super::streams::client_left;

/// How many times the limit is read of a body that is too long, before it is refused: a client that
/// writes still may not see an answer.
const DISCARDED: usize = 8;

/// The body of a request.
pub(crate) enum RequestBody {
    /// It came with its head. `None`: it was read, or there is none.
    Whole(Option<Bytes>),
    /// It is still to come. Its connection is busy until it has come, also after the answer.
    Arriving(Incoming, #[expect(dead_code, reason = "counts until it is dropped")] Option<Busy>),
}

impl RequestBody {
    pub(crate) fn whole(body: Bytes) -> Self {
        Self::Whole(Some(body).filter(|body| !body.is_empty()))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Whole(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Self::Arriving(body, _) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_none(),
            Self::Arriving(body, _) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, Bytes::len) as u64),
            Self::Arriving(body, _) => body.size_hint(),
        }
    }
}

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// It is longer than allowed.
    TooLong,
    /// It did not arrive in time.
    TooSlow,
    /// The client stopped in the middle.
    Broken,
}

/// Reads a body of at most so many bytes, in at most this time. Memory grows with what arrives,
/// never with a length that is only announced.
pub(crate) async fn read_body(body: RequestBody, most: usize, timeout: Duration) -> Result<Bytes, BodyError> {
    let body = match body {
        RequestBody::Whole(body) if body.as_ref().is_none_or(|body| body.len() <= most) => {
            return Ok(body.unwrap_or_default());
        }
        body => body,
    };
    if body.size_hint().lower() > most.saturating_mul(DISCARDED) as u64 {
        return Err(BodyError::TooLong);
    }
    // Boxed: requests that came whole would have room for it.
    let mut whole = Box::pin(collect(body, most));
    // Most bodies come with their heads: they need no timer.
    match poll_fn(|context| Poll::Ready(whole.as_mut().poll(context))).await {
        Poll::Ready(body) => body,
        Poll::Pending => tokio::time::timeout(timeout, whole).await.unwrap_or(Err(BodyError::TooSlow)),
    }
}

async fn collect(mut body: RequestBody, most: usize) -> Result<Bytes, BodyError> {
    let (mut read, mut first, mut all) = (0_usize, Bytes::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            client_left();
            return Err(BodyError::Broken);
        };
        let Ok(data) = frame.into_data() else { continue };
        read = read.saturating_add(data.len());
        if read > most {
            (first, all) = (Bytes::new(), Vec::new());
            if read / DISCARDED > most {
                break;
            }
        } else if first.is_empty() {
            first = data;
        } else {
            if all.is_empty() {
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&data);
        }
    }
    match read > most {
        true => Err(BodyError::TooLong),
        false => Ok(if all.is_empty() { first } else { all.into() }),
    }
}
