//! The service that asks before it serves.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use crate::decide::{Rules, Verdict};
use crate::future::ResponseFuture;
use crate::{Head, Respond};

/// A service whose requests are limited: what [`RateLimitLayer`](crate::RateLimitLayer) makes of the inner one.
///
/// Its response, body and error types are those of the inner service. The inner service must be `Clone`: a request that
/// waits takes a clone with it, which is asked whether it is ready when the wait is over, and leaves another one here; one
/// that is refused leaves another one, too, so that no permit of the inner service is kept; others clone nothing.
pub struct RateLimit<S, A> {
    inner: S,
    rules: Arc<Rules>,
    answer: A,
}

impl<S, A> RateLimit<S, A> {
    pub(crate) fn new(inner: S, rules: Arc<Rules>, answer: A) -> Self {
        Self { inner, rules, answer }
    }

    /// The inner service.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// The inner service, to be changed.
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The inner service, without limits.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, A, B, R> Service<Request<B>> for RateLimit<S, A>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    A: Respond<R> + Clone,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S, A, B, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut verdict = Verdict::default();
        // Each way takes the request along: where one left it to be dropped here, the others would copy it once more.
        match (self.rules.decide(&Head::of(&request), &mut verdict), &verdict.denial) {
            (None, None) => ResponseFuture::serving(self.inner.call(request), verdict.note),
            (None, Some(denial)) => {
                // The one that is ready and is not called may hold a permit, which nobody needs now.
                self.inner = self.inner.clone();
                let response = self.rules.refuse(Head::of(&request), denial, verdict.note, &self.answer);
                drop(request);
                ResponseFuture::refused(response)
            }
            (Some(held), _) => {
                let inner = self.inner.clone();
                // The one that is ready may hold a permit: were it kept, the request might wait for just that one.
                self.inner = inner.clone();
                ResponseFuture::waiting(held, inner, self.answer.clone(), request)
            }
        }
    }
}

impl<S: Clone, A: Clone> Clone for RateLimit<S, A> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), rules: Arc::clone(&self.rules), answer: self.answer.clone() }
    }
}

impl<S: fmt::Debug, A> fmt::Debug for RateLimit<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}
