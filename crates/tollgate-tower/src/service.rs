//! The service that decides each request before it calls the inner service.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tollgate_http::Respond;
use tower_service::Service;

use crate::decide::{Decided, LayerState, OwnedCharges, ResponseHeaders, Verdict};
use crate::future::ResponseFuture;

/// A service whose requests are limited, made by [`TollgateLayer`](crate::TollgateLayer).
///
/// Its response, body and error types are those of the inner service.
///
/// It is always ready, so that a refusal does not wait for the inner service: only an admitted
/// request does. (So [`tower::load_shed`] belongs inside of this layer, not around it.) If its
/// client disconnects before the inner service is ready, or if that fails, it is not charged.
///
/// The inner service must be `Clone`. A request that is admitted while it is ready clones nothing.
/// One that is admitted while it is not ready takes it along, in a boxed future, and leaves a
/// clone. A queued or a refused request replaces it by a clone, so that neither keeps a permit that
/// the ready inner service holds.
///
/// [`tower::load_shed`]: https://docs.rs/tower/latest/tower/load_shed/index.html
pub struct Tollgate<S, R> {
    inner: S,
    /// Whether the inner service may be called. It then may hold a permit.
    is_ready: bool,
    state: Arc<LayerState>,
    responder: R,
}

impl<S, R> Tollgate<S, R> {
    pub(crate) fn new(inner: S, state: Arc<LayerState>, responder: R) -> Self {
        Self { inner, is_ready: false, state, responder }
    }

    /// Returns the inner service.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns the inner service for changes. It must be polled for readiness again.
    pub fn inner_mut(&mut self) -> &mut S {
        self.is_ready = false;
        &mut self.inner
    }

    /// Removes the limits and returns the inner service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, R, ReqBody, ResBody> Service<Request<ReqBody>> for Tollgate<S, R>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    R: Respond<ResBody> + Clone,
{
    type Response = Response<ResBody>;
    type Error = S::Error;
    type Future = ResponseFuture<S, R, ReqBody, ResBody>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.is_ready = self.inner.poll_ready(context)?.is_ready();
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, mut request: Request<ReqBody>) -> Self::Future {
        let mut verdict = Verdict::default();
        let is_ready = std::mem::take(&mut self.is_ready);
        // Every branch consumes the request. If one left it to the end of this function, the
        // compiler would copy it once more in the other branches.
        match (self.state.decide(&self.state.head(&request), is_ready, &mut verdict), &verdict.refusal) {
            (Decided::Now, None) => {
                self.state.attach_limits(&mut request, &verdict);
                if !is_ready {
                    return self.serve_when_ready(request, verdict.headers, None);
                }
                ResponseFuture::serving(self.inner.call(request), verdict.headers)
            }
            (Decided::Now, Some(refusal)) => {
                // The ready inner service may hold a permit that this request does not need.
                self.inner = self.inner.clone();
                let head = self.state.head(&request);
                let response = self.state.refuse(head, refusal, verdict.headers, &self.responder);
                drop(request);
                ResponseFuture::refused(response)
            }
            (Decided::ByResponse(charges), _) => {
                self.state.attach_limits(&mut request, &verdict);
                if !is_ready {
                    return self.serve_when_ready(request, verdict.headers, Some(charges));
                }
                ResponseFuture::settling(verdict.headers, charges, || self.inner.call(request))
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

impl<S: Clone, R: Clone> Tollgate<S, R> {
    /// Serves an admitted request once the inner service is ready.
    #[inline(never)]
    fn serve_when_ready<ReqBody, ResBody>(
        &mut self,
        request: Request<ReqBody>,
        headers: ResponseHeaders,
        charges: Option<OwnedCharges>,
    ) -> ResponseFuture<S, R, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>>,
    {
        // The request takes the service that was polled: it has a place among those that wait for a
        // permit.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        let (state, responder) = (Arc::clone(&self.state), self.responder.clone());
        ResponseFuture::admitted(charges, headers, state, inner, responder, request)
    }
}

impl<S: Clone, R: Clone> Clone for Tollgate<S, R> {
    fn clone(&self) -> Self {
        let (state, responder) = (Arc::clone(&self.state), self.responder.clone());
        // A clone of a ready service is not ready.
        Self { inner: self.inner.clone(), is_ready: false, state, responder }
    }
}

impl<S: fmt::Debug, R> fmt::Debug for Tollgate<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tollgate").field("inner", &self.inner).finish_non_exhaustive()
    }
}
