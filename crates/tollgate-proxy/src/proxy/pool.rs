//! Connections to an upstream of HTTP/1.
//!
//! A connection has no task of its own: that of the request which it serves reads and writes. So a
//! request is written, and its answer read, where it is decided, without a change of tasks.

use std::mem::take;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tollgate_net::workers::PerWorker;

use super::by_hyper::ByHyper;
use super::dial::{Dial, Dialled};
use super::failed::{Ended, Failed, Failure};
use super::http2::StreamBody;
use super::plain::{self, Asked, Rest};
use super::repeat::{Spare, may_repeat};
use super::upload::{Fault, Upload};
use crate::counts::{UpstreamCounts, UpstreamEvent};

/// The connections to an upstream. Those of a worker serve it alone: an answer is read by the
/// runtime that made the connection, which would have to wake another worker.
pub(super) struct Pool {
    dial: Dial,
    /// How long an idle connection is kept.
    keep: Duration,
    counts: Arc<UpstreamCounts>,
    idle: PerWorker<Arc<Idle>>,
}

/// Those that serve no request, the one that was used last at the end.
#[derive(Default)]
struct Idle(Mutex<Vec<(Instant, Link)>>);

/// A connection.
enum Link {
    /// All its requests and answers were plain.
    Plain(Dialled),
    /// One was not.
    ByHyper(Box<ByHyper>),
}

/// The body of an upstream's answer, with the connection by which it comes. That becomes idle when
/// the answer has ended, and is closed if this is dropped before.
pub(super) struct AnswerBody {
    coming: Coming,
    /// Where the connection is kept.
    idle: Option<Arc<Idle>>,
}

#[derive(Default)]
enum Coming {
    Plain(Rest, Dialled),
    ByHyper(Incoming, Box<ByHyper>),
    /// The connection has a task of its own.
    Detached(Incoming),
    /// By a stream of HTTP/2.
    Stream(StreamBody),
    /// Only while it is changed.
    #[default]
    Nothing,
}

impl Pool {
    pub(super) fn new(dial: Dial, keep: Duration, workers: usize, counts: &Arc<UpstreamCounts>) -> Self {
        Self { dial, keep, counts: Arc::clone(counts), idle: PerWorker::new(workers) }
    }

    /// Closes connections that were idle for too long, and those that the upstream has closed.
    pub(super) fn sweep(&self) {
        for idle in self.idle.all() {
            idle.lock().retain_mut(|(since, link)| since.elapsed() < self.keep && link.is_open());
        }
    }

    /// Sends a request by an idle connection, or by a new one, and says when the upstream may have
    /// read of it. If there is no connection, the request stays.
    ///
    /// An upstream may close an idle connection while a request is on its way there. If no byte of
    /// an answer came, and the request may be repeated, it is sent once more by a new connection.
    pub(super) async fn send(
        &self,
        request: &mut Option<Request<Upload>>,
        is_sent: &AtomicBool,
    ) -> Result<Response<AnswerBody>, Failed> {
        let (idle, mut is_repeated) = (self.idle.here(), false);
        loop {
            let kept = if is_repeated { None } else { idle.take(self.keep) };
            let (link, is_new) = match kept {
                Some(link) => (link, false),
                // Boxed, as it is rare, and requests by idle ones would have room for it.
                None => match Box::pin(Link::connect(self.dial.clone())).await {
                    Ok(link) => (link, true),
                    Err(failed) if is_repeated => return Err(failed.once_sent()),
                    Err(failed) => return Err(failed),
                },
            };
            is_sent.store(true, Relaxed);
            let ended = match link.ask(request, is_new).await {
                Ok(answer) => {
                    return Ok(answer.map(|coming| AnswerBody { coming, idle: Some(Arc::clone(idle)) }));
                }
                Err(ended) => ended,
            };
            // One that was idle was closed at the same time.
            let goes_again = match ended {
                Ended::Unsent => request.is_some(),
                Ended::Unanswered => request.as_ref().is_some_and(may_repeat),
                Ended::Broken => false,
            };
            if is_new || !goes_again {
                *request = None;
                let failure = match ended {
                    Ended::Unsent | Ended::Unanswered => Failure::Closed,
                    Ended::Broken => Failure::Broken,
                };
                return Err(failure.into());
            }
            if ended == Ended::Unanswered {
                self.counts.count(UpstreamEvent::Repeated);
                is_repeated = true;
            }
            is_sent.store(is_repeated, Relaxed);
        }
    }
}

impl Link {
    async fn connect(dial: Dial) -> Result<Self, Failed> {
        dial.connect().await.map(Self::Plain)
    }

    /// Sends a request, and reads the head of its answer. After an error the request stays if
    /// nothing of it was sent, and also if it may be repeated, unless the connection `is_new`.
    async fn ask(
        self,
        request: &mut Option<Request<Upload>>,
        is_new: bool,
    ) -> Result<Response<Coming>, Ended> {
        let mut sent;
        let (link, request) = match self {
            Self::ByHyper(link) => (link, request),
            Self::Plain(mut stream) => match plain::ask(&mut stream, request).await? {
                Asked::Answered(answer) => return Ok(answer.map(|rest| Coming::Plain(rest, stream))),
                Asked::NotSent => (ByHyper::new(stream, Bytes::new()).await?, request),
                Asked::Sent(answered) => {
                    // Even if hyper fails, it goes by no other connection.
                    sent = request.take();
                    (ByHyper::new(stream, answered).await?, &mut sent)
                }
            },
        };
        // Boxed: plain requests would have room for it.
        Box::pin(async move {
            let mut link = link;
            let repeatable = request.as_ref().filter(|request| !is_new && may_repeat(request));
            let spare = repeatable.map(Spare::of);
            match link.ask(request).await {
                Ok(answer) => Ok(answer.map(|body| Coming::ByHyper(body, link))),
                Err(ended) => {
                    if ended == Ended::Unanswered {
                        *request = spare.and_then(Spare::repeated);
                    }
                    Err(ended)
                }
            }
        })
        .await
    }

    /// Whether it is idle, and not closed by the upstream.
    fn is_open(&mut self) -> bool {
        match self {
            Self::Plain(stream) => plain::is_idle(stream, &mut Context::from_waker(Waker::noop())),
            Self::ByHyper(link) => link.is_open(),
        }
    }
}

impl Idle {
    fn lock(&self) -> MutexGuard<'_, Vec<(Instant, Link)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that was used last: others may be closed for want of use. It may have been
    /// closed, too, which shows before anything is written to it.
    fn take(&self, keep: Duration) -> Option<Link> {
        let (since, link) = self.lock().pop()?;
        // All others are idle for longer.
        (since.elapsed() < keep).then_some(link)
    }
}

impl AnswerBody {
    /// Gives the connection a task of its own, for the rest of the request. Of a plain one there is
    /// none.
    pub(super) fn detach(&mut self) {
        self.coming = match take(&mut self.coming) {
            Coming::ByHyper(body, link) => {
                link.detach();
                Coming::Detached(body)
            }
            other => other,
        };
    }
}

impl From<StreamBody> for AnswerBody {
    fn from(body: StreamBody) -> Self {
        Self { coming: Coming::Stream(body), idle: None }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        match &mut self.coming {
            Coming::Plain(rest, stream) => rest.poll_frame(stream, context).map_err(Into::into),
            Coming::ByHyper(body, link) => {
                let mut polled = Pin::new(&mut *body).poll_frame(context);
                if polled.is_pending() {
                    link.drive(context);
                    polled = Pin::new(body).poll_frame(context);
                }
                polled.map_err(Into::into)
            }
            Coming::Detached(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
            Coming::Stream(body) => Pin::new(body).poll_frame(context),
            Coming::Nothing => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.coming {
            Coming::Plain(rest, _) => rest.len() == 0,
            Coming::ByHyper(body, _) | Coming::Detached(body) => body.is_end_stream(),
            Coming::Stream(body) => body.is_end_stream(),
            Coming::Nothing => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.coming {
            Coming::Plain(rest, _) => SizeHint::with_exact(rest.len() as u64),
            Coming::ByHyper(body, _) | Coming::Detached(body) => body.size_hint(),
            Coming::Stream(body) => body.size_hint(),
            Coming::Nothing => SizeHint::with_exact(0),
        }
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        let link = match take(&mut self.coming) {
            Coming::Plain(rest, stream) => Some(Link::Plain(stream)).filter(|_| rest.has_come()),
            Coming::ByHyper(_, mut link) => link.is_ready().then_some(Link::ByHyper(link)),
            Coming::Detached(_) | Coming::Stream(_) | Coming::Nothing => None,
        };
        if let (Some(link), Some(idle)) = (link, &self.idle) {
            idle.lock().push((Instant::now(), link));
        }
    }
}

#[cfg(test)]
mod tests;
