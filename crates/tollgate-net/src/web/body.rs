//! A request's body, up to a limit.

use std::future::{poll_fn, ready};
use std::mem::take;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::Either;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::idle::Busy;
use super::streams::client_left;
use crate::listen::Held;

/// How many times the limit is read of a body that is too long, before it is refused: a client that
/// writes still may not see an answer.
const DISCARDED: usize = 8;

/// The body of a request.
pub enum RequestBody {
    /// It came with its head. `None`: it was read, or there is none.
    Whole(Option<Bytes>),
    /// It is still to come. Its connection is busy until it has come, also after the answer.
    Arriving(Incoming, Option<Busy>),
}

impl RequestBody {
    /// A body that came with its head; empty: there is none.
    pub fn whole(body: Bytes) -> Self {
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
pub enum BodyError {
    /// It is longer than allowed.
    TooLong,
    /// It did not arrive in time.
    TooSlow,
    /// The client stopped in the middle.
    Broken,
    /// Its connection holds as much of unfinished requests as it may.
    NoRoom,
}

/// Reads a body of at most so many bytes, in at most this time. Memory grows with what arrives,
/// never with a length that is only announced.
pub fn read_body(
    body: RequestBody,
    most: usize,
    timeout: Duration,
) -> impl Future<Output = Result<Bytes, BodyError>> {
    let whole = match body {
        RequestBody::Whole(body) => body.unwrap_or_default(),
        // It is at its end.
        RequestBody::Arriving(_, None) => Bytes::new(),
        RequestBody::Arriving(body, Some(busy)) => {
            let holds = move || Held::new(busy.presence(), 0);
            return Either::Right(read_arriving(body, holds, most, timeout));
        }
    };
    Either::Left(ready(if whole.len() <= most { Ok(whole) } else { Err(BodyError::TooLong) }))
}

/// The same, of a body that has not come with its head. `holds` is asked for what holds the bytes
/// of one that did not come whole. Boxed: requests that came whole would have room for it.
pub fn read_arriving(
    body: Incoming,
    holds: impl Fn() -> Held,
    most: usize,
    timeout: Duration,
) -> Pin<Box<impl Future<Output = Result<Bytes, BodyError>>>> {
    Box::pin(async move {
        if body.size_hint().lower() > most.saturating_mul(DISCARDED) as u64 {
            return Err(BodyError::TooLong);
        }
        let mut whole = pin!(collect(body, holds, most));
        // Most bodies come with their heads: they need no timer.
        match poll_fn(|context| Poll::Ready(whole.as_mut().poll(context))).await {
            Poll::Ready(body) => body,
            Poll::Pending => tokio::time::timeout(timeout, whole).await.unwrap_or(Err(BodyError::TooSlow)),
        }
    })
}

async fn collect(mut body: Incoming, holds: impl Fn() -> Held, most: usize) -> Result<Bytes, BodyError> {
    let (mut read, mut first, mut all, mut held) = (0_usize, Bytes::new(), Vec::new(), None);
    loop {
        let frame = poll_fn(|context| {
            let frame = Pin::new(&mut body).poll_frame(context);
            if frame.is_pending() {
                // It shares its memory with all that came beside it.
                all.extend_from_slice(&take(&mut first));
                let held = held.get_or_insert_with(&holds);
                if held.hold(all.capacity()).is_err() {
                    return Poll::Ready(Err(BodyError::NoRoom));
                }
            }
            frame.map(Ok)
        });
        let Some(frame) = frame.await? else { break };
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
        } else if first.is_empty() && all.is_empty() {
            first = data;
        } else {
            all.extend_from_slice(&take(&mut first));
            let needed = all.len() + data.len();
            if needed > all.capacity() {
                all.reserve_exact(needed.max(most.min(2 * all.capacity())) - all.len());
            }
            all.extend_from_slice(&data);
        }
    }
    match read > most {
        true => Err(BodyError::TooLong),
        false => Ok(if all.is_empty() { first } else { all.into() }),
    }
}
