//! The future of a response.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tollgate_http::Respond;
use tower_service::Service;

use crate::body::Places;
use crate::decide::{DelayedVerdict, LayerState, OwnedCharges, ResponseHeaders};

pin_project! {
    /// The response of a [`Tollgate`](crate::Tollgate): the inner service's response, or a
    /// refusal.
    ///
    /// When it is dropped while the request waits in a queue, it gives the request's turn back.
    #[must_use = "a future does nothing until it is polled"]
    pub struct ResponseFuture<S, R, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>>,
    {
        #[pin]
        state: State<S, R, ReqBody, ResBody>,
        // The headers for the inner service's response; empty until the request is admitted.
        headers: ResponseHeaders,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, R, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>>,
    {
        Refused { response: Option<Response<ResBody>> },
        Serving { #[pin] future: S::Future },
        // The response may give these charges back.
        Settling { #[pin] future: S::Future, charges: Option<OwnedCharges> },
        // Boxed, so that the futures of requests that do not wait stay small.
        Waiting { waiting: Option<Box<Waiting<S, R, ReqBody>>> },
    }
}

/// A request that waits for its decision, and then for the inner service.
struct Waiting<S, R, ReqBody> {
    /// `None` once the request is admitted.
    delayed: Option<DelayedVerdict>,
    /// The charges of the admitted request that its response may give back, or all of them.
    charges: Option<OwnedCharges>,
    state: Arc<LayerState>,
    /// Not ready yet: a ready service may hold a permit while the request waits.
    service: S,
    responder: R,
    request: Request<ReqBody>,
}

impl<S: Service<Request<ReqBody>>, R, ReqBody, ResBody> ResponseFuture<S, R, ReqBody, ResBody> {
    pub(crate) fn serving(future: S::Future, headers: ResponseHeaders) -> Self {
        Self { state: State::Serving { future }, headers }
    }

    pub(crate) fn settling(
        headers: ResponseHeaders,
        charges: OwnedCharges,
        call: impl FnOnce() -> S::Future,
    ) -> Self {
        let mut charges = Some(charges);
        let future = OwnedCharges::guard(&mut charges, call);
        Self { state: State::Settling { future, charges }, headers }
    }

    pub(crate) fn refused(response: Response<ResBody>) -> Self {
        let state = State::Refused { response: Some(response) };
        Self { state, headers: ResponseHeaders::default() }
    }

    pub(crate) fn waiting(
        delayed: DelayedVerdict,
        state: Arc<LayerState>,
        service: S,
        responder: R,
        request: Request<ReqBody>,
    ) -> Self {
        let delayed = Some(delayed);
        let waiting = Waiting { delayed, charges: None, state, service, responder, request };
        let state = State::Waiting { waiting: Some(Box::new(waiting)) };
        Self { state, headers: ResponseHeaders::default() }
    }

    /// An admitted request that waits for the inner service to be ready.
    pub(crate) fn admitted(
        charges: Option<OwnedCharges>,
        headers: ResponseHeaders,
        state: Arc<LayerState>,
        service: S,
        responder: R,
        request: Request<ReqBody>,
    ) -> Self {
        let waiting = Waiting { delayed: None, charges, state, service, responder, request };
        Self { state: State::Waiting { waiting: Some(Box::new(waiting)) }, headers }
    }
}

impl<S: Service<Request<ReqBody>>, R, ReqBody, ResBody> ResponseFuture<S, R, ReqBody, ResBody> {
    /// Returns the places in flight that the body of the response holds, once that is ready.
    pub(crate) fn take_places(self: Pin<&mut Self>) -> Places {
        match self.project().state.project() {
            StateProjection::Settling { charges, .. } => {
                charges.take().map(OwnedCharges::into_places).unwrap_or_default()
            }
            _ => Places::new(),
        }
    }
}

impl<S, R, ReqBody, ResBody> Future for ResponseFuture<S, R, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    R: Respond<ResBody>,
{
    type Output = Result<Response<ResBody>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProjection::Refused { response } => {
                    let response = response.take().expect("a future is not polled after it is done");
                    return Poll::Ready(Ok(response));
                }
                // There is nothing to add. Returning the poll unchanged avoids a copy of the
                // response.
                StateProjection::Serving { future } if this.headers.is_empty() => {
                    return future.poll(context);
                }
                StateProjection::Serving { future } => {
                    let mut poll = future.poll(context);
                    if let Poll::Ready(Ok(response)) = &mut poll {
                        this.headers.write(response.headers_mut());
                    }
                    return poll;
                }
                StateProjection::Settling { future, charges: slot } => {
                    let mut result = ready!(OwnedCharges::guard(slot, || future.poll(context)));
                    if let Some(charges) = slot.take() {
                        let response = result.as_ref().ok();
                        let response = response.map(|response| (response.status(), response.headers()));
                        *slot = charges.answered(response);
                    }
                    if let Ok(response) = &mut result {
                        this.headers.write(response.headers_mut());
                    }
                    return Poll::Ready(result);
                }
                StateProjection::Waiting { waiting: slot } => {
                    let waiting = slot.as_mut().expect("a future is not polled after it is done");
                    if let Some(delayed) = &mut waiting.delayed {
                        let (verdict, charges) = ready!(delayed.as_mut().poll(context));
                        let state = &waiting.state;
                        let head = state.head(&waiting.request);
                        state.report(&head, &verdict);
                        if let Some(refusal) = verdict.refusal {
                            let response = state.refuse(head, &refusal, verdict.headers, &waiting.responder);
                            return Poll::Ready(Ok(response));
                        }
                        state.attach_limits(&mut waiting.request, &verdict);
                        *this.headers = verdict.headers;
                        waiting.charges = charges;
                        waiting.delayed = None;
                    }
                    let ready = ready!(waiting.service.poll_ready(context));
                    let Some(waiting) = slot.take() else { continue };
                    let Waiting { charges, mut service, request, .. } = *waiting;
                    if let Err(error) = ready {
                        if let Some(charges) = charges {
                            charges.not_served();
                        }
                        return Poll::Ready(Err(error));
                    }
                    let mut charges = charges.and_then(OwnedCharges::settle);
                    let future = OwnedCharges::guard(&mut charges, || service.call(request));
                    this.state.set(match charges {
                        None => State::Serving { future },
                        charges => State::Settling { future, charges },
                    });
                }
            }
        }
    }
}

impl<S: Service<Request<ReqBody>>, R, ReqBody, ResBody> fmt::Debug
    for ResponseFuture<S, R, ReqBody, ResBody>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
