//! The body of an answer, whose connection is busy until the body has ended.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};

use super::idle::Busy;

/// A body that keeps its connection busy until it has ended or is dropped: a connection that still
/// sends an answer is not idle.
pub(super) struct BusyBody<B> {
    body: B,
    /// Given up when this is dropped.
    _busy: Busy,
}

impl<B> BusyBody<B> {
    pub(super) fn new(body: B, busy: Busy) -> Self {
        Self { body, _busy: busy }
    }
}

impl<B: Body + Unpin> Body for BusyBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
