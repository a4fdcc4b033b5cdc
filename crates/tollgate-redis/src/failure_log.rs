//! The log of failed trips: the first failure of each kind since the store's last success.
//!
//! A breaker that opens says why, but only the fifth failure in a row opens it, and a fault of a
//! single key never does.

use std::array::from_fn;
use std::fmt;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::{Failed, FailureKind};

/// The shortest time between two lines about the same kind of failure of a store.
const PAUSE: Duration = Duration::from_secs(10);

const KINDS: usize = FailureKind::ALL.len();

const _: () = assert!(KINDS <= u16::BITS as usize, "each kind has a bit");

/// Which failures of a store are in the log.
///
/// Relaxed: a race costs or saves a line, and nothing else depends on these words.
pub(crate) struct FailureLog {
    /// A bit for each kind that was logged after the last success.
    logged: AtomicU16,
    /// When each kind was last logged, in milliseconds after the guard was made. 0: never.
    last: [AtomicU64; KINDS],
}

impl FailureLog {
    pub(crate) fn new() -> Self {
        Self { logged: AtomicU16::new(0), last: from_fn(|_| AtomicU64::new(0)) }
    }

    /// The store has answered.
    ///
    /// **Cost.** One load, unless a failure was logged before.
    #[inline]
    pub(crate) fn succeeded(&self) {
        if self.logged.load(Relaxed) != 0 {
            self.logged.store(0, Relaxed);
        }
    }

    /// Logs a failure of `server`, unless one of its kind was logged after the last success or
    /// within the last 10 s.
    pub(crate) fn failed(&self, server: &str, failed: &Failed, now: Duration) {
        if self.is_due(failed.kind, now) {
            let kind = failed.kind.name();
            tracing::warn!(kind, server, "the store failed a request ({failed})");
        }
    }

    /// Another line of the log has this failure.
    pub(crate) fn is_logged(&self, kind: FailureKind, now: Duration) {
        self.logged.fetch_or(bit(kind), Relaxed);
        self.last[kind.index()].store(stamp(now), Relaxed);
    }

    /// Whether the caller must log a failure of this kind. Notes that it does.
    fn is_due(&self, kind: FailureKind, now: Duration) -> bool {
        if self.logged.load(Relaxed) & bit(kind) != 0 {
            return false;
        }
        let (last, now) = (&self.last[kind.index()], stamp(now));
        let before = last.load(Relaxed);
        let is_soon = before != 0 && now.saturating_sub(before) < stamp(PAUSE) - 1;
        // An error: another thread logs this kind.
        if is_soon || last.compare_exchange(before, now, Relaxed, Relaxed).is_err() {
            return false;
        }
        self.logged.fetch_or(bit(kind), Relaxed);
        true
    }
}

fn bit(kind: FailureKind) -> u16 {
    1 << kind.index()
}

/// Milliseconds and one more: 0 is no time.
fn stamp(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

impl fmt::Debug for FailureLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailureLog").field("logged", &self.logged).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_logged_once_until_a_success() {
        let (log, second) = (FailureLog::new(), Duration::from_secs);
        assert!(log.is_due(FailureKind::Auth, second(0)));
        assert!(!log.is_due(FailureKind::Auth, second(100)));
        assert!(log.is_due(FailureKind::Script, second(100)), "another kind");
        log.succeeded();
        assert!(log.is_due(FailureKind::Auth, second(101)));
    }

    #[test]
    fn a_kind_is_logged_at_most_every_ten_seconds() {
        let (log, second) = (FailureLog::new(), Duration::from_secs);
        let logged = (0..100).filter(|&at| {
            log.succeeded();
            log.is_due(FailureKind::Script, second(at))
        });
        assert!(logged.eq((0..100).step_by(10)));
    }

    #[test]
    fn a_failure_within_the_pause_is_logged_after_it() {
        let (log, second) = (FailureLog::new(), Duration::from_secs);
        assert!(log.is_due(FailureKind::Memory, second(0)));
        log.succeeded();
        assert!(!log.is_due(FailureKind::Memory, second(9)));
        assert!(log.is_due(FailureKind::Memory, second(10)), "no success came between");
    }
}
