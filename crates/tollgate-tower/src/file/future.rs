//! The future of a response.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Extensions, Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tollgate::Timestamp;
use tollgate_rules::StoredAnswer;
use tower_service::Service;

use super::charges::Charges;
use super::decide::{Admitted, Decided, Departure, StoreAnswers};
use super::watched::WatchedState;
use crate::InFlightBody;
use crate::body::Held;
use crate::decide::ResponseHeaders;

pin_project! {
    /// The response of a [`RulesService`](crate::RulesService): the inner service's response, or a
    /// refusal.
    ///
    /// When it is dropped while the request waits in a queue, it gives back what the request was
    /// charged.
    #[must_use = "a future does nothing until it is polled"]
    pub struct RulesFuture<S, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>>,
    {
        #[pin]
        state: State<S, ReqBody, ResBody>,
        // The headers for the inner service's response.
        headers: ResponseHeaders,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>>,
    {
        Refused { response: Option<Response<ResBody>> },
        Serving { #[pin] future: S::Future, charges: Charges },
        // Boxed, so that the futures of requests that do not wait stay small.
        Waiting { waiting: Option<Box<Waiting<S, ReqBody>>> },
        Asking { asking: Option<Box<Asking<S, ReqBody>>> },
    }
}

/// A request that waits for its turn in a queue, and then for the inner service.
pub(super) struct Waiting<S, ReqBody> {
    queued: Option<Queued>,
    headers: ResponseHeaders,
    charges: Charges,
    state: Arc<WatchedState>,
    /// If the request is queued, not ready yet: a ready service may hold a permit meanwhile.
    service: S,
    request: Request<ReqBody>,
}

/// A request that waits for the stores of rules.
pub(super) struct Asking<S, ReqBody> {
    pub(super) answers: StoreAnswers,
    pub(super) state: Arc<WatchedState>,
    /// Not ready yet: a ready service may hold a permit meanwhile.
    pub(super) service: S,
    pub(super) request: Request<ReqBody>,
    /// How often stores have answered.
    pub(super) tries: usize,
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
    pub(super) fn new(
        admitted: Admitted,
        state: Arc<WatchedState>,
        service: S,
        request: Request<ReqBody>,
    ) -> Box<Self> {
        let Admitted { headers, charges, departure } = admitted;
        let queued = departure.map(|departure| {
            departure.begin();
            Queued { departure, asleep: None }
        });
        Box::new(Self { queued, headers, charges, state, service, request })
    }

    /// Waits until the request's turn has come.
    fn poll_departure(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let state = &self.state.state;
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
            let asleep = asleep.unwrap_or_else(|| Asleep { until: at, sleep: (state.sleep)(left) });
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

impl<S: Service<Request<ReqBody>>, ReqBody, ResBody> RulesFuture<S, ReqBody, ResBody> {
    pub(super) fn serving(
        headers: ResponseHeaders,
        mut charges: Charges,
        call: impl FnOnce() -> S::Future,
    ) -> Self {
        let future = charges.serve(call);
        Self { state: State::Serving { future, charges }, headers }
    }

    pub(super) fn waiting(waiting: Box<Waiting<S, ReqBody>>) -> Self {
        Self { state: State::Waiting { waiting: Some(waiting) }, headers: ResponseHeaders::default() }
    }

    pub(super) fn asking(asking: Asking<S, ReqBody>) -> Self {
        Self { state: State::asking(asking), headers: ResponseHeaders::default() }
    }

    pub(super) fn refused(response: Response<ResBody>) -> Self {
        let state = State::Refused { response: Some(response) };
        Self { state, headers: ResponseHeaders::default() }
    }
}

impl<S: Service<Request<ReqBody>>, ReqBody, ResBody> State<S, ReqBody, ResBody> {
    fn asking(asking: Asking<S, ReqBody>) -> Self {
        Self::Asking { asking: Some(Box::new(asking)) }
    }
}

impl<S, ReqBody, ResBody> State<S, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    ResBody: From<String>,
{
    /// Decides a request again, with the answers of stores.
    fn answered(asking: Asking<S, ReqBody>, (mut answers, told): (Vec<StoredAnswer>, Extensions)) -> Self {
        let Asking { state, service, mut request, tries, .. } = asking;
        request.extensions_mut().extend(told);
        let tries = tries + 1;
        let decided = state.state.decide(state.state.head(&request), false, &mut answers, tries < TRIES);
        match decided {
            Decided::Admitted(admitted) => {
                Self::Waiting { waiting: Some(Waiting::new(admitted, state, service, request)) }
            }
            Decided::Refused(response) => Self::Refused { response: Some(response.map(ResBody::from)) },
            // Other rules came into force, or what refused the request has gone.
            Decided::Asks(answers) => Self::asking(Asking { answers, state, service, request, tries }),
        }
    }
}

impl<S, ReqBody, ResBody> Future for RulesFuture<S, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    ResBody: Body + From<String>,
{
    type Output = Result<Response<InFlightBody<ResBody>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProjection::Refused { response } => {
                    let response = response.take().expect("a future is not polled after it is done");
                    return Poll::Ready(Ok(wrapped(response, None)));
                }
                StateProjection::Serving { future, charges } => {
                    let result = ready!(charges.guard(|| future.poll(context)));
                    if let Ok(response) = &result {
                        charges.give_back_unserved(response.extensions());
                    }
                    let held = charges.answered(
                        result.as_ref().ok().map(|response| (response.status(), response.headers())),
                    );
                    return Poll::Ready(result.map(|mut response| {
                        this.headers.write(response.headers_mut());
                        wrapped(response, held)
                    }));
                }
                StateProjection::Asking { asking: slot } => {
                    let asking = slot.as_mut().expect("a future is not polled after it is done");
                    let answers = ready!(asking.answers.as_mut().poll(context));
                    let Some(asking) = slot.take() else { continue };
                    this.state.set(State::answered(*asking, answers));
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

/// Wraps the body of a response, which holds what the request holds.
fn wrapped<B: Body>(response: Response<B>, held: Option<super::FileTicket>) -> Response<InFlightBody<B>> {
    response.map(|body| InFlightBody::new(body, Held::Ticket(held)))
}

impl<S: Service<Request<ReqBody>>, ReqBody, ResBody> fmt::Debug for RulesFuture<S, ReqBody, ResBody> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RulesFuture").finish_non_exhaustive()
    }
}
