//! The service that decides each request before it calls the inner service.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tollgate_http::Respond;
use tower_service::Service;

use crate::decide::{Decided, LayerState, Verdict};
use crate::future::ResponseFuture;

/// A service whose requests are limited, made by [`RateLimitLayer`](crate::RateLimitLayer).
///
/// Its response, body and error types are those of the inner service, which must be `Clone`. A
/// request that is admitted at once clones nothing. A queued or a refused request replaces the
/// inner service by a clone, so that neither keeps a permit that the ready inner service holds.
pub struct RateLimit<S, R> {
    inner: S,
    state: Arc<LayerState>,
    responder: R,
}

impl<S, R> RateLimit<S, R> {
    pub(crate) fn new(inner: S, state: Arc<LayerState>, responder: R) -> Self {
        Self { inner, state, responder }
    }

    /// Returns the inner service.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns the inner service for changes.
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Removes the limits and returns the inner service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, R, ReqBody, ResBody> Service<Request<ReqBody>> for RateLimit<S, R>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    R: Respond<ResBody> + Clone,
{
    type Response = Response<ResBody>;
    type Error = S::Error;
    type Future = ResponseFuture<S, R, ReqBody, ResBody>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    #[inline]
    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let mut verdict = Verdict::default();
        // Every branch consumes the request. If one left it to the end of this function, the
        // compiler would copy it once more in the other branches.
        match (self.state.decide(&self.state.head(&request), &mut verdict), &verdict.refusal) {
            (Decided::Now, None) => ResponseFuture::serving(self.inner.call(request), verdict.headers),
            (Decided::Now, Some(refusal)) => {
                // The ready inner service may hold a permit that this request does not need.
                self.inner = self.inner.clone();
                let head = self.state.head(&request);
                let response = self.state.refuse(head, refusal, verdict.headers, &self.responder);
                drop(request);
                ResponseFuture::refused(response)
            }
            (Decided::ByResponse(charges), _) => {
                ResponseFuture::settling(self.inner.call(request), verdict.headers, charges)
            }
            (Decided::Later(delayed), _) => {
                let inner = self.inner.clone();
                // The ready inner service may hold the very permit for which the request will wait.
                self.inner = inner.clone();
                let state = Arc::clone(&self.state);
                ResponseFuture::waiting(delayed, state, inner, self.responder.clone(), request)
            }
        }
    }
}

impl<S: Clone, R: Clone> Clone for RateLimit<S, R> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), state: Arc::clone(&self.state), responder: self.responder.clone() }
    }
}

impl<S: fmt::Debug, R> fmt::Debug for RateLimit<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}
