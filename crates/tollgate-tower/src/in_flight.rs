//! The service of a layer with limits in flight: it holds the bodies of its responses.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::body::InFlightBody;
use crate::decide::Answers;
use crate::{ResponseFuture, Tollgate};

/// Says that the responses of a [`TollgateLayer`](crate::TollgateLayer) keep the type of their
/// body.
#[derive(Clone, Copy, Debug)]
pub struct SameBody;

/// Says that the responses of a [`TollgateLayer`](crate::TollgateLayer) have an [`InFlightBody`].
#[derive(Clone, Copy, Debug)]
pub struct WrappedBody;

/// A [`Tollgate`] whose requests may be limited [in flight](crate::Limit::InFlight). The bodies of
/// its responses are wrapped.
#[derive(Clone, Debug)]
pub struct InFlightTollgate<S, R>(pub(crate) Tollgate<S, R>);

impl<S, R, ReqBody, ResBody> Service<Request<ReqBody>> for InFlightTollgate<S, R>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    R: Answers<ResBody> + Clone,
    ResBody: Body,
{
    type Response = Response<InFlightBody<ResBody>>;
    type Error = S::Error;
    type Future = InFlightFuture<S, R, ReqBody, ResBody>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        InFlightFuture { response: self.0.call(request) }
    }
}

pin_project! {
    /// The response of an [`InFlightTollgate`].
    #[must_use = "a future does nothing until it is polled"]
    pub struct InFlightFuture<S, R, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>>,
    {
        #[pin]
        response: ResponseFuture<S, R, ReqBody, ResBody>,
    }
}

impl<S, R, ReqBody, ResBody> Future for InFlightFuture<S, R, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    R: Answers<ResBody>,
    ResBody: Body,
{
    type Output = Result<Response<InFlightBody<ResBody>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut response = self.project().response;
        let result = ready!(response.as_mut().poll(context));
        let held = response.take_held();
        Poll::Ready(result.map(|response| response.map(|body| InFlightBody::new(body, held))))
    }
}

impl<S: Service<Request<ReqBody>>, R, ReqBody, ResBody> fmt::Debug
    for InFlightFuture<S, R, ReqBody, ResBody>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightFuture").finish_non_exhaustive()
    }
}
