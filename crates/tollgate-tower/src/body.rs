//! The body of a response whose request is in flight until the body has ended.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use smallvec::SmallVec;

use crate::rule::Place;

/// The places that one request holds, by each rule that counts requests in flight.
pub(crate) type Places = SmallVec<[Place; 1]>;

pin_project! {
    /// The body of a response by a layer with a limit [in flight](crate::Limit::InFlight). It
    /// passes everything on, trailers and size hints too, and gives the request's places back when
    /// it has ended, has failed, or is dropped.
    pub struct InFlightBody<B> {
        #[pin]
        body: B,
        places: Places,
    }
}

impl<B: Body> InFlightBody<B> {
    /// A body that has ended holds nothing.
    pub(crate) fn new(body: B, mut places: Places) -> Self {
        if body.is_end_stream() {
            places.clear();
        }
        Self { body, places }
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
            this.places.clear();
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
