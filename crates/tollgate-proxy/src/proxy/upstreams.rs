//! The upstreams: who is well, who serves the fewest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::time::error::Elapsed;
use tokio::time::timeout_at;

use super::address::address;
use super::dial::{Dial, UpstreamError};
use super::failed::Failed;
use super::http2::Streams;
use super::pool::{AnswerBody, Pool};
use super::upload::Upload;
use crate::counts::UpstreamCounts;
use crate::{ProxySettings, Upstream};

/// How long an upstream that has failed gets no requests, while others are there.
const REST: Duration = Duration::from_secs(2);

/// The least time between two warnings of one upstream, so that a flapping one fills no log.
const WARNED: Duration = Duration::from_secs(10);

/// The longest body of an answer about health that is read, in bytes.
const HEALTH_PAGE: usize = 64 * 1024;

/// All upstreams.
pub(super) struct Upstreams {
    all: Box<[Arc<Server>]>,
    /// Where the next choice begins: equals take turns.
    turn: AtomicUsize,
}

/// One upstream.
pub(super) struct Server {
    pub(super) upstream: Arc<Upstream>,
    client: Sender,
    pub(super) counts: Arc<UpstreamCounts>,
    /// The requests that it serves.
    load: Arc<AtomicUsize>,
    /// Whether it answered the last question after its health.
    is_well: AtomicBool,
    since: Instant,
    /// Until when it rests, in milliseconds.
    rests: AtomicU64,
    /// Until when no failure is logged, in milliseconds.
    warned: AtomicU64,
}

/// Counts a request until it is dropped.
pub(super) struct Load(Arc<AtomicUsize>);

/// Sends requests of one version of HTTP.
enum Sender {
    Http1(Pool),
    Http2(Streams),
}

impl Upstreams {
    /// Those of these settings, for so many workers.
    pub(super) fn new(settings: &ProxySettings, workers: usize) -> Result<Self, UpstreamError> {
        if settings.upstreams.is_empty() {
            return Err(UpstreamError::None);
        }
        let server = |upstream: &Upstream| Server::new(upstream.clone(), settings, workers).map(Arc::new);
        let all: Result<Box<_>, _> = settings.upstreams.iter().map(server).collect();
        Ok(Self { all: all?, turn: AtomicUsize::new(0) })
    }

    pub(super) fn all(&self) -> &[Arc<Server>] {
        &self.all
    }

    /// The upstream that serves the fewest requests, of those that were not tried. One that rests
    /// is chosen only if all others do, and one that is not well never.
    pub(super) fn choose(&self, tried: &[&Arc<Server>]) -> Option<&Arc<Server>> {
        let turn = self.turn.fetch_add(1, Relaxed);
        let in_turn = (0..self.all.len()).map(|at| &self.all[turn.wrapping_add(at) % self.all.len()]);
        let is_new = |server: &Arc<Server>| !tried.iter().any(|tried| Arc::ptr_eq(tried, server));
        let well = in_turn.filter(|server| server.is_well.load(Relaxed) && is_new(server));
        well.min_by_key(|server| (server.rests(), server.load.load(Relaxed)))
    }
}

impl Server {
    fn new(upstream: Upstream, settings: &ProxySettings, workers: usize) -> Result<Self, UpstreamError> {
        let counts = Arc::new(UpstreamCounts::new(upstream.to_string()));
        let upstream = Arc::new(upstream);
        let dial = Dial::new(&upstream, settings)?;
        let client = match upstream.is_http2 {
            true => Sender::Http2(Streams::new(dial, settings, workers, &counts)),
            false => Sender::Http1(Pool::new(dial, settings.keep_timeout, workers, &counts)),
        };
        Ok(Self {
            upstream,
            client,
            counts,
            load: Arc::default(),
            is_well: AtomicBool::new(true),
            since: Instant::now(),
            rests: AtomicU64::new(0),
            warned: AtomicU64::new(0),
        })
    }

    /// Counts a request as one that it serves.
    pub(super) fn load(&self) -> Load {
        self.load.fetch_add(1, Relaxed);
        Load(Arc::clone(&self.load))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn rests(&self) -> bool {
        let until = self.rests.load(Relaxed);
        until > 0 && self.now() < until
    }

    /// Closes the idle connections that are kept no longer.
    pub(super) fn sweep(&self) {
        match &self.client {
            Sender::Http1(pool) => pool.sweep(),
            Sender::Http2(streams) => streams.sweep(),
        }
    }

    /// Sends a request, whose target is a path. Its host is that of the header.
    ///
    /// If the upstream is not reached, the request stays as it was: another one may be tried.
    /// `is_sent` says whether the upstream may have read of it. By a connection of HTTP/2 that left
    /// all requests without an answer for longer than half of `patience` none is sent any more.
    pub(super) async fn send(
        &self,
        request: &mut Option<Request<Upload>>,
        patience: Duration,
        is_sent: &AtomicBool,
    ) -> Result<Response<AnswerBody>, Failed> {
        let sent = match &self.client {
            Sender::Http1(pool) => {
                if let Some(request) = request {
                    let length = request.body().size_hint().exact();
                    address(request, length, &self.upstream);
                }
                pool.send(request, is_sent).await
            }
            // Boxed, as it is rare, and requests to others would have room for it.
            Sender::Http2(streams) => {
                Box::pin(streams.send(request, &self.upstream, patience, is_sent)).await
            }
        };
        if sent.is_ok() && self.rests.load(Relaxed) > 0 {
            self.rests.store(0, Relaxed);
        }
        sent
    }

    /// It has failed: others are chosen before it for a while.
    pub(super) fn rest(&self, failed: &Failed) {
        let (now, warned) = (self.now(), self.warned.load(Relaxed));
        let after = |time: Duration| now.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        self.rests.store(after(REST).max(1), Relaxed);
        // Of threads that fail together, one warns.
        if now >= warned && self.warned.compare_exchange(warned, after(WARNED), Relaxed, Relaxed).is_ok() {
            let (kind, reason) = (failed.failure.kind(), failed.reason());
            tracing::warn!(upstream = %self.upstream, kind, reason, "an upstream fails");
        }
    }

    /// Asks whether the upstream is well, and notes it.
    pub(super) async fn ask_health(&self, path: &PathAndQuery, timeout: Duration) {
        let mut request = Request::new(Upload::default());
        *request.uri_mut() = Uri::from(path.clone());
        let host = HeaderValue::from_str(self.upstream.authority.as_str());
        request.headers_mut().extend(host.ok().map(|host| (HOST, host)));
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("tollgate-health"));
        let ends = tokio::time::Instant::now() + timeout;
        let answer = timeout_at(ends, self.send(&mut Some(request), timeout, &AtomicBool::new(false))).await;
        self.note_health(&answer);
        // An upstream whose page is not taken gets a reset connection, and may log an error.
        if let Ok(Ok(answer)) = answer {
            let _ = timeout_at(ends, read_to_end(answer.into_body(), HEALTH_PAGE)).await;
        }
    }

    /// Notes whether the upstream is well, by its answer or the lack of one in time.
    fn note_health(&self, answer: &Result<Result<Response<AnswerBody>, Failed>, Elapsed>) {
        let is_well = matches!(answer, Ok(Ok(answer)) if answer.status().as_u16() < 400);
        if self.is_well.swap(is_well, Relaxed) == is_well {
            return;
        }
        let upstream = &self.upstream;
        match answer {
            Ok(Ok(_)) if is_well => tracing::info!(%upstream, "an upstream is well again"),
            Ok(Ok(answer)) => {
                tracing::warn!(%upstream, status = answer.status().as_u16(), "an upstream is not well");
            }
            Ok(Err(failed)) => tracing::warn!(%upstream, reason = failed.reason(), "an upstream is not well"),
            Err(_) => tracing::warn!(%upstream, reason = "it took too long", "an upstream is not well"),
        }
    }
}

/// Reads a body to its end, so that its connection may serve another request. A body of more than
/// `most` bytes is dropped.
async fn read_to_end(mut body: AnswerBody, most: usize) {
    let mut left = most;
    while let Some(Ok(frame)) = body.frame().await {
        match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
