//! Streams of HTTP/2 that their client resets before they are answered.
//!
//! A reset frees the place of its request at once, and costs the client nothing. The request may
//! have reached an upstream by then: so a client that resets all that it asks begins as many
//! requests as it likes, past any limit of requests in flight. Resets are counted over a
//! connection, and too many end it. An answer makes up for one, and each second for another: a
//! client that leaves a request now and then is never cut off, nor is one that leaves all that it
//! has on its way.
//!
//! Before that, the requests of a client that has reset several wait some milliseconds. Those that
//! it resets meanwhile reach no upstream: an upstream may end a connection of which many streams
//! are reset, and other clients' requests are on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A client that leaves a request later has waited for it, as one does that leaves a page or a
/// long poll.
pub(super) const EARLY: Duration = Duration::from_secs(1);

/// How long a reset counts, in milliseconds: the next one counts after it.
const EACH: u64 = 1_000;

/// How often a client may reset as many streams as it may have.
const TIMES: u64 = 2;

/// So many resets make no request wait.
const FREE: u64 = 8;

/// For how many milliseconds a request waits: one for each reset beyond those, up to this.
const WAIT: u64 = 25;

/// GOAWAY with ENHANCE_YOUR_CALM. Any stream may have been processed.
const CALM: &[u8] = &[
    0, 0, 8, 7, 0, 0, 0, 0, 0, // The head of the frame.
    0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0xb, // The last stream, and the reason.
];

/// The early resets of a connection.
pub struct EarlyResets {
    since: Instant,
    /// Until when they count, one after the other, in milliseconds after `since`.
    until: AtomicU64,
    /// How far ahead that may be.
    most: u64,
    are_too_many: AtomicBool,
}

impl EarlyResets {
    /// None yet, of a connection that may have so many streams at a time.
    pub fn new(streams: u32) -> Arc<Self> {
        let (until, are_too_many) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self { since: Instant::now(), until, most: u64::from(streams) * TIMES * EACH, are_too_many })
    }

    /// A stream was reset early.
    pub(super) fn count(&self) {
        self.count_at(self.now());
    }

    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn count_at(&self, now: u64) {
        let next = |until: u64| until.max(now).saturating_add(EACH);
        let before = self.until.fetch_update(Relaxed, Relaxed, |until| Some(next(until)));
        if before.is_ok_and(|until| next(until) - now > self.most) {
            self.are_too_many.store(true, Relaxed);
        }
    }

    /// How long a new request waits. Most connections have no resets, and no clock is read.
    pub(super) fn wait(&self) -> Duration {
        match self.until.load(Relaxed) {
            0 => Duration::ZERO,
            until => wait_for(until.saturating_sub(self.now())),
        }
    }

    /// A stream was answered. Most connections have no resets, and nothing is written.
    pub(super) fn make_up(&self) {
        let less = |until: u64| (until > 0).then(|| until.saturating_sub(EACH));
        // An error: there are none.
        let _ = self.until.fetch_update(Relaxed, Relaxed, less);
    }

    /// What the connection ends with, if they are too many.
    pub fn farewell(&self) -> Option<&'static [u8]> {
        self.are_too_many.load(Relaxed).then_some(CALM)
    }
}

/// How long a request waits while resets count for so many milliseconds.
fn wait_for(left: u64) -> Duration {
    Duration::from_millis(left.div_ceil(EACH).saturating_sub(FREE).min(WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAMS: u32 = 200;

    #[test]
    fn more_resets_than_twice_the_streams_are_too_many() {
        let resets = EarlyResets::new(STREAMS);
        for _ in 0..2 * STREAMS {
            resets.count_at(7);
            assert!(resets.farewell().is_none());
        }
        resets.count_at(7);
        assert_eq!(resets.farewell(), Some(CALM));
    }

    #[test]
    fn answers_make_up_for_as_many_resets() {
        let resets = EarlyResets::new(STREAMS);
        for _ in 0..100_000 {
            resets.count_at(7);
            resets.make_up();
        }
        assert!(resets.farewell().is_none());
        // They are no credit for later resets.
        (0..100_000).for_each(|_| resets.make_up());
        (0..=2 * STREAMS).for_each(|_| resets.count_at(7));
        assert!(resets.farewell().is_some());
    }

    #[test]
    fn requests_wait_longer_with_each_reset_beyond_a_few() {
        let resets = EarlyResets::new(STREAMS);
        assert_eq!(resets.wait(), Duration::ZERO);
        (0..FREE).for_each(|_| resets.count());
        assert_eq!(resets.wait(), Duration::ZERO);
        (0..10).for_each(|_| resets.count());
        let wait = resets.wait();
        assert!(wait > Duration::ZERO && wait <= Duration::from_millis(10), "{wait:?}");
        (0..100).for_each(|_| resets.count());
        assert_eq!(resets.wait(), Duration::from_millis(WAIT));
        (0..110).for_each(|_| resets.make_up());
        assert_eq!(resets.wait(), Duration::ZERO);
    }

    #[test]
    fn a_reset_a_second_is_forgiven_for_days() {
        let resets = EarlyResets::new(STREAMS);
        for second in 0..5 * 86_400 {
            resets.count_at(second * 1_000);
        }
        assert!(resets.farewell().is_none());
        // A client that leaves all that it has on its way, and has rested.
        for hour in 0..24 {
            (0..STREAMS).for_each(|_| resets.count_at((200 + hour) * 3_600_000));
        }
        assert!(resets.farewell().is_none());
    }
}
