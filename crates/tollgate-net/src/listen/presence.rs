//! Whether a connection is idle, and since when.
//!
//! A full listener closes the connection that is idle longest for a new one. A connection that was
//! answered counts as idle only 250 ms later: between two requests of a client that is at work,
//! more connections may come than the listener has places.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::unfinished::{OfConnection, Unfinished};

/// How long a connection has to end in order once it is closed for another.
const GRACE: Duration = Duration::from_millis(10);

/// After which time a connection that was answered counts as idle. Meanwhile, clients that
/// say nothing are closed before it, and it is not closed for a burst of one client.
pub(super) const AT_WORK: Duration = Duration::from_millis(250);

/// What a connection does, as far as its listener asks.
pub struct Presence {
    /// When its listener began.
    began: Instant,
    /// From when on this one is idle, in milliseconds after that.
    since: AtomicU64,
    /// Those that are being answered.
    requests: AtomicU32,
    /// Whether a part of a request has come.
    has_part: AtomicBool,
    /// Cancelled when the connection is to end after the requests that are being answered.
    ends: CancellationToken,
    /// Whether it is to end for another.
    is_closing: AtomicBool,
    /// What it holds of requests that are not whole.
    unfinished: OfConnection,
}

/// A connection that is not idle until this is dropped.
pub struct Engaged(Arc<Presence>);

impl Presence {
    /// A new connection, which is idle, of a listener that began then. It ends with these, and
    /// shares the bytes of unfinished requests with all of its listener.
    pub(crate) fn new(ends: &CancellationToken, began: Instant, unfinished: &Arc<Unfinished>) -> Arc<Self> {
        let (requests, has_part, is_closing) = Default::default();
        let (since, ends) = (AtomicU64::new(milliseconds(began.elapsed())), ends.child_token());
        let unfinished = OfConnection::new(unfinished);
        Arc::new(Self { began, since, requests, has_part, ends, is_closing, unfinished })
    }

    /// That of a connection without a listener, for tests.
    #[must_use]
    pub fn alone() -> Arc<Self> {
        let unfinished = Arc::<Unfinished>::default();
        unfinished.bound(usize::MAX);
        Self::new(&CancellationToken::new(), Instant::now(), &unfinished)
    }

    /// Cancelled when the connection is to end, with the server or for another connection.
    pub fn ends(&self) -> &CancellationToken {
        &self.ends
    }

    pub(super) fn unfinished(&self) -> &OfConnection {
        &self.unfinished
    }

    /// A request is being answered until the value is dropped.
    #[must_use]
    pub fn engage(self: &Arc<Self>) -> Engaged {
        self.enter();
        Engaged(Arc::clone(self))
    }

    /// One more request is being answered.
    pub(crate) fn enter(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    /// One of them was answered.
    pub(crate) fn leave(&self) {
        self.was_answered();
        // After it: who sees no request sees since when.
        self.requests.fetch_sub(1, Release);
    }

    pub(crate) fn is_engaged(&self) -> bool {
        self.requests.load(Relaxed) > 0
    }

    /// A part of a request has come, or all of it has been read.
    pub fn has_part(&self, has: bool) {
        self.has_part.store(has, Relaxed);
    }

    /// The only request was answered, of a connection that answers one after the other.
    pub fn rest(&self) {
        self.was_answered();
        self.has_part.store(false, Release);
    }

    fn was_answered(&self) {
        self.since.store(milliseconds(self.began.elapsed() + AT_WORK), Relaxed);
    }

    /// From when on it is idle, in milliseconds after the listener began: that may be to come.
    /// `None`: it does something.
    pub(crate) fn idle_since(&self) -> Option<u64> {
        let is_idle = self.requests.load(Acquire) == 0 && !self.has_part.load(Acquire);
        is_idle.then(|| self.since.load(Relaxed))
    }

    /// Whether it was answered just now, and counts as idle later.
    pub(super) fn is_at_work(&self) -> bool {
        self.since.load(Relaxed) > milliseconds(self.began.elapsed())
    }

    /// Ends the connection for another, unless it does something again.
    pub(super) fn close(&self) {
        self.is_closing.store(true, Relaxed);
        self.ends.cancel();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Relaxed)
    }

    /// Waits until the connection was closed for another, and does not end by itself.
    pub(super) async fn overstays(self: Arc<Self>) {
        self.ends.cancelled().await;
        if !self.is_closing() {
            // The server ends, and waits for it.
            pending::<()>().await;
        }
        loop {
            tokio::time::sleep(GRACE).await;
            if self.idle_since().is_some() {
                return;
            }
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Engaged {
    /// Ends it as one that was no request: the connection is idle at once.
    pub(super) fn end_unanswered(self) {
        let presence = Arc::clone(&self.0);
        drop(self);
        presence.since.store(milliseconds(presence.began.elapsed()), Relaxed);
    }

    /// The connection that is engaged.
    pub fn presence(&self) -> &Arc<Presence> {
        &self.0
    }
}

impl Drop for Engaged {
    fn drop(&mut self) {
        self.0.leave();
    }
}
