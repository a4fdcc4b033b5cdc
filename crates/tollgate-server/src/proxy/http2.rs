//! The connections to an upstream of HTTP/2: one for each worker, of which all requests are
//! streams.

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use h2::Reason;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::Mutex;

use super::address::address;
use super::dial::Dial;
use super::failed::{Failed, Failure};
use super::pool::AnswerBody;
use super::repeat::Spare;
use super::upload::Upload;
use crate::settings::Upstream;
use crate::workers::PerWorker;

/// How many times a request is sent that no upstream has acted on.
const TRIES: usize = 3;

pub(super) struct Streams {
    dial: Dial,
    connections: PerWorker<Mutex<Current>>,
}

/// The connection of a worker.
#[derive(Default)]
struct Current {
    open: Option<Open>,
    /// When one last could not be made, and why.
    failed: Option<(Instant, Failed)>,
}

#[derive(Clone)]
struct Open {
    sender: SendRequest<Upload>,
    known: Arc<Known>,
}

/// What is known of a connection.
#[derive(Default)]
struct Known {
    silence: Silence,
    /// Whether an answer has come by it.
    has_answered: AtomicBool,
    /// Whether it takes no more requests.
    has_ended: AtomicBool,
}

/// Since when requests wait without an answer to any of them. A connection may die without a word:
/// the machine behind it is gone, or one in between has forgotten it.
#[derive(Default)]
struct Silence(std::sync::Mutex<Option<Instant>>);

/// Why a request has no answer.
struct Unanswered {
    fate: Fate,
    failed: Failed,
}

/// How far a request came that has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Nothing of it was sent.
    Unsent,
    /// The upstream has not acted on it (RFC 9113, section 8.7).
    Unserved,
    /// The connection ended. The upstream may have acted on it.
    Unanswered,
    /// The upstream broke it off.
    Broken,
}

impl Streams {
    pub(super) fn new(dial: Dial, workers: usize) -> Self {
        Self { dial, connections: PerWorker::new(workers) }
    }

    /// Sends a request. If the upstream is not reached, or takes no more requests, the request
    /// stays as it was. A connection that was silent for longer than `patience` is used no more;
    /// requests that are under way keep it.
    ///
    /// What the upstream has not acted on is sent again, if its body is at hand; and so is, once, a
    /// request that may be repeated, and whose connection has served others before it ended.
    pub(super) async fn send(
        &self,
        request: &mut Option<Request<Upload>>,
        upstream: &Upstream,
        patience: Duration,
    ) -> Result<Response<AnswerBody>, Failed> {
        let mut is_repeated = false;
        for _ in 0..TRIES {
            let mut open = match self.connection(patience).await {
                Ok(open) => open,
                Err(failed) if is_repeated => return Err(failed.once_sent()),
                Err(failed) => return Err(failed),
            };
            let mut sent = request.take().ok_or(Failure::Broken)?;
            let spare = Spare::of(&sent);
            let length = sent.body().size_hint().exact();
            address(&mut sent, length, upstream);
            let may_have_closed = open.known.has_answered.load(Relaxed) && !is_repeated;
            let Unanswered { fate, failed } = match open.ask(sent).await {
                Ok(response) => return Ok(response.map(Into::into)),
                Err(unanswered) => unanswered,
            };
            *request = match fate {
                Fate::Unsent => Some(spare.unsent()),
                Fate::Unserved => spare.whole(),
                Fate::Unanswered if may_have_closed => spare.repeated(),
                Fate::Unanswered | Fate::Broken => None,
            };
            if request.is_none() {
                return Err(failed);
            }
            is_repeated |= fate == Fate::Unanswered;
        }
        let failed = Failed::from(Failure::Connect);
        Err(if is_repeated { failed.once_sent() } else { failed })
    }

    /// The connection of this worker, or a new one.
    async fn connection(&self, patience: Duration) -> Result<Open, Failed> {
        let began = Instant::now();
        // Held while one is made: others wait for it, and make none of their own.
        let mut current = self.connections.here().lock().await;
        if let Some(open) = current.open.as_ref().filter(|open| open.is_usable(patience)) {
            return Ok(open.clone());
        }
        // One that failed meanwhile was made for this request too.
        if let Some((_, failed)) = current.failed.as_ref().filter(|(at, _)| *at >= began) {
            return Err(failed.clone());
        }
        let made = Open::new(&self.dial).await;
        match &made {
            Ok(open) => current.open = Some(open.clone()),
            Err(failed) => current.failed = Some((Instant::now(), failed.clone())),
        }
        made
    }
}

impl Open {
    async fn new(dial: &Dial) -> Result<Self, Failed> {
        let stream = dial.clone().connect().await.map_err(|error| Failed::of_dial(&error))?;
        let made = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, driver) = made.map_err(|error| Failed::new(Failure::Connect, &error))?;
        tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "a connection to an upstream ended");
            }
        });
        Ok(Self { sender, known: Arc::default() })
    }

    /// Whether requests may go by it: it is open, and was not silent for longer than `patience`.
    fn is_usable(&self, patience: Duration) -> bool {
        let has_ended = self.sender.is_closed() || self.known.has_ended.load(Relaxed);
        !has_ended && !self.known.silence.is_longer_than(patience)
    }

    async fn ask(&mut self, request: Request<Upload>) -> Result<Response<Incoming>, Unanswered> {
        let known = &self.known;
        known.silence.waits();
        let answer = self.sender.try_send_request(request).await;
        known.silence.ends();
        let mut error = match answer {
            Ok(answer) => {
                known.has_answered.store(true, Relaxed);
                return Ok(answer);
            }
            Err(error) => error,
        };
        let fate = if error.take_message().is_some() { Fate::Unsent } else { Fate::of(error.error()) };
        // hyper may see the end of the connection later than that of its streams.
        if fate == Fate::Unanswered || of_http2(error.error()).is_some_and(h2::Error::is_go_away) {
            known.has_ended.store(true, Relaxed);
        }
        Err(Unanswered { fate, failed: Failed::new(Failure::Broken, error.error()) })
    }
}

/// What HTTP/2 says of an error.
fn of_http2(error: &hyper::Error) -> Option<&h2::Error> {
    error.source()?.downcast_ref()
}

impl Fate {
    fn of(error: &hyper::Error) -> Self {
        if error.source().is_some_and(|source| source.is::<io::Error>()) {
            return Self::Unanswered;
        }
        let Some(error) = of_http2(error).filter(|error| error.is_remote()) else { return Self::Broken };
        // h2 says GOAWAY of streams beyond the last one that the frame names, and of no others.
        let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        if is_refused || error.is_go_away() { Self::Unserved } else { Self::Broken }
    }
}

impl Silence {
    fn set(&self, change: impl FnOnce(&mut Option<Instant>)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// A request waits for an answer.
    fn waits(&self) {
        self.set(|since| *since = since.or_else(|| Some(Instant::now())));
    }

    /// An answer is there.
    fn ends(&self) {
        self.set(|since| *since = None);
    }

    fn is_longer_than(&self, patience: Duration) -> bool {
        let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| since.elapsed() >= patience)
    }
}
