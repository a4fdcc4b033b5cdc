//! Takes connections, no more than allowed, until the server ends.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::socket::Socket;
use super::{Connection, ListenAddress};

/// How long an accept that failed is not repeated: for want of file descriptors it would fail
/// again at once.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// Tells connections that the server ends, and tells the server when they have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drain {
    /// Cancelled when listeners take no more connections, and each connection is to end after the
    /// request that it serves.
    pub(crate) ends: CancellationToken,
    /// The connections.
    pub(crate) connections: TaskTracker,
}

/// A bound listener.
pub(crate) struct Listening {
    socket: Socket,
    address: ListenAddress,
}

impl Listening {
    /// Binds an address. Needs a tokio runtime.
    pub(crate) fn bind(address: &ListenAddress) -> io::Result<Self> {
        let (socket, address) = Socket::bind(address)?;
        Ok(Self { socket, address })
    }

    /// The address, with the port that it has got.
    pub(crate) fn address(&self) -> &ListenAddress {
        &self.address
    }
}

/// Takes connections and serves each in a task of its own, until the server ends. `refuse` answers
/// those above `most`.
pub(crate) async fn accept_all<S, R>(
    listening: Listening,
    most: usize,
    drain: Drain,
    serve: impl Fn(Connection) -> S,
    refuse: impl Fn(Connection) -> R,
) where
    S: Future<Output = ()> + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(most));
    loop {
        let accepted = tokio::select! {
            () = drain.ends.cancelled() => return,
            accepted = listening.socket.accept() => accepted,
        };
        let connection = match accepted {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(address = %listening.address, %error, "a connection was not accepted");
                tokio::time::sleep(AFTER_FAILURE).await;
                continue;
            }
        };
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => {
                let served = serve(connection);
                drain.connections.spawn(async move {
                    served.await;
                    drop(place);
                });
            }
            Err(_) => drop(drain.connections.spawn(refuse(connection))),
        }
    }
}
