//! A request's body, up to a limit.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;

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
    let mut body = pin!(Limited::new(body, most).collect());
    // Most bodies come with their heads: they need no timer.
    let whole = match poll_fn(|context| Poll::Ready(body.as_mut().poll(context))).await {
        Poll::Ready(body) => Ok(body),
        Poll::Pending => tokio::time::timeout(timeout, body).await,
    };
    match whole {
        Err(_) => Err(BodyError::TooSlow),
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BodyError::TooLong),
        Ok(Err(_)) => Err(BodyError::Broken),
    }
}
