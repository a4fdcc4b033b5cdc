//! The connections to an upstream of HTTP/2: one for each worker, of which all requests are
//! streams.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::Mutex;

use super::address::{address, take_back};
use super::dial::Dial;
use super::failed::{Failed, Failure};
use super::pool::AnswerBody;
use super::upload::Upload;
use crate::settings::Upstream;
use crate::workers::PerWorker;

/// How many connections are tried for a request.
const TRIES: usize = 2;

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
    silence: Arc<Silence>,
}

/// Since when requests wait without an answer to any of them. A connection may die without a word:
/// the machine behind it is gone, or one in between has forgotten it.
#[derive(Default)]
struct Silence(std::sync::Mutex<Option<Instant>>);

impl Streams {
    pub(super) fn new(dial: Dial, workers: usize) -> Self {
        Self { dial, connections: PerWorker::new(workers) }
    }

    /// Sends a request. If the upstream is not reached, or takes no more requests, the request
    /// stays as it was. A connection that was silent for longer than `patience` is used no more;
    /// requests that are under way keep it.
    pub(super) async fn send(
        &self,
        request: &mut Option<Request<Upload>>,
        upstream: &Upstream,
        patience: Duration,
    ) -> Result<Response<AnswerBody>, Failed> {
        for _ in 0..TRIES {
            let mut open = self.connection(patience).await?;
            let mut sent = request.take().ok_or(Failure::Broken)?;
            let length = sent.body().size_hint().exact();
            address(&mut sent, length, upstream);
            let mut error = match open.ask(sent).await {
                Ok(response) => return Ok(response.map(Into::into)),
                Err(error) => error,
            };
            // The upstream took no more requests by this connection, and has read nothing of this.
            let Some(mut unsent) = error.take_message() else {
                return Err(Failed::new(Failure::Broken, error.error()));
            };
            take_back(&mut unsent);
            *request = Some(unsent);
        }
        Err(Failure::Connect.into())
    }

    /// The connection of this worker, or a new one.
    async fn connection(&self, patience: Duration) -> Result<Open, Failed> {
        let began = Instant::now();
        // Held while one is made: others wait for it, and make none of their own.
        let mut current = self.connections.here().lock().await;
        let fits = |open: &&Open| !open.sender.is_closed() && !open.silence.is_longer_than(patience);
        if let Some(open) = current.open.as_ref().filter(fits) {
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

type Unsent = hyper::client::conn::TrySendError<Request<Upload>>;

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
        Ok(Self { sender, silence: Arc::default() })
    }

    async fn ask(&mut self, request: Request<Upload>) -> Result<Response<Incoming>, Unsent> {
        self.silence.waits();
        let answer = self.sender.try_send_request(request).await;
        self.silence.ends();
        answer
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
