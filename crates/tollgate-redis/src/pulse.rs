//! The signs of life of a store: how long it is silent, and how long nothing came in time.
//!
//! A request that gets no answer in time says little by itself: the store may have been busy with
//! the requests before it. So no such request counts. What counts is that the store answers nothing
//! at all, or nothing in time, however many requests wait:
//!
//! ```text
//!   sent         answered, in time or not      sent               no answer
//!  ---|---------------------|--------------------|------------------------|------>
//!      '-- silent so long --'                     '--- silent so long ----'
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// A store that is silent for so many deadlines fails.
const SILENT_DEADLINES: u32 = 5;

/// A store that answers nothing in time for so long fails.
const LATE: Duration = Duration::from_secs(1);

/// A connection is given up if no request has had an answer for so long: the other end may be gone
/// without a word.
const LOST: Duration = Duration::from_secs(1);

/// How long one store lets its requests wait.
pub(crate) struct Pulse {
    start: Instant,
    deadline: Duration,
    /// Until any answer.
    silent: Wait,
    /// Until an answer in time.
    late: Wait,
}

/// When the first request after the last answer was sent, in microseconds after the start, and one
/// more. 0: there is none.
#[derive(Default)]
struct Wait(AtomicU64);

impl Pulse {
    pub(crate) fn new(deadline: Duration) -> Self {
        Self { start: Instant::now(), deadline, silent: Wait::default(), late: Wait::default() }
    }

    /// A request is sent.
    pub(crate) fn asks(&self, sent: Instant) {
        let sent = sent.saturating_duration_since(self.start);
        self.silent.asks(sent);
        self.late.asks(sent);
    }

    /// An answer came. Returns whether it came in time.
    pub(crate) fn answered(&self, sent: Instant, now: Instant) -> bool {
        let is_in_time = now.saturating_duration_since(sent) <= self.deadline;
        self.silent.ends();
        if is_in_time {
            self.late.ends();
        }
        is_in_time
    }

    /// There is a new connection, of which nothing is known.
    pub(crate) fn reset(&self) {
        self.silent.ends();
        self.late.ends();
    }

    /// Whether the store fails: load alone does not make it silent, nor all of its answers late.
    pub(crate) fn is_failing(&self) -> bool {
        let now = self.start.elapsed();
        let silent = self.deadline * SILENT_DEADLINES;
        self.silent.is_as_long_as(silent, now) || self.late.is_as_long_as(silent.max(LATE), now)
    }

    /// Whether the connection is of no use any more.
    pub(crate) fn is_lost(&self) -> bool {
        self.silent.is_as_long_as(LOST, self.start.elapsed())
    }
}

impl Wait {
    fn asks(&self, now: Duration) {
        if self.0.load(Ordering::Relaxed) == 0 {
            let micros = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
            self.0.store(micros.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// An answer came.
    fn ends(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn is_as_long_as(&self, time: Duration, now: Duration) -> bool {
        let since = self.0.load(Ordering::Relaxed).checked_sub(1).map(Duration::from_micros);
        since.is_some_and(|since| now.saturating_sub(since) >= time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_connection_is_not_silent() {
        let (wait, second) = (Wait::default(), Duration::from_secs);
        wait.asks(second(0));
        wait.ends();
        wait.asks(second(9));
        wait.asks(second(10));
        assert!(!wait.is_as_long_as(second(2), second(10)) && wait.is_as_long_as(second(2), second(11)));
        wait.ends();
        assert!(!wait.is_as_long_as(second(2), second(99)));
    }

    #[tokio::test(start_paused = true)]
    async fn late_answers_end_a_silence_and_not_the_lateness() {
        let (pulse, deadline) = (Pulse::new(Duration::from_millis(10)), Duration::from_millis(10));
        let begun = Instant::now();
        while begun.elapsed() < LATE {
            assert!(!pulse.is_failing(), "after {:?}", begun.elapsed());
            let sent = Instant::now();
            pulse.asks(sent);
            tokio::time::advance(deadline * 2).await;
            assert!(!pulse.answered(sent, Instant::now()));
            // The next one waits already.
            pulse.asks(Instant::now());
        }
        assert!(pulse.is_failing() && !pulse.is_lost());
        assert!(pulse.answered(Instant::now(), Instant::now()));
        assert!(!pulse.is_failing());
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_fails_after_five_deadlines_of_silence() {
        let pulse = Pulse::new(Duration::from_millis(10));
        tokio::time::advance(LATE).await;
        assert!(!pulse.is_failing(), "nothing was asked");
        (0..100).for_each(|_| pulse.asks(Instant::now()));
        tokio::time::advance(Duration::from_millis(49)).await;
        assert!(!pulse.is_failing());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(pulse.is_failing());
    }
}
