//! A request's body, up to a limit.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

/// How many times the limit is read of a body that is too long, before it is refused: a client that
/// writes still may not see an answer.
const DISCARDED: usize = 8;

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
pub(crate) async fn read_body(body: Incoming, most: usize, timeout: Duration) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > most.saturating_mul(DISCARDED) as u64 {
        return Err(BodyError::TooLong);
    }
    let mut whole = pin!(collect(body, most));
    // Most bodies come with their heads: they need no timer.
    match poll_fn(|context| Poll::Ready(whole.as_mut().poll(context))).await {
        Poll::Ready(body) => body,
        Poll::Pending => tokio::time::timeout(timeout, whole).await.unwrap_or(Err(BodyError::TooSlow)),
    }
}

async fn collect(mut body: Incoming, most: usize) -> Result<Bytes, BodyError> {
    let (mut read, mut first, mut all) = (0_usize, Bytes::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
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
