//! The service that decides each request before it calls the inner service.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use crate::decide::{Admitted, Answers, Decided, LayerState, Told};
use crate::future::{Asking, Waiting};
use crate::{RequestLimits, ResponseFuture};

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
    answers: R,
}

impl<S, R> Tollgate<S, R> {
    pub(crate) fn new(inner: S, state: Arc<LayerState>, answers: R) -> Self {
        Self { inner, is_ready: false, state, answers }
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
    R: Answers<ResBody> + Clone,
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
        let is_ready = std::mem::take(&mut self.is_ready);
        let state = &self.state;
        match state.decide(state.head(&request), is_ready, &mut Told::default(), true, &self.answers) {
            Decided::Admitted(Admitted { headers, charges, departure: None, limits }) if is_ready => {
                if let Some(left) = limits {
                    request.extensions_mut().insert(RequestLimits::new(&self.state, left));
                }
                ResponseFuture::serving(headers, charges, || self.inner.call(request))
            }
            Decided::Admitted(admitted) => {
                let clone = self.inner.clone();
                let service = match admitted.departure {
                    // The request takes the service that was polled: it has a place among those
                    // that wait for a permit.
                    None => std::mem::replace(&mut self.inner, clone),
                    // The ready inner service may hold the very permit for which the request will
                    // wait.
                    Some(_) => {
                        self.inner = clone.clone();
                        clone
                    }
                };
                ResponseFuture::waiting(Waiting::new(admitted, Arc::clone(&self.state), service, request))
            }
            Decided::Asks(telling) => {
                // The ready inner service may hold a permit meanwhile.
                self.inner = self.inner.clone();
                let (service, state) = (self.inner.clone(), Arc::clone(&self.state));
                let answers = self.answers.clone();
                ResponseFuture::asking(Asking { telling, state, answers, service, request, tries: 0 })
            }
            Decided::Refused(response) => {
                // The ready inner service may hold a permit that this request does not need.
                self.inner = self.inner.clone();
                ResponseFuture::refused(*response)
            }
        }
    }
}

impl<S: Clone, R: Clone> Clone for Tollgate<S, R> {
    fn clone(&self) -> Self {
        let (state, answers) = (Arc::clone(&self.state), self.answers.clone());
        // A clone of a ready service is not ready.
        Self { inner: self.inner.clone(), is_ready: false, state, answers }
    }
}

impl<S: fmt::Debug, R> fmt::Debug for Tollgate<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tollgate").field("inner", &self.inner).finish_non_exhaustive()
    }
}
