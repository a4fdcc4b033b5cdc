//! Bans: what a rule refuses for a while because it refused it once.

use std::fmt;
use std::time::Duration;

use tollgate::{FixedWindow, Rate, Stats, Timestamp, Usage, WhenFull};

use super::SharedClock;
use super::bounds::LONGEST_BAN;
use super::local::LocalLimiter;
use crate::BuildError;

/// The banned keys of a rule.
///
/// It is a limit of one refusal in each window of a key, and the window is the ban: it begins with
/// the refusal that is charged, and further refusals do not change it. A full table bans no further
/// key. (To look at a key in a full table must not refuse it: bans last long, so a client with many
/// addresses could lock out everyone else.)
pub(crate) struct Ban {
    pub(crate) limiter: LocalLimiter,
}

impl Ban {
    /// `max_keys`: the engine's default if `None`.
    pub(crate) fn new(
        rule: &str,
        duration: Duration,
        max_keys: Option<usize>,
        clock: SharedClock,
    ) -> Result<Self, BuildError> {
        if !(Duration::from_nanos(1)..=LONGEST_BAN).contains(&duration) {
            return Err(BuildError::BanDuration { rule: rule.to_owned(), given: duration });
        }
        let quota = FixedWindow::new(Rate::new(1, duration)).from_first_hit().into();
        let limiter = LocalLimiter::new(&[quota], max_keys, WhenFull::Allow, clock)
            .map_err(|error| BuildError::Limit { rule: rule.to_owned(), error })?;
        Ok(Self { limiter })
    }

    /// Returns when the ban of a key ends. `None` if the key is not banned at `now`.
    pub(crate) fn end(&self, key: &[u8], now: Timestamp) -> Option<Timestamp> {
        self.limiter.account(key).at(now).peek().retry_after().map(|left| now + left)
    }

    /// Bans a key from `now` on, unless it is banned already. Returns when the ban ends; `None` if
    /// the table is full.
    #[cold]
    pub(crate) fn start(&self, key: &[u8], now: Timestamp) -> Option<Timestamp> {
        // Its answer says nothing: a full table admits.
        let _ = self.limiter.account(key).at(now).check();
        self.end(key, now)
    }

    /// Ends the ban of a key. Returns whether the key may have been banned.
    pub(crate) fn lift(&self, key: &[u8]) -> bool {
        self.limiter.account(key).reset()
    }

    pub(crate) fn stats(&self) -> Stats {
        self.limiter.stats()
    }

    pub(crate) fn usage(&self) -> Usage {
        self.limiter.usage()
    }
}

impl fmt::Debug for Ban {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ban").field("limiter", &self.limiter).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate::{Clock, ManualClock};

    use super::*;

    #[test]
    fn a_ban_of_any_legal_duration_ends_to_the_nanosecond() {
        let longest = LONGEST_BAN.as_nanos() as u64;
        for nanos in [1, 2, 999, 1_000_000_007, 86_400_000_000_000, longest - 1, longest] {
            let duration = Duration::from_nanos(nanos);
            let clock = ManualClock::new();
            clock.advance(Duration::from_nanos(12_345));
            let ban = Ban::new("api", duration, None, Arc::new(clock.clone())).unwrap();
            let begun = clock.now();
            assert_eq!(ban.end(b"k", begun), None);
            assert_eq!(ban.start(b"k", begun), Some(begun + duration));
            clock.advance(duration - Duration::from_nanos(1));
            assert_eq!(ban.start(b"k", clock.now()), Some(begun + duration), "it is not prolonged");
            clock.advance(Duration::from_nanos(1));
            assert_eq!(ban.end(b"k", clock.now()), None, "{duration:?}");
        }
    }
}
