//! The service that decides each request by the rules in force.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::RulesFuture;
use super::decide::{Admitted, Decided};
use super::future::{Asking, Waiting};
use super::watched::WatchedState;
use crate::InFlightBody;

/// A service whose requests are limited by rules in a file, made by
/// [`RulesLayer`](crate::RulesLayer).
///
/// The bodies of its responses are wrapped: they tell when a request is no longer in flight. The
/// inner service's body must be `From<String>`, for the bodies of refusals.
///
/// It is always ready, and treats the inner service as [`Tollgate`](crate::Tollgate) does: a
/// refusal does not wait for it, and a request whose client leaves before it is ready is not
/// charged.
pub struct RulesService<S> {
    inner: S,
    /// Whether the inner service may be called. It then may hold a permit.
    is_ready: bool,
    state: Arc<WatchedState>,
}

impl<S> RulesService<S> {
    pub(super) fn new(inner: S, state: Arc<WatchedState>) -> Self {
        Self { inner, is_ready: false, state }
    }
}

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for RulesService<S>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    ResBody: Body + From<String>,
{
    type Response = Response<InFlightBody<ResBody>>;
    type Error = S::Error;
    type Future = RulesFuture<S, ReqBody, ResBody>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.is_ready = self.inner.poll_ready(context)?.is_ready();
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let is_ready = std::mem::take(&mut self.is_ready);
        let state = &self.state.state;
        match state.decide(state.head(&request), is_ready, &mut Vec::new(), true) {
            Decided::Admitted(Admitted { headers, charges, departure: None }) if is_ready => {
                RulesFuture::serving(headers, charges, || self.inner.call(request))
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
                RulesFuture::waiting(Waiting::new(admitted, Arc::clone(&self.state), service, request))
            }
            Decided::Asks(answers) => {
                // The ready inner service may hold a permit meanwhile.
                self.inner = self.inner.clone();
                let (service, state) = (self.inner.clone(), Arc::clone(&self.state));
                RulesFuture::asking(Asking { answers, state, service, request, tries: 0 })
            }
            Decided::Refused(response) => {
                // The ready inner service may hold a permit that this request does not need.
                self.inner = self.inner.clone();
                RulesFuture::refused(response.map(ResBody::from))
            }
        }
    }
}

impl<S: Clone> Clone for RulesService<S> {
    fn clone(&self) -> Self {
        // A clone of a ready service is not ready.
        Self { inner: self.inner.clone(), is_ready: false, state: Arc::clone(&self.state) }
    }
}

impl<S: fmt::Debug> fmt::Debug for RulesService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RulesService").field("inner", &self.inner).finish_non_exhaustive()
    }
}
