//! The body of a response whose request is in flight until the body has ended.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::decide::LayerTicket;

pin_project! {
    /// The body of a response by a layer with a limit [in flight](crate::Limit::InFlight), or with
    /// rules in a file. It passes everything on, trailers and size hints too, and gives the
    /// request's places back when it has ended, has failed, or is dropped.
    pub struct InFlightBody<B> {
        #[pin]
        body: B,
        // The places.
        held: Option<LayerTicket>,
    }
}

impl<B: Body> InFlightBody<B> {
    /// A body that has ended holds nothing.
    pub(crate) fn new(body: B, mut held: Option<LayerTicket>) -> Self {
        if body.is_end_stream() {
            held = None;
        }
        Self { body, held }
    }
}

impl<B: Body> Body for InFlightBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let polled = this.body.as_mut().poll_frame(context);
        let has_ended = match &polled {
            Poll::Pending => false,
            Poll::Ready(Some(Ok(_))) => this.body.is_end_stream(),
            Poll::Ready(Some(Err(_)) | None) => true,
        };
        if has_ended {
            *this.held = None;
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

impl<B> fmt::Debug for InFlightBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightBody").finish_non_exhaustive()
    }
}
