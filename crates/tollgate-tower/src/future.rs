//! The response to come.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::decide::{Denial, Held, Rules};
use crate::headers::Note;
use crate::{Head, Respond};

pin_project! {
    /// The response of a [`RateLimit`](crate::RateLimit): the inner service's, or a refusal.
    ///
    /// Dropped while the request waits for its turn, it gives the turn back.
    #[must_use = "a future does nothing until it is polled"]
    pub struct ResponseFuture<S, A, B, R>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, A, B, R>,
        // Of a request that is served.
        note: Note,
        // What is to be given back when the response is known.
        held: Option<Box<Held>>,
    }
}

pin_project! {
    #[project = Step]
    enum State<S, A, B, R>
    where
        S: Service<Request<B>>,
    {
        Refused { response: Option<Response<R>> },
        Serving { #[pin] future: S::Future },
        // Boxed, so that requests that do not wait carry no room for it.
        Waiting { waiting: Option<Box<Waiting<S, A, B>>> },
    }
}

/// A request that is not decided yet, or not served.
struct Waiting<S, A, B> {
    held: Held,
    /// Once it is admitted: whether its charge is remembered until the response.
    admitted: Option<bool>,
    /// Not ready: what is ready may hold a permit, which nobody should have who waits.
    service: S,
    answer: A,
    request: Request<B>,
}

impl<S: Service<Request<B>>, A, B, R> ResponseFuture<S, A, B, R> {
    pub(crate) fn serving(future: S::Future, note: Note) -> Self {
        Self { state: State::Serving { future }, note, held: None }
    }

    pub(crate) fn refused(response: Response<R>) -> Self {
        Self { state: State::Refused { response: Some(response) }, note: Note::default(), held: None }
    }

    pub(crate) fn waiting(held: Held, service: S, answer: A, request: Request<B>) -> Self {
        let waiting = Waiting { held, admitted: None, service, answer, request };
        Self { state: State::Waiting { waiting: Some(Box::new(waiting)) }, note: Note::default(), held: None }
    }
}

impl Rules {
    /// The response to a refused request.
    pub(crate) fn refuse<R>(
        &self,
        head: Head<'_>,
        denial: &Denial,
        mut note: Note,
        answer: &impl Respond<R>,
    ) -> Response<R> {
        let mut response = answer.respond(&self.refusal(head, denial));
        note.write_refusal(response.headers_mut(), denial.retry_after_seconds());
        response
    }
}

impl<S, A, B, R> Future for ResponseFuture<S, A, B, R>
where
    S: Service<Request<B>, Response = Response<R>>,
    A: Respond<R>,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                Step::Refused { response } => {
                    return Poll::Ready(Ok(response
                        .take()
                        .expect("a future is not polled after it is done")));
                }
                // Nothing to be added: the response goes where it is wanted, and is not moved once more.
                Step::Serving { future } if this.held.is_none() && this.note.is_empty() => {
                    return future.poll(context);
                }
                Step::Serving { future } => {
                    let mut answer = future.poll(context);
                    if let Poll::Ready(result) = &mut answer {
                        if let Some(held) = this.held.take() {
                            held.answered(
                                result.as_ref().ok().map(|response| (response.status(), response.headers())),
                            );
                        }
                        if let Ok(response) = result {
                            this.note.write(response.headers_mut());
                        }
                    }
                    return answer;
                }
                Step::Waiting { waiting } => {
                    let one = waiting.as_mut().expect("a future is not polled after it is done");
                    if one.admitted.is_none() {
                        let (verdict, remembers) = ready!(one.held.poll_verdict(context));
                        let head = Head::of(&one.request);
                        one.held.rules.tell(&head, &verdict);
                        if let Some(denial) = verdict.denial {
                            let response = one.held.rules.refuse(head, &denial, verdict.note, &one.answer);
                            return Poll::Ready(Ok(response));
                        }
                        *this.note = verdict.note;
                        one.admitted = Some(remembers);
                    }
                    let ready = ready!(one.service.poll_ready(context));
                    let Some(one) = waiting.take() else { continue };
                    let Waiting { held, admitted, mut service, request, .. } = *one;
                    let held = admitted.filter(|remembers| *remembers).map(|_| Box::new(held));
                    if let Err(error) = ready {
                        held.into_iter().for_each(|held| held.answered(None));
                        return Poll::Ready(Err(error));
                    }
                    *this.held = held;
                    this.state.set(State::Serving { future: service.call(request) });
                }
            }
        }
    }
}

impl<S: Service<Request<B>>, A, B, R> fmt::Debug for ResponseFuture<S, A, B, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
