//! The future of a response.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tollgate::Timestamp;
use tower_service::Service;

use crate::RequestLimits;
use crate::decide::{
    Admitted, Answers, Charges, Decided, Departure, LayerState, LayerTicket, ResponseHeaders, Told,
};

pin_project! {
    /// The response of a [`Tollgate`](crate::Tollgate): the inner service's response, or a
    /// refusal.
    ///
    /// When it is dropped while the request waits in a queue, it gives back what the request was
    /// charged.
    #[must_use = "a future does nothing until it is polled"]
    pub struct ResponseFuture<S, R, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>>,
    {
        #[pin]
        state: State<S, R, ReqBody, ResBody>,
        // The headers for the inner service's response.
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
        Serving { #[pin] future: S::Future, charges: Charges },
        // Boxed, so that the futures of requests that do not wait stay small.
        Waiting { waiting: Option<Box<Waiting<S, ReqBody>>> },
        Asking { asking: Option<Box<Asking<S, R, ReqBody>>> },
    }
}

/// A request that waits for its turn in a queue, and then for the inner service.
pub(crate) struct Waiting<S, ReqBody> {
    queued: Option<Queued>,
    headers: ResponseHeaders,
    charges: Charges,
    state: Arc<LayerState>,
    /// If the request is queued, not ready yet: a ready service may hold a permit meanwhile.
    service: S,
    request: Request<ReqBody>,
}

/// A request that waits for the stores of rules.
pub(crate) struct Asking<S, R, ReqBody> {
    pub(crate) telling: Pin<Box<dyn Future<Output = Told> + Send>>,
    pub(crate) state: Arc<LayerState>,
    pub(crate) answers: R,
    /// Not ready yet: a ready service may hold a permit meanwhile.
    pub(crate) service: S,
    pub(crate) request: Request<ReqBody>,
    /// How often stores have answered.
    pub(crate) tries: usize,
}

/// How often stores are asked for one request, which reloads may overtake. Beyond it is refused.
const TRIES: usize = 8;

/// A request in a queue, until it departs or its client leaves.
struct Queued {
    departure: Box<Departure>,
    asleep: Option<Asleep>,
}

struct Asleep {
    until: Timestamp,
    sleep: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<S, ReqBody> Waiting<S, ReqBody> {
    pub(crate) fn new(
        admitted: Admitted,
        state: Arc<LayerState>,
        service: S,
        mut request: Request<ReqBody>,
    ) -> Box<Self> {
        let Admitted { headers, charges, departure, limits } = admitted;
        if let Some(left) = limits {
            request.extensions_mut().insert(RequestLimits::new(&state, left));
        }
        let queued = departure.map(|departure| {
            departure.begin();
            Queued { departure, asleep: None }
        });
        Box::new(Self { queued, headers, charges, state, service, request })
    }

    /// Waits until the request's turn has come.
    fn poll_departure(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let state = &*self.state;
        while let Some(queued) = &mut self.queued {
            let turns = self.charges.turns();
            turns.into_iter().for_each(|turns| turns.watch(context.waker()));
            let at = queued.departure.at(turns);
            let left = at.saturating_since(state.clock.now());
            if left.is_zero() {
                queued.departure.depart(state);
                self.queued = None;
                break;
            }
            // A request that has moved up sleeps for less.
            let asleep = queued.asleep.take().filter(|asleep| asleep.until == at);
            let asleep = asleep.unwrap_or_else(|| Asleep { until: at, sleep: (state.settings.sleep)(left) });
            ready!(queued.asleep.insert(asleep).sleep.as_mut().poll(context));
            // If the timer is early, the request sleeps again.
            queued.asleep = None;
        }
        Poll::Ready(())
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.departure.end();
    }
}

impl<S: Service<Request<ReqBody>>, R, ReqBody, ResBody> ResponseFuture<S, R, ReqBody, ResBody> {
    fn new(state: State<S, R, ReqBody, ResBody>, headers: ResponseHeaders) -> Self {
        Self { state, headers }
    }

    pub(crate) fn serving(
        headers: ResponseHeaders,
        mut charges: Charges,
        call: impl FnOnce() -> S::Future,
    ) -> Self {
        let future = charges.serve(call);
        Self::new(State::Serving { future, charges }, headers)
    }

    pub(crate) fn waiting(waiting: Box<Waiting<S, ReqBody>>) -> Self {
        Self::new(State::Waiting { waiting: Some(waiting) }, ResponseHeaders::default())
    }

    pub(crate) fn asking(asking: Asking<S, R, ReqBody>) -> Self {
        Self::new(State::asking(asking), ResponseHeaders::default())
    }

    pub(crate) fn refused(response: Response<ResBody>) -> Self {
        Self::new(State::Refused { response: Some(response) }, ResponseHeaders::default())
    }

    /// Returns what the request holds until the body of its response has ended, once that is
    /// ready.
    pub(crate) fn take_held(self: Pin<&mut Self>) -> Option<LayerTicket> {
        match self.project().state.project() {
            StateProjection::Serving { charges, .. } => charges.take_held(),
            _ => None,
        }
    }
}

impl<S: Service<Request<ReqBody>>, R, ReqBody, ResBody> State<S, R, ReqBody, ResBody> {
    fn asking(asking: Asking<S, R, ReqBody>) -> Self {
        Self::Asking { asking: Some(Box::new(asking)) }
    }
}

impl<S, R, ReqBody, ResBody> State<S, R, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    R: Answers<ResBody>,
{
    /// Decides a request again, with what stores tell.
    fn told(asking: Asking<S, R, ReqBody>, mut told: Told) -> Self {
        let Asking { state, answers, service, mut request, tries, .. } = asking;
        request.extensions_mut().extend(std::mem::take(&mut told.extensions));
        let tries = tries + 1;
        let decided = state.decide(state.head(&request), false, &mut told, tries < TRIES, &answers);
        match decided {
            Decided::Admitted(admitted) => {
                Self::Waiting { waiting: Some(Waiting::new(admitted, state, service, request)) }
            }
            Decided::Refused(response) => Self::Refused { response: Some(*response) },
            // Other rules came into force, or what refused the request has gone.
            Decided::Asks(telling) => {
                Self::asking(Asking { telling, state, answers, service, request, tries })
            }
        }
    }
}

impl<S, R, ReqBody, ResBody> Future for ResponseFuture<S, R, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    R: Answers<ResBody>,
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
                StateProjection::Serving { future, charges }
                    if charges.is_empty() && this.headers.is_empty() =>
                {
                    return future.poll(context);
                }
                StateProjection::Serving { future, charges } => {
                    let mut result = ready!(charges.guard(|| future.poll(context)));
                    if let Ok(response) = &result {
                        charges.give_back_unserved(response.extensions());
                    }
                    charges.answered(
                        result.as_ref().ok().map(|response| (response.status(), response.headers())),
                    );
                    if let Ok(response) = &mut result {
                        this.headers.write(response.headers_mut());
                    }
                    return Poll::Ready(result);
                }
                StateProjection::Asking { asking: slot } => {
                    let asking = slot.as_mut().expect("a future is not polled after it is done");
                    let told = ready!(asking.telling.as_mut().poll(context));
                    let Some(asking) = slot.take() else { continue };
                    this.state.set(State::told(*asking, told));
                }
                StateProjection::Waiting { waiting: slot } => {
                    let waiting = slot.as_mut().expect("a future is not polled after it is done");
                    ready!(waiting.poll_departure(context));
                    if let Err(error) = ready!(waiting.service.poll_ready(context)) {
                        // It gives back what the request was charged.
                        *slot = None;
                        return Poll::Ready(Err(error));
                    }
                    let Some(waiting) = slot.take() else { continue };
                    let Waiting { headers, mut charges, mut service, request, .. } = *waiting;
                    let future = charges.serve(|| service.call(request));
                    *this.headers = headers;
                    this.state.set(State::Serving { future, charges });
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
