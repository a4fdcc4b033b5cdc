//! Connections to an upstream of HTTP/1.
//!
//! A connection has no task of its own: that of the request which it serves drives it. So a request
//! is written, and its answer read, where it is decided, without a change of tasks.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};

use super::dial::Dial;
use super::upload::Upload;
use super::upstreams::Failure;
use crate::workers::PerWorker;

/// How long an idle connection is kept. Servers usually keep one for 5 s or longer.
const KEPT: Duration = Duration::from_secs(4);

/// The connections to an upstream. Those of a worker serve it alone: an answer is read by the
/// runtime that made the connection, which would have to wake another worker.
pub(super) struct Pool {
    dial: Dial,
    idle: PerWorker<Arc<Idle>>,
}

/// Those that serve no request, the one that was used last at the end.
#[derive(Default)]
struct Idle(Mutex<Vec<(Instant, Box<Link>)>>);

/// A connection.
struct Link {
    sender: SendRequest<Upload>,
    /// `None` once it has ended.
    driver: Option<Pin<Box<Driver>>>,
}

type Driver = dyn Future<Output = hyper::Result<()>> + Send;

/// A connection that serves a request. It becomes idle when the answer has ended, and is closed if
/// this is dropped before.
pub(super) struct Serving {
    /// `None` only while it is dropped.
    link: Option<Box<Link>>,
    idle: Arc<Idle>,
}

impl Pool {
    pub(super) fn new(dial: Dial, workers: usize) -> Self {
        Self { dial, idle: PerWorker::new(workers) }
    }

    /// Closes connections that were idle for too long, and those that the upstream has closed.
    pub(super) fn sweep(&self) {
        for idle in self.idle.all() {
            idle.lock().retain_mut(|(since, link)| since.elapsed() < KEPT && link.is_open());
        }
    }

    /// Sends a request by an idle connection, or by a new one. If there is none, the request stays.
    pub(super) async fn send(
        &self,
        request: &mut Option<Request<Upload>>,
    ) -> Result<(Response<Incoming>, Serving), Failure> {
        let idle = self.idle.here();
        loop {
            let (mut link, is_new) = match idle.take() {
                Some(link) => (link, false),
                // Boxed, as it is rare, and requests by idle ones would have room for it.
                None => (Box::pin(Link::connect(self.dial.clone())).await?, true),
            };
            let sent = request.take().ok_or(Failure::Broken)?;
            let answered = {
                let mut answer = pin!(link.sender.try_send_request(sent));
                poll_fn(|context| {
                    link.drive(context);
                    answer.as_mut().poll(context)
                })
                .await
            };
            match answered {
                Ok(response) => {
                    return Ok((response, Serving { link: Some(link), idle: Arc::clone(idle) }));
                }
                // One that was idle was closed at the same time, and nothing was written to it.
                Err(mut error) => match error.take_message().filter(|_| !is_new) {
                    Some(unsent) => *request = Some(unsent),
                    None => return Err(Failure::Broken),
                },
            }
        }
    }
}

impl Link {
    async fn connect(dial: Dial) -> Result<Box<Self>, Failure> {
        let stream = dial.connect().await.map_err(|error| Failure::of_dial(&error))?;
        let (sender, driver) = handshake(stream).await.map_err(|_| Failure::Broken)?;
        Ok(Box::new(Self { sender, driver: Some(Box::pin(driver.with_upgrades())) }))
    }

    /// Reads and writes what there is.
    fn drive(&mut self, context: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && let Poll::Ready(ended) = driver.as_mut().poll(context)
        {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection to an upstream ended");
            }
            self.driver = None;
        }
    }

    /// Whether it is idle, and not closed by the upstream.
    fn is_open(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready()
    }

    /// Whether it may serve another request: it has ended the last one.
    fn is_ready(&mut self) -> bool {
        self.sender.is_ready() || self.is_open()
    }
}

impl Idle {
    fn lock(&self) -> MutexGuard<'_, Vec<(Instant, Box<Link>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that was used last: others may be closed for want of use. It may have been
    /// closed, too, which shows before anything is written to it.
    fn take(&self) -> Option<Box<Link>> {
        let (since, link) = self.lock().pop()?;
        // All others are idle for longer.
        (since.elapsed() < KEPT).then_some(link)
    }
}

impl Serving {
    /// Reads a part of the answer's body, and writes the rest of the request's body.
    pub(super) fn poll_body(
        &mut self,
        body: &mut Incoming,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let polled = Pin::new(&mut *body).poll_frame(context);
        if polled.is_ready() {
            return polled;
        }
        if let Some(link) = &mut self.link {
            link.drive(context);
        }
        Pin::new(body).poll_frame(context)
    }

    /// Drives the connection in a task of its own, for one request more.
    pub(super) fn detach(mut self) {
        if let Some(driver) = self.link.take().and_then(|link| link.driver) {
            tokio::spawn(driver);
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(mut link) = self.link.take()
            && link.is_ready()
        {
            self.idle.lock().push((Instant::now(), link));
        }
    }
}
