//! The future of a response.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::decide::{Held, LayerState, RefusalRecord};
use crate::headers::LimitHeaders;
use crate::{RequestHead, Respond};

pin_project! {
    /// The response of a [`RateLimit`](crate::RateLimit): the inner service's response, or a
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
        // The headers for the inner service's response; empty in the other states.
        headers: LimitHeaders,
        // Charges that the inner service's response may give back.
        held: Option<Box<Held>>,
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
        // Boxed, so that the futures of requests that do not wait stay small.
        Waiting { waiting: Option<Box<Waiting<S, R, ReqBody>>> },
    }
}

/// A request that waits for its decision, and then for the inner service.
struct Waiting<S, R, ReqBody> {
    held: Held,
    /// `None` until the request is admitted; then whether its response may give the charge back.
    admitted: Option<bool>,
    /// A clone that is not ready yet: a ready service may hold a permit while the request waits.
    service: S,
    responder: R,
    request: Request<ReqBody>,
}

impl<S: Service<Request<ReqBody>>, R, ReqBody, ResBody> ResponseFuture<S, R, ReqBody, ResBody> {
    pub(crate) fn serving(future: S::Future, headers: LimitHeaders) -> Self {
        Self { state: State::Serving { future }, headers, held: None }
    }

    pub(crate) fn refused(response: Response<ResBody>) -> Self {
        let state = State::Refused { response: Some(response) };
        Self { state, headers: LimitHeaders::default(), held: None }
    }

    pub(crate) fn waiting(held: Held, service: S, responder: R, request: Request<ReqBody>) -> Self {
        let waiting = Box::new(Waiting { held, admitted: None, service, responder, request });
        let state = State::Waiting { waiting: Some(waiting) };
        Self { state, headers: LimitHeaders::default(), held: None }
    }
}

impl LayerState {
    /// Makes the response to a refused request.
    pub(crate) fn refuse<ResBody>(
        &self,
        head: RequestHead<'_>,
        refusal: &RefusalRecord,
        mut headers: LimitHeaders,
        responder: &impl Respond<ResBody>,
    ) -> Response<ResBody> {
        let mut response = responder.respond(&self.refusal(head, refusal));
        headers.write_refusal(response.headers_mut(), refusal.retry_after_seconds());
        response
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
                StateProjection::Serving { future } if this.held.is_none() && this.headers.is_empty() => {
                    return future.poll(context);
                }
                StateProjection::Serving { future } => {
                    let mut poll = future.poll(context);
                    if let Poll::Ready(result) = &mut poll {
                        if let Some(held) = this.held.take() {
                            held.answered(
                                result.as_ref().ok().map(|response| (response.status(), response.headers())),
                            );
                        }
                        if let Ok(response) = result {
                            this.headers.write(response.headers_mut());
                        }
                    }
                    return poll;
                }
                StateProjection::Waiting { waiting: slot } => {
                    let waiting = slot.as_mut().expect("a future is not polled after it is done");
                    if waiting.admitted.is_none() {
                        let (verdict, awaits_response) = ready!(waiting.held.poll_verdict(context));
                        let state = &waiting.held.state;
                        let head = RequestHead::of(&waiting.request);
                        state.report(&head, &verdict);
                        if let Some(refusal) = verdict.refusal {
                            let response = state.refuse(head, &refusal, verdict.headers, &waiting.responder);
                            return Poll::Ready(Ok(response));
                        }
                        *this.headers = verdict.headers;
                        waiting.admitted = Some(awaits_response);
                    }
                    let ready = ready!(waiting.service.poll_ready(context));
                    let Some(waiting) = slot.take() else { continue };
                    let Waiting { held, admitted, mut service, request, .. } = *waiting;
                    let held = (admitted == Some(true)).then(|| Box::new(held));
                    if let Err(error) = ready {
                        if let Some(held) = held {
                            held.answered(None);
                        }
                        return Poll::Ready(Err(error));
                    }
                    *this.held = held;
                    this.state.set(State::Serving { future: service.call(request) });
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
