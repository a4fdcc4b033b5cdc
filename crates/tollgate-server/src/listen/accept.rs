//! Takes connections, no more than allowed, until the server ends.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::seldom::Seldom;
use super::socket::Socket;
use super::tls::Tls;
use super::workers::{Worker, Workers};
use super::{Connection, ListenAddress};

/// How long an accept that failed for want of file descriptors or memory is not repeated: it would
/// fail again at once.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// The shortest time between two log lines on failures.
const BETWEEN_LINES: Duration = Duration::from_secs(1);

/// The connections above the limit that are answered at a time. More are closed without an answer.
const REFUSING: usize = 256;

/// Tells connections that the server ends, and tells the server when they have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drain {
    /// Cancelled when listeners take no more connections, and each connection is to end after the
    /// request that it serves.
    pub(crate) ends: CancellationToken,
    /// The connections.
    pub(crate) connections: TaskTracker,
    /// Cancelled when the connections are not waited for any longer: each is closed at once.
    pub(crate) closes: CancellationToken,
}

impl Drain {
    /// Serves a connection in this runtime until it ends, or is closed.
    pub(crate) fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static) {
        self.spawn_on(&Handle::current(), connection);
    }

    /// Serves a connection in a runtime until it ends, or is closed.
    fn spawn_on(&self, runtime: &Handle, connection: impl Future<Output = ()> + Send + 'static) {
        let mut closed = Seldom::new(self.closes.clone().cancelled_owned());
        // Boxed: the task would have room for it twice.
        let mut connection = Box::pin(connection);
        let served = async move {
            tokio::select! {
                biased;
                () = &mut closed => {}
                () = &mut connection => {}
            }
        };
        self.connections.spawn_on(served, runtime);
    }

    /// Closes the connections that are left, and waits for their end. No more must be accepted.
    pub(crate) async fn close(&self) {
        self.closes.cancel();
        self.connections.close();
        self.connections.wait().await;
    }
}

/// A bound listener.
pub(crate) struct Listening {
    socket: Socket,
    address: ListenAddress,
    tls: Option<Arc<Tls>>,
}

/// How many connections a listener takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The connections at a time.
    pub(crate) most: usize,
    /// How long a TLS handshake may take.
    pub(crate) handshake: Duration,
}

/// What a listener counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// A connection above the limit.
    TooMany,
    /// A connection that was not accepted, as for want of file descriptors.
    NotAccepted,
    /// A TLS handshake that failed, or took too long.
    Handshake,
}

impl Mishap {
    /// As labels say it.
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::TooMany => "too_many_connections",
            Self::NotAccepted => "accept",
            Self::Handshake => "tls_handshake",
        }
    }
}

impl Listening {
    /// Binds an address. Needs a tokio runtime.
    pub(crate) fn bind(address: &ListenAddress, tls: Option<Arc<Tls>>) -> io::Result<Self> {
        let (socket, address) = Socket::bind(address)?;
        Ok(Self { socket, address, tls })
    }

    /// The address, with the port that it has got.
    pub(crate) fn address(&self) -> &ListenAddress {
        &self.address
    }
}

/// Takes connections and serves each in a task of its own, until the server ends: on one of the
/// workers, or in this runtime if there are none. `refuse` answers those above the limit. `count`
/// is called for everything that went wrong.
pub(crate) async fn accept_all<S, R>(
    listening: Listening,
    bounds: Bounds,
    drain: Drain,
    workers: Arc<Workers>,
    serve: impl Fn(Connection) -> S + Clone + Send + 'static,
    refuse: impl Fn(Connection) -> R,
    count: impl Fn(Mishap) + Clone + Send + 'static,
) where
    S: Future<Output = ()> + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let (places, refusing) = (Arc::new(Semaphore::new(bounds.most)), Arc::new(Semaphore::new(REFUSING)));
    let (mut failures, mut crowds) = (Lines::default(), Lines::default());
    let here = Handle::current();
    loop {
        let accepted = tokio::select! {
            () = drain.ends.cancelled() => return,
            accepted = listening.socket.accept() => accepted,
        };
        let worker = workers.choose();
        let runtime = worker.map_or(&here, |worker| &worker.runtime);
        let connection = match accepted.and_then(|connection| connection.move_to(runtime)) {
            Ok(connection) => connection,
            Err(error) => {
                count(Mishap::NotAccepted);
                if let Some(unsaid) = failures.next() {
                    let address = &listening.address;
                    tracing::warn!(%address, %error, unsaid, "a connection was not accepted");
                }
                if is_want(&error) {
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            count(Mishap::TooMany);
            if let Some(unsaid) = crowds.next() {
                let (address, most) = (&listening.address, bounds.most);
                tracing::warn!(%address, most, unsaid, "connections above the limit are refused");
            }
            // An answer before the handshake would be no TLS.
            if let (None, Ok(turn)) = (&listening.tls, Arc::clone(&refusing).try_acquire_owned()) {
                let refused = refuse(connection);
                drain.spawn_on(runtime, async move {
                    refused.await;
                    drop(turn);
                });
            }
            continue;
        };
        let (tls, serve, count) = (listening.tls.clone(), serve.clone(), count.clone());
        let (ends, seat) = (drain.ends.clone(), worker.map(Worker::seat));
        drain.spawn_on(runtime, async move {
            let connection = match tls {
                None => connection,
                Some(tls) => {
                    let shaken = tokio::select! {
                        () = ends.cancelled() => return,
                        shaken = tls.handshake(connection, bounds.handshake) => shaken,
                    };
                    match shaken {
                        Ok(connection) => connection,
                        Err(error) => {
                            count(Mishap::Handshake);
                            tracing::debug!(%error, "a TLS handshake failed");
                            return;
                        }
                    }
                }
            };
            serve(connection).await;
            drop((place, seat));
        });
    }
}

/// Whether an accept failed because the process, or the machine, lacks something: not because a
/// client has gone.
fn is_want(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    !matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | WouldBlock)
}

/// Log lines of one kind, at most one a second.
#[derive(Default)]
struct Lines {
    last: Option<Instant>,
    unsaid: u64,
}

impl Lines {
    /// Whether a line is due: with how many that were not said since the last.
    fn next(&mut self) -> Option<u64> {
        let now = Instant::now();
        if self.last.is_some_and(|last| now - last < BETWEEN_LINES) {
            self.unsaid += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_logged_once_a_second_at_most() {
        let mut lines = Lines::default();
        assert_eq!(lines.next(), Some(0));
        assert!((0..100).all(|_| lines.next().is_none()));
        lines.last = lines.last.and_then(|last| last.checked_sub(BETWEEN_LINES));
        assert_eq!(lines.next(), Some(100));
    }
}
