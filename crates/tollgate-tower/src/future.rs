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
    }
}

pin_project! {
    #[project = Step]
    enum State<S, A, B, R>
    where
        S: Service<Request<B>>,
    {
        Refused { response: Option<Response<R>> },
        Serving {
            #[pin]
            future: S::Future,
            note: Option<Note>,
            // What is to be given back when the response is known.
            held: Option<Held>,
        },
        // Boxed, so that requests that do not wait carry no room for it.
        Waiting { waiting: Option<Box<Waiting<S, A, B>>> },
    }
}

/// A request that is not decided yet.
struct Waiting<S, A, B> {
    held: Held,
    /// Ready for one call.
    service: S,
    answer: A,
    request: Request<B>,
}

impl<S: Service<Request<B>>, A, B, R> ResponseFuture<S, A, B, R> {
    pub(crate) fn serving(future: S::Future, note: Note) -> Self {
        Self { state: State::Serving { future, note: Some(note), held: None } }
    }

    pub(crate) fn refused(response: Response<R>) -> Self {
        Self { state: State::Refused { response: Some(response) } }
    }

    pub(crate) fn waiting(held: Held, service: S, answer: A, request: Request<B>) -> Self {
        Self { state: State::Waiting { waiting: Some(Box::new(Waiting { held, service, answer, request })) } }
    }
}

impl Rules {
    /// The response to a refused request.
    pub(crate) fn refuse<R>(
        &self,
        head: Head<'_>,
        denial: &Denial,
        note: Note,
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
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                Step::Refused { response } => {
                    return Poll::Ready(Ok(response
                        .take()
                        .expect("a future is not polled after it is done")));
                }
                Step::Serving { future, note, held } => {
                    let mut result = ready!(future.poll(context));
                    if let Some(held) = held.take() {
                        held.answered(
                            result.as_ref().ok().map(|response| (response.status(), response.headers())),
                        );
                    }
                    if let (Ok(response), Some(note)) = (&mut result, note.take()) {
                        note.write(response.headers_mut());
                    }
                    return Poll::Ready(result);
                }
                Step::Waiting { waiting } => {
                    let undecided = waiting.as_mut().expect("a future is not polled after it is done");
                    let (verdict, remembers) = ready!(undecided.held.poll_verdict(context));
                    let Some(decided) = waiting.take() else { continue };
                    let Waiting { held, mut service, answer, request } = *decided;
                    held.rules.tell(Head::of(&request), &verdict);
                    state.set(match verdict.denial {
                        Some(denial) => {
                            let response =
                                held.rules.refuse(Head::of(&request), &denial, verdict.note, &answer);
                            State::Refused { response: Some(response) }
                        }
                        None => {
                            let (future, note) = (service.call(request), Some(verdict.note));
                            State::Serving { future, note, held: remembers.then_some(held) }
                        }
                    });
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
