//! Redis clients: `CL.THROTTLE` as redis-cell answers it, and the commands that clients send
//! besides.
//!
//! | file | what |
//! |------|------|
//! | `parse`, `words` | commands out of bytes, without copying them; lines with quotes |
//! | `reply` | answers, in RESP2 and RESP3 |
//! | `throttle`, `batch` | `CL.THROTTLE` in numbers; calls that came together, decided |
//! | `call`, `commands` | a command, and all other commands: |
//! | `rules` | `TG.CHECK`, `TG.PEEK`: the rules of the file |
//! | `connect`, `info`, `keys` | at connect; of the server; of the keys of `CL.THROTTLE` |
//! | `access` | passwords, and what a client may do |
//! | `client` | one client, and what all share |
//! | `session` | what one client has said, and the answers |
//! | `connection` | the bytes of one connection, in and out |
//! | `probe` | clients without connections, for tests and fuzz targets |

mod access;
mod batch;
mod call;
mod client;
mod commands;
mod connect;
mod connection;
mod info;
mod keys;
mod parse;
mod probe;
mod reply;
mod rules;
mod session;
#[cfg(test)]
mod tests;
mod throttle;
mod words;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tollgate::Timestamp;
use tollgate_net::listen::{Connection, Held, Presence};
use tollgate_net::workers::beside;

use crate::metrics::Listener;
use client::{Next, Slow};
use connection::{Wait, Waited, Wire};
use session::Session;

pub(crate) use client::Shared;
pub use probe::{Answered, Probe};

/// How often a client that always has more to say may do so before the server's end is noticed.
const ROUNDS: u64 = 64;

/// Serves one connection until the client or the server ends it. A command must be complete within
/// `timeout` of its first byte, and a client that must authenticate has so long for it.
pub(crate) async fn serve(shared: Arc<Shared>, connection: Connection, timeout: Duration) {
    let Connection { stream, peer, presence } = connection;
    let session = Session::new(&shared, peer);
    let mut wire = Wire::new(stream, Held::new(&presence, 0));
    match answer_all(&shared, session, &mut wire, &presence, timeout).await {
        Ok(()) => {
            // A client that goes on to send has no more claim to its place than an idle one.
            presence.has_part(false);
            wire.close(presence.ends().is_cancelled()).await;
        }
        Err(error) => tracing::debug!(%error, "a Redis client's connection ended"),
    }
}

/// Answers commands. `Ok`: the connection is to be closed in order.
async fn answer_all(
    shared: &Arc<Shared>,
    mut session: Session,
    wire: &mut Wire,
    presence: &Presence,
    timeout: Duration,
) -> io::Result<()> {
    let ends = presence.ends().cancelled();
    tokio::pin!(ends);
    for round in 1_u64.. {
        // A client that always has more to say.
        if round % ROUNDS == 0 && presence.ends().is_cancelled() {
            break;
        }
        let (input, output) = wire.buffers();
        let since = shared.core.now();
        let progress = session.answer(shared, input, output);
        // Neither part of a command nor a slow command has an answer yet.
        if progress.used > 0 && !matches!(progress.next, Next::Slow(_)) {
            took(shared, since);
        }
        wire.authenticated(session.is_known(), timeout);
        wire.answered(progress.used, progress.next == Next::Read, timeout);
        let waited = match progress.next {
            Next::Read => {
                match wire.is_between_commands() {
                    true if progress.used > 0 && session.is_known() => presence.rest(),
                    // It has said nothing yet, or not who it is.
                    true => presence.has_part(false),
                    false => {}
                }
                let waited = tokio::select! {
                    biased;
                    waited = wire.wait(Wait::Input) => waited?,
                    () = &mut ends => Waited::End,
                };
                presence.has_part(true);
                waited
            }
            Next::Turn => {
                let waited = wire.wait(Wait::Room).await?;
                tokio::task::yield_now().await;
                waited
            }
            Next::Slow(slow) => {
                let answer = do_slowly(shared, slow).await?;
                session.answer_slow(answer, wire.buffers().1);
                took(shared, since);
                Waited::Done
            }
            Next::Close => Waited::End,
        };
        match waited {
            Waited::Done => {}
            Waited::End => break,
            Waited::NoRoom => {
                shared.core.metrics.counts(Listener::Resp).protocol_error("unfinished", session.address());
                session.refuse("ERR too much of unfinished commands is held", wire.buffers().1);
                break;
            }
            Waited::TooSlow(kind) => return Err(too_slow(shared, &session, kind)),
        }
    }
    match wire.wait(Wait::Sent).await? {
        Waited::TooSlow(kind) => Err(too_slow(shared, &session, kind)),
        Waited::Done | Waited::End | Waited::NoRoom => Ok(()),
    }
}

/// Counts how long the commands took that were answered together: one sample for all.
fn took(shared: &Shared, since: Timestamp) {
    shared.core.metrics.counts(Listener::Resp).took(shared.core.now().saturating_since(since));
}

fn too_slow(shared: &Shared, session: &Session, kind: &'static str) -> io::Error {
    shared.core.metrics.counts(Listener::Resp).protocol_error(kind, session.address());
    io::ErrorKind::TimedOut.into()
}

/// Does what takes long, one at a time, on a thread that serves no clients.
async fn do_slowly(shared: &Arc<Shared>, slow: Slow) -> io::Result<Option<i64>> {
    static ONE_AT_A_TIME: Semaphore = Semaphore::const_new(1);
    let _turn = ONE_AT_A_TIME.acquire().await.map_err(io::Error::other)?;
    let shared = Arc::clone(shared);
    let work = move || match slow {
        Slow::CountKeys => Ok(Some(shared.core.calls.load().usage().live_keys as i64)),
        Slow::ForgetKeys => shared.core.calls.clear().map(|()| None).map_err(io::Error::other),
    };
    beside(work).await?
}
