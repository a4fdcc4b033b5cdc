//! How long a connection may be without a request.
//!
//! hyper has one time for both the waiting for a head and its arrival. Here a head has a time of
//! its own, from its first byte on: a client that sends it slowly is not kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use http::Version;

use crate::Limits;
use crate::listen::Presence;

/// How long a connection from which nothing has come is waited for when the server ends.
const FIRST_BYTES: Duration = Duration::from_secs(2);

/// A request was answered after the last look. The next one notes the time: so no request reads a
/// clock for it.
const UNSEEN: u64 = u64::MAX;

/// What a connection does.
pub(super) struct Activity {
    since: Instant,
    /// When the head that is arriving began, in milliseconds, plus one; 0: none is.
    head: AtomicU64,
    /// When the last request was answered, as far as a look has seen that: [`UNSEEN`] until then.
    answered: AtomicU64,
    /// Which requests are being answered, and whether a part of one has come.
    presence: Arc<Presence>,
    /// Whether its first bytes have told whether it is HTTP/1 or HTTP/2.
    has_begun: AtomicBool,
    /// Whether the server ends, and with it the connection.
    is_ending: AtomicBool,
    /// Whether there was a look at the connection since its last flush.
    was_looked_at: AtomicBool,
    /// Whether an answer of status 101 has handed the connection over.
    is_handed_over: AtomicBool,
}

/// A request that is being answered, or whose body is being read.
pub struct Busy(Arc<Activity>);

impl Activity {
    /// A connection that was just made: a head is awaited.
    pub(super) fn new(presence: Arc<Presence>) -> Arc<Self> {
        Arc::new(Self {
            since: Instant::now(),
            head: AtomicU64::new(1),
            answered: AtomicU64::new(0),
            presence,
            has_begun: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            was_looked_at: AtomicBool::new(false),
            is_handed_over: AtomicBool::new(false),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX - 1)
    }

    /// A request has arrived. Its head is the one that was awaited, but on HTTP/2, where the next
    /// may have begun already: there [`Heads`](super::heads::Heads) tells.
    pub(super) fn begin(self: &Arc<Self>, version: Version) -> Busy {
        // First: between a head and its answer the connection is not idle.
        self.presence.enter();
        if version < Version::HTTP_2 {
            self.head_ends();
        }
        Busy(Arc::clone(self))
    }

    /// The first bytes of the connection have arrived.
    pub(super) fn connection_begins(&self) {
        self.has_begun.store(true, Relaxed);
        self.presence.has_part(true);
    }

    /// The connection ends after the request that it serves.
    pub(super) fn end(&self) {
        self.is_ending.store(true, Relaxed);
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Relaxed)
    }

    pub(super) fn hand_over(&self) {
        self.is_handed_over.store(true, Relaxed);
    }

    pub(super) fn is_handed_over(&self) -> bool {
        self.is_handed_over.load(Relaxed)
    }

    /// The connection is looked at.
    pub(super) fn look(&self) {
        self.was_looked_at.store(true, Relaxed);
    }

    /// Whether there was a look since this was asked last.
    pub(super) fn was_looked_at(&self) -> bool {
        // Most flushes only read it.
        self.was_looked_at.load(Relaxed) && self.was_looked_at.swap(false, Relaxed)
    }

    /// Waits for the first bytes of a connection that has just been made: its client may have sent
    /// a request, and would lose it with the connection.
    pub(super) async fn wait_for_first_bytes(&self) {
        let begun = tokio::time::Instant::now();
        while !self.has_begun.load(Relaxed) && begun.elapsed() < FIRST_BYTES {
            tokio::time::sleep(FIRST_BYTES / 100).await;
        }
    }

    /// The first bytes of a head have arrived.
    pub(super) fn head_begins(&self) {
        self.presence.has_part(true);
        self.head.store(self.now() + 1, Relaxed);
    }

    /// No head is on its way.
    pub(super) fn head_ends(&self) {
        self.head.store(0, Relaxed);
        self.presence.has_part(false);
    }

    /// Bytes of HTTP/1 have arrived: of a head, unless a request is being answered.
    pub(super) fn http1_arrived(&self) {
        if !self.presence.is_engaged() && self.head.load(Relaxed) == 0 {
            self.head_begins();
        }
    }

    /// Looks whether a head arrives too slowly, or no request has come for too long.
    pub(super) fn is_overdue(&self, limits: &Limits) -> bool {
        // Another thread may note a later time than this one has read.
        let is_past =
            |since: u64, time: Duration| u128::from(self.now().saturating_sub(since)) >= time.as_millis();
        let head = self.head.load(Relaxed);
        let is_slow = head > 0 && is_past(head - 1, limits.read_timeout);
        let answered = match self.answered.load(Relaxed) {
            UNSEEN => {
                let now = self.now();
                self.answered.store(now, Relaxed);
                now
            }
            at => at,
        };
        let is_idle = !self.presence.is_engaged() && is_past(answered, limits.idle_timeout);
        is_slow || is_idle
    }
}

impl Busy {
    pub(super) fn presence(&self) -> &Arc<Presence> {
        &self.0.presence
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.answered.store(UNSEEN, Relaxed);
        self.0.presence.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_answered_just_now_is_not_overdue() {
        let (activity, limits) = (Activity::new(Presence::alone()), Limits::default());
        activity.head.store(0, Relaxed);
        activity.answered.store(60_000, Relaxed);
        // Time passes between any two readings of the clock.
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(100) {
            assert!(!activity.is_overdue(&limits));
        }
    }

    #[test]
    fn a_connection_is_idle_only_between_requests() {
        let presence = Presence::alone();
        let activity = Activity::new(Arc::clone(&presence));
        let is_idle = || presence.idle_since().is_some();
        assert!(is_idle(), "nothing has come");
        activity.connection_begins();
        assert!(!is_idle(), "a part of the first head has come");
        let busy = activity.begin(Version::HTTP_11);
        assert!(!is_idle(), "a request is being answered");
        drop(busy);
        assert!(is_idle());
        activity.http1_arrived();
        assert!(!is_idle(), "a part of a head has come");
        let busy = activity.begin(Version::HTTP_2);
        activity.head_ends();
        assert!(!is_idle(), "a stream is being answered");
        activity.head_begins();
        drop(busy);
        assert!(!is_idle(), "a part of another head has come");
    }

    #[test]
    fn idleness_begins_with_the_look_after_an_answer() {
        let activity = Activity::new(Presence::alone());
        let limits = Limits { idle_timeout: Duration::from_millis(50), ..Limits::default() };
        let busy = activity.begin(Version::HTTP_11);
        std::thread::sleep(limits.idle_timeout);
        assert!(!activity.is_overdue(&limits), "a request is being answered");
        drop(busy);
        std::thread::sleep(limits.idle_timeout);
        assert!(!activity.is_overdue(&limits), "this look notes the time");
        std::thread::sleep(limits.idle_timeout);
        assert!(activity.is_overdue(&limits));
    }
}
