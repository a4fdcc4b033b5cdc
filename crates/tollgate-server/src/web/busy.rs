//! The body of an answer, whose connection is busy until the body has ended.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};

use super::idle::Busy;

/// A body that keeps its connection busy until it has ended or is dropped: a connection that still
/// sends an answer is not idle.
pub(super) struct BusyBody<B> {
    body: B,
    /// Whether the client reads it: known of a body of several parts.
    given: Option<Arc<AtomicU64>>,
    busy: Busy,
}

impl<B> BusyBody<B> {
    pub(super) fn new(body: B, busy: Busy) -> Self {
        Self { body, given: None, busy }
    }
}

impl<B: Body + Unpin> Body for BusyBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let Self { body, given, busy } = &mut *self;
        if let Some(given) = given {
            given.store(0, Relaxed);
        }
        let polled = Pin::new(&mut *body).poll_frame(context);
        if matches!(polled, Poll::Ready(Some(Ok(_)))) && !body.is_end_stream() {
            busy.give(given.get_or_insert_with(|| busy.watch()));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
