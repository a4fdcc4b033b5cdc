//! Takes connections, no more than allowed, until the server ends.

use std::future::pending;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::crowd::{Crowd, OfClient};
use super::presence::Engaged;
use super::seldom::Seldom;
use super::socket::Socket;
use super::tls::Tls;
use super::{Client, Connection, ListenAddress, Peer, Presence, Room, Stream, Unfinished};
use crate::workers::{Lead, SHORT, Worker, Workers};

/// How long an accept that failed for want of file descriptors or memory is not repeated: it would
/// fail again at once.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// How long a connection waits for the end of the one that is closed for it.
const CLOSING: Duration = Duration::from_secs(2);

/// Tells connections that the server ends, and tells the server when they have ended.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    /// Cancelled when listeners take no more connections, and each connection is to end after the
    /// request that it serves.
    pub ends: CancellationToken,
    /// The connections.
    pub connections: TaskTracker,
    /// Cancelled when the connections are not waited for any longer: each is closed at once.
    pub(crate) closes: CancellationToken,
}

impl Drain {
    /// Serves a connection in this runtime until it ends, or is closed.
    pub fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static) {
        self.spawn_until(pending(), connection);
    }

    /// The same, and `gone` closes it, too.
    fn spawn_until(
        &self,
        gone: impl Future<Output = ()> + Send + 'static,
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
        let closes = self.closes.clone().cancelled_owned();
        let mut closed = Seldom::new(async move {
            tokio::select! {
                () = closes => {}
                () = gone => {}
            }
        });
        // Boxed: the task would have room for it twice.
        let mut connection = Box::pin(connection);
        self.connections.spawn(async move {
            tokio::select! {
                biased;
                () = &mut closed => {}
                () = &mut connection => {}
            }
        });
    }

    /// Closes the connections that are left, and waits for their end. No more must be accepted.
    pub async fn close(&self) {
        self.closes.cancel();
        self.connections.close();
        self.connections.wait().await;
    }
}

/// A bound listener.
pub struct Listening {
    socket: Socket,
    address: ListenAddress,
    tls: Option<Arc<Tls>>,
}

/// How many connections a listener takes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The connections at a time.
    pub room: Room,
    /// Those of one client. `None`: any number.
    pub of_client: Option<usize>,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
}

/// What a listener counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// A connection above the limit, while no other is idle.
    TooMany,
    /// A connection above the limit of its client.
    TooManyOfClient,
    /// An idle connection that was closed for a new one.
    ClosedIdle,
    /// A connection that was not accepted, as for want of file descriptors.
    NotAccepted,
    /// A TLS handshake that failed, or took too long.
    Handshake,
}

impl Mishap {
    /// As labels say it.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::TooMany => "too_many_connections",
            Self::TooManyOfClient => "too_many_connections_of_client",
            Self::ClosedIdle => "idle_connection_closed",
            Self::NotAccepted => "accept",
            Self::Handshake => "tls_handshake",
        }
    }
}

impl Listening {
    /// Binds an address. Needs a tokio runtime.
    pub fn bind(address: &ListenAddress, tls: Option<Arc<Tls>>) -> io::Result<Self> {
        let (socket, address) = Socket::bind(address)?;
        Ok(Self { socket, address, tls })
    }

    /// The address, with the port that it has got.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }
}

/// The uses of connections.
pub struct Uses<S, R, C> {
    /// Serves one.
    pub serve: S,
    /// Answers one above the limit.
    pub refuse: R,
    /// Called for everything that went wrong, with the client. Returns whether a line of the log
    /// may say more of it.
    pub count: C,
    /// What they hold of requests that are not whole.
    pub unfinished: Arc<Unfinished>,
    /// Whether a client may have more connections than others: a proxy, which has them for many.
    pub is_trusted: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
}

/// The right of a connection to be served.
enum Place {
    Free(OwnedSemaphorePermit),
    /// Once another has ended, which is closed for it. Until then it is one of those above the
    /// limit.
    Awaited(Turn),
}

/// One of those above the limit, until this is dropped: of the listener's, and of its client's.
type Turn = (OwnedSemaphorePermit, Option<Arc<OfClient>>);

/// A listener that goes from thread to thread.
struct Accepting<S, R, C> {
    listening: Listening,
    bounds: Bounds,
    drain: Drain,
    /// Cancelled when no more connections are taken.
    stops: CancellationToken,
    uses: Uses<S, R, C>,
    crowd: Crowd,
    places: Arc<Semaphore>,
    refusing: Arc<Semaphore>,
}

/// Takes connections and serves each in a task of its own, until the server ends or this is
/// dropped.
///
/// A connection is served where it was accepted: in this runtime if there are no workers, otherwise
/// by the worker that has the listener. That goes to the worker with the fewest connections, so
/// that most connections, above all short ones, need no other thread.
pub async fn accept_all<S, R, C, Served, Refused>(
    listening: Listening,
    bounds: Bounds,
    drain: Drain,
    workers: Arc<Workers>,
    uses: Uses<S, R, C>,
) where
    S: Fn(Connection) -> Served + Clone + Send + 'static,
    R: Fn(Stream) -> Refused + Clone + Send + 'static,
    C: Fn(Mishap, Option<IpAddr>) -> bool + Clone + Send + 'static,
    Served: Future<Output = ()> + Send + 'static,
    Refused: Future<Output = ()> + Send + 'static,
{
    let stops = drain.ends.child_token();
    // The listener may be with a worker.
    let _stops = stops.clone().drop_guard();
    let Room { most, refused } = bounds.room;
    let (places, refusing) = (Arc::new(Semaphore::new(most)), Arc::new(Semaphore::new(refused)));
    let crowd = Crowd::new(bounds.room, bounds.of_client, Arc::clone(&uses.unfinished));
    let stopped = stops.clone();
    let mut accepting = Accepting { listening, bounds, drain, stops, uses, crowd, places, refusing };
    while let Some(worker) = workers.choose() {
        let (runtime, seats) = (worker.runtime.clone(), Some((Arc::clone(&workers), worker.clone())));
        match runtime.spawn(accepting.accept_some(seats)).await {
            Ok(back) => accepting = back,
            // The workers have ended.
            Err(_) => return,
        }
        if stopped.is_cancelled() {
            return;
        }
    }
    accepting.accept_some(None).await;
}

impl<S, R, C, Served, Refused> Accepting<S, R, C>
where
    S: Fn(Connection) -> Served + Clone + Send + 'static,
    R: Fn(Stream) -> Refused + Clone + Send + 'static,
    C: Fn(Mishap, Option<IpAddr>) -> bool + Clone + Send + 'static,
    Served: Future<Output = ()> + Send + 'static,
    Refused: Future<Output = ()> + Send + 'static,
{
    /// Takes connections in this runtime, until there are to be no more, or it is another worker's
    /// turn.
    async fn accept_some(mut self, at: Option<(Arc<Workers>, Worker)>) -> Self {
        let mut waiting = None;
        // Whether another worker has fewer connections.
        let mut is_ahead = false;
        loop {
            let accepted = async {
                let waiting = match &mut waiting {
                    Some(waiting) => waiting,
                    none => none.insert(self.listening.socket.wait()?),
                };
                waiting.accept().await
            };
            let accepted = tokio::select! {
                () = self.stops.cancelled() => return self,
                // Short ones have ended then.
                () = tokio::time::sleep(SHORT), if is_ahead => None,
                accepted = accepted => Some(accepted),
            };
            let is_settled = accepted.is_none();
            match accepted {
                Some(Ok((stream, peer))) => self.take(stream, peer, at.as_ref().map(|(_, worker)| worker)),
                Some(Err(error)) => self.failed(&error).await,
                None => {}
            }
            if let Some((workers, worker)) = &at {
                let lead = workers.lead(worker);
                if lead == Lead::Long || lead == Lead::Short && is_settled {
                    return self;
                }
                is_ahead = lead == Lead::Short;
            }
        }
    }

    /// Serves a connection, or answers that there are too many.
    fn take(&mut self, stream: Stream, peer: Peer, worker: Option<&Worker>) {
        let counted = self.counted(peer);
        let Ok(client) = counted.map_or(Ok(None), |client| self.crowd.of_client(client)) else {
            self.refuse(stream, peer, Mishap::TooManyOfClient, worker);
            return;
        };
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => Place::Free(place),
            Err(_) => match self.close_idle(peer) {
                Some(turn) => Place::Awaited(turn),
                None => {
                    self.refuse(stream, peer, Mishap::TooMany, worker);
                    return;
                }
            },
        };
        let presence = self.crowd.join(&self.drain.ends);
        self.serve(Connection { stream, peer, presence }, place, client, worker);
    }

    /// The client whose connections are counted. `None`: it is trusted.
    fn counted(&self, peer: Peer) -> Option<Client> {
        match peer {
            Peer::Tcp(peer) => {
                let is_trusted = (self.uses.is_trusted)(peer.ip().to_canonical());
                (!is_trusted).then(|| peer.ip().into())
            }
            // The permissions of the socket say who may connect.
            Peer::Unix => None,
        }
    }

    /// A turn for one more above the limit.
    fn turn(&mut self, peer: Peer) -> Option<Turn> {
        let of_client = self.counted(peer).map(|client| self.crowd.turn_of(client)).transpose().ok()?;
        Some((Arc::clone(&self.refusing).try_acquire_owned().ok()?, of_client))
    }

    /// Closes the connection that is idle longest for one of this client. Returns the turn of that,
    /// which waits for it. A client at work makes room for one of a client at a time: a burst of
    /// another one's takes no more.
    fn close_idle(&mut self, peer: Peer) -> Option<Turn> {
        let is_first = self.counted(peer).is_none_or(|client| !self.crowd.has_turn(client));
        let turn = self.turn(peer)?;
        self.crowd.close_idle_longest(is_first)?;
        (self.uses.count)(Mishap::ClosedIdle, Some(peer.address()));
        Some(turn)
    }

    /// Answers that there are too many connections.
    fn refuse(&mut self, stream: Stream, peer: Peer, why: Mishap, worker: Option<&Worker>) {
        (self.uses.count)(why, Some(peer.address()));
        // An answer before the handshake would be no TLS.
        if self.listening.tls.is_none()
            && let Some(turn) = self.turn(peer)
        {
            let (refused, seat) = ((self.uses.refuse)(stream), worker.map(Worker::seat));
            self.drain.spawn(async move {
                refused.await;
                drop((turn, seat));
            });
        }
    }

    /// Serves a connection, at once or when another has ended.
    fn serve(
        &self,
        connection: Connection,
        place: Place,
        client: Option<Arc<OfClient>>,
        worker: Option<&Worker>,
    ) {
        let Uses { serve, refuse, count, .. } = &self.uses;
        let (serve, refuse, count) = (serve.clone(), refuse.clone(), count.clone());
        let (places, tls) = (Arc::clone(&self.places), self.listening.tls.clone());
        let (handshake, seat) = (self.bounds.handshake, worker.map(Worker::seat));
        // One that waits is not closed for another.
        let waits = matches!(place, Place::Awaited(..)).then(|| connection.presence.engage());
        let overstays = Presence::overstays(Arc::clone(&connection.presence));
        self.drain.spawn_until(overstays, async move {
            let Connection { stream, peer, presence } = connection;
            let place = match place {
                Place::Free(place) => place,
                Place::Awaited(turn) => match tokio::time::timeout(CLOSING, places.acquire_owned()).await {
                    Ok(Ok(place)) => {
                        drop(turn);
                        waits.into_iter().for_each(Engaged::end_unanswered);
                        place
                    }
                    _ => {
                        count(Mishap::TooMany, Some(peer.address()));
                        if tls.is_none() {
                            refuse(stream).await;
                        }
                        return;
                    }
                },
            };
            let stream = match tls {
                None => stream,
                Some(tls) => {
                    let shaken = tokio::select! {
                        () = presence.ends().cancelled() => return,
                        shaken = tls.handshake(stream, handshake) => shaken,
                    };
                    match shaken {
                        Ok(stream) => stream,
                        Err(error) => {
                            count(Mishap::Handshake, Some(peer.address()));
                            tracing::debug!(%error, "a TLS handshake failed");
                            return;
                        }
                    }
                }
            };
            serve(Connection { stream, peer, presence }).await;
            drop((place, seat, client));
        });
    }

    /// Tells that a connection was not accepted, and waits if the next would fail, too.
    async fn failed(&mut self, error: &io::Error) {
        if (self.uses.count)(Mishap::NotAccepted, None) {
            let address = &self.listening.address;
            tracing::warn!(%address, %error, "a connection was not accepted");
        }
        if is_want(error) {
            tokio::time::sleep(AFTER_FAILURE).await;
        }
    }
}

/// Whether an accept failed because the process, or the machine, lacks something: not because a
/// client has gone.
fn is_want(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    !matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | WouldBlock)
}
