//! The connections to an upstream of HTTP/2, of which all requests are streams.
//!
//! Each worker has its own. A request goes by the first of them that has room for a stream. If none
//! has, another connection is made, up to a bound; beyond that, the request waits until a stream
//! has ended.
//!
//! Clients that do not read their answers share the connections with others. So the window of a
//! connection is as large as those of all its streams together; and since the upstream may bound
//! what it keeps of a connection, one that has refused a stream is used after others for a while.
//! Clients that leave share them, too: their streams are reset, and an upstream ends a connection
//! of which many are. So one that has had some takes no more requests, as long as another can be
//! made.
//!
//! | file | what |
//! |------|------|
//! | `connection` | one connection: how many streams it has, and may have |
//! | `heard` | tells when the bytes that have arrived are understood |

mod connection;
mod heard;

use std::mem::take;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::{Request, Response};
use hyper::body::Body;
use tokio::sync::Notify;
use tokio::time::timeout;

pub(super) use self::connection::StreamBody;
use self::connection::{Connection, Fate, Stream, Unanswered};
use super::address::address;
use super::dial::Dial;
use super::failed::{Failed, Failure};
use super::pool::AnswerBody;
use super::repeat::Spare;
use super::upload::Upload;
use crate::counts::{UpstreamCounts, UpstreamEvent};
use crate::{ProxySettings, Upstream};
use tollgate_net::workers::PerWorker;

/// How many times a request is sent that no upstream has acted on.
const TRIES: usize = 3;

pub(super) struct Streams {
    dial: Dial,
    bounds: Bounds,
    workers: PerWorker<Worker>,
    counts: Arc<UpstreamCounts>,
}

/// What the requests of a worker share.
struct Bounds {
    connections: usize,
    /// How long a request waits for a stream.
    wait: Duration,
    /// How long a connection without streams is kept beside another one.
    keep: Duration,
}

/// The connections of a worker.
#[derive(Default)]
struct Worker {
    open: Mutex<Vec<Arc<Connection>>>,
    /// Held while a connection is made: others wait for it, and make none of their own. When one
    /// last could not be made, and why.
    dialling: tokio::sync::Mutex<Option<(Instant, Failed)>>,
    /// Tells that a stream has ended.
    freed: Arc<Notify>,
}

/// What a request finds.
enum Found {
    Stream(Stream),
    /// No connection has room, or only one that has refused a stream; another one may be made.
    Connect,
    /// Nothing.
    Full,
}

impl Streams {
    pub(super) fn new(
        dial: Dial,
        settings: &ProxySettings,
        workers: usize,
        counts: &Arc<UpstreamCounts>,
    ) -> Self {
        let bounds = Bounds {
            connections: settings.upstream_connections.get(),
            wait: settings.connect_timeout,
            keep: settings.keep_timeout,
        };
        Self { dial, bounds, workers: PerWorker::new(workers), counts: Arc::clone(counts) }
    }

    /// Sends a request, and says when the upstream may have read of it. If the upstream is not
    /// reached, or takes no more requests, the request stays as it was. A connection that was
    /// silent for longer than half of `patience` is used no more; requests that are under way keep
    /// it.
    ///
    /// What the upstream has not acted on is sent again, if its body is at hand; and so is, once, a
    /// request that may be repeated, and whose connection has served others before it ended.
    pub(super) async fn send(
        &self,
        request: &mut Option<Request<Upload>>,
        upstream: &Upstream,
        patience: Duration,
        is_sent: &AtomicBool,
    ) -> Result<Response<AnswerBody>, Failed> {
        let (mut unserved, mut is_repeated) = (Failure::Connect, false);
        for _ in 0..TRIES {
            let stream = match self.stream(patience).await {
                Ok(stream) => Arc::new(stream),
                Err(failed) if is_repeated => return Err(failed.once_sent()),
                Err(failed) => return Err(failed),
            };
            let mut sent = request.take().ok_or(Failure::Broken)?;
            let spare = Spare::of(&sent);
            let length = sent.body().size_hint().exact();
            address(&mut sent, length, upstream);
            let may_have_closed = stream.was_kept() && !is_repeated;
            is_sent.store(true, Relaxed);
            let Unanswered { fate, failed } = match stream.ask(sent).await {
                Ok(response) => return Ok(response.map(Into::into)),
                Err(unanswered) => unanswered,
            };
            *request = match fate {
                Fate::Unsent => Some(spare.unsent()),
                Fate::Unserved => spare.whole(),
                Fate::Unanswered if may_have_closed => spare.repeated(),
                Fate::Unanswered | Fate::Broken => None,
            };
            match fate {
                Fate::Unserved => {
                    self.counts.count(UpstreamEvent::Refused);
                    unserved = Failure::Busy;
                }
                Fate::Unanswered if request.is_some() => {
                    self.counts.count(UpstreamEvent::Repeated);
                    is_repeated = true;
                }
                _ => {}
            }
            let may_have_acted = is_repeated || matches!(fate, Fate::Unanswered | Fate::Broken);
            is_sent.store(may_have_acted, Relaxed);
            if request.is_none() {
                return Err(if may_have_acted { failed.once_sent() } else { unserved.into() });
            }
        }
        let failed = Failed::from(unserved);
        Err(if is_repeated { failed.once_sent() } else { failed })
    }

    /// A stream of this worker's connections.
    async fn stream(&self, patience: Duration) -> Result<Stream, Failed> {
        let (began, worker) = (Instant::now(), self.workers.here());
        let mut has_waited = false;
        loop {
            // First: a stream that ends after the look below wakes this request.
            let mut freed = pin!(worker.freed.notified());
            freed.as_mut().enable();
            match worker.find(&self.bounds, patience) {
                Found::Stream(stream) => return Ok(stream),
                Found::Full => {}
                Found::Connect => match self.connect(worker, began, patience).await {
                    Ok(Some(stream)) => return Ok(stream),
                    Ok(None) => continue,
                    Err(failed) => match worker.find_any(patience) {
                        Some(stream) => return Ok(stream),
                        None if worker.lock().is_empty() => return Err(failed),
                        None => {}
                    },
                },
            }
            if !has_waited {
                has_waited = true;
                self.counts.count(UpstreamEvent::Waited);
            }
            let left = self.bounds.wait.saturating_sub(began.elapsed());
            if timeout(left, freed).await.is_err() {
                self.counts.count(UpstreamEvent::Busy);
                return Err(Failure::Busy.into());
            }
        }
    }

    /// Makes a connection, and takes a stream of it. `None`: another request has made one
    /// meanwhile.
    async fn connect(
        &self,
        worker: &Worker,
        began: Instant,
        patience: Duration,
    ) -> Result<Option<Stream>, Failed> {
        let mut last_failed = worker.dialling.lock().await;
        if !worker.may_connect(&self.bounds, patience) {
            return Ok(None);
        }
        // One that failed meanwhile was made for this request too.
        if let Some((_, failed)) = last_failed.as_ref().filter(|(at, _)| *at >= began) {
            return Err(failed.clone());
        }
        match Connection::open(&self.dial, &self.counts).await {
            Ok(connection) => {
                let stream = connection.stream(&worker.freed);
                worker.lock().push(connection);
                // It has room for others than this request.
                worker.freed.notify_waiters();
                Ok(Some(stream))
            }
            Err(failed) => {
                *last_failed = Some((Instant::now(), failed.clone()));
                Err(failed)
            }
        }
    }

    /// Closes the connections beyond the first that serve nothing for a while.
    pub(super) fn sweep(&self) {
        for worker in self.workers.all() {
            let mut is_first = true;
            worker.lock().retain(|one| {
                // The first is looked at, too: another one may become the first.
                let is_idle = one.is_idle_for(self.bounds.keep);
                one.is_usable(Duration::MAX) && (take(&mut is_first) || !is_idle)
            });
        }
    }
}

impl Worker {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream of a connection, or what to do for one.
    fn find(&self, bounds: &Bounds, patience: Duration) -> Found {
        let mut open = self.lock();
        open.retain(|one| one.is_usable(patience));
        if let Some(good) = open.iter().find(|one| is_good(one)) {
            return Found::Stream(good.stream(&self.freed));
        }
        if open.len() < bounds.connections {
            return Found::Connect;
        }
        let with_room = open.iter().filter(|one| one.has_room()).min_by_key(|one| one.is_worn());
        with_room.map_or(Found::Full, |one| Found::Stream(one.stream(&self.freed)))
    }

    /// A stream of any connection.
    fn find_any(&self, patience: Duration) -> Option<Stream> {
        let open = self.lock();
        let any = open.iter().filter(|one| one.is_usable(patience) && one.has_room());
        any.min_by_key(|one| one.is_worn()).map(|one| one.stream(&self.freed))
    }

    /// Whether no connection has room that should be used, and another one may be made.
    fn may_connect(&self, bounds: &Bounds, patience: Duration) -> bool {
        let mut open = self.lock();
        open.retain(|one| one.is_usable(patience));
        open.len() < bounds.connections && !open.iter().any(is_good)
    }
}

/// Whether a connection has room, and is neither one that refuses streams, as an upstream may bound
/// what it keeps of a connection, nor one that it may soon end.
fn is_good(connection: &Arc<Connection>) -> bool {
    connection.has_room() && !connection.has_refused() && !connection.is_worn()
}
