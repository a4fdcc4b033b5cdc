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

/// What a request holds until the body of its response has ended.
pub(crate) enum Held {
    Places(Places),
    /// The places are those of rules in a file.
    #[cfg(feature = "rules")]
    Ticket(Option<crate::file::FileTicket>),
}

impl Held {
    fn give_back(&mut self) {
        match self {
            Self::Places(places) => places.clear(),
            #[cfg(feature = "rules")]
            Self::Ticket(ticket) => *ticket = None,
        }
    }
}

pin_project! {
    /// The body of a response by a layer with a limit [in flight](crate::Limit::InFlight), or with
    /// rules in a file. It passes everything on, trailers and size hints too, and gives the
    /// request's places back when it has ended, has failed, or is dropped.
    pub struct InFlightBody<B> {
        #[pin]
        body: B,
        held: Held,
    }
}

impl<B: Body> InFlightBody<B> {
    /// A body that has ended holds nothing.
    pub(crate) fn new(body: B, mut held: Held) -> Self {
        if body.is_end_stream() {
            held.give_back();
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
            this.held.give_back();
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
