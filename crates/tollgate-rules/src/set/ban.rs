//! The banned keys of a rule.

use std::io::{self, Read, Write};
use std::time::Duration;

use tollgate::saved::{Reader, Writer};
use tollgate::{
    BuildError, Clock, FixedWindow, Inherit, Limiter, ManualClock, Quota, Rate, Timestamp, Usage, WhenFull,
};

use crate::rule::Ban;

/// The keys that a rule refuses for a while because it refused them once.
///
/// It is a limit of one refusal in each window of a key, and the window is the ban: it begins with
/// the refusal that is charged, and further refusals do not change it. A full table bans no further
/// key. (To look at a key in a full table must not refuse it: bans last long, so a client with many
/// addresses could lock out all others.)
pub(crate) struct Bans<C> {
    pub(super) limiter: Limiter<[u8], Quota, 1, C>,
}

/// A ban of this length, as a quota.
pub(crate) fn quota(length: Duration) -> Quota {
    FixedWindow::new(Rate::new(1, length)).from_first_hit().into()
}

impl Ban {
    /// Checks that bans of this length can be kept.
    ///
    /// # Errors
    ///
    /// [`BuildError`]: it is too long.
    pub fn check(self) -> Result<(), BuildError> {
        Bans::new(self.0, Some(1), ManualClock::new()).map(drop)
    }
}

impl<C: Clock + 'static> Bans<C> {
    pub(crate) fn new(length: Duration, max_keys: Option<usize>, clock: C) -> Result<Self, BuildError> {
        let builder = Limiter::builder(quota(length)).per().when_full(WhenFull::Allow).clock(clock);
        let builder = if let Some(keys) = max_keys { builder.max_keys(keys) } else { builder };
        Ok(Self { limiter: builder.memory_budget(usize::MAX).build()? })
    }

    /// Returns for how long the key is banned still; `None` if it is not.
    pub(crate) fn left(&self, key: &[u8], now: Timestamp) -> Option<Duration> {
        self.limiter.account(key).at(now).peek().retry_after()
    }

    /// Bans a key from `now` on, unless it is banned already. Returns how long; `None` if the table
    /// is full.
    #[cold]
    pub(crate) fn start(&self, key: &[u8], now: Timestamp) -> Option<Duration> {
        // Its answer says nothing: a full table admits.
        let _ = self.limiter.account(key).at(now).check();
        self.left(key, now)
    }

    /// How many keys are banned, and how much memory they take.
    pub(crate) fn usage(&self) -> Usage {
        self.limiter.usage()
    }

    /// Writes down the banned keys. Returns how many.
    pub(crate) fn save(&self, out: &mut Writer<impl Write>) -> io::Result<usize> {
        self.limiter.save_in(out)
    }

    /// The bans of this length that were saved.
    pub(crate) fn restore(
        length: Duration,
        max_keys: Option<usize>,
        clock: C,
        input: &mut Reader<impl Read>,
    ) -> Result<Self, tollgate::RestoreError> {
        let builder = Limiter::builder(quota(length)).per().when_full(WhenFull::Allow).clock(clock);
        let builder = if let Some(keys) = max_keys { builder.max_keys(keys) } else { builder };
        Ok(Self { limiter: builder.memory_budget(usize::MAX).restore_from(input)? })
    }

    /// Ends the ban of a key. `false` if it has none.
    pub(crate) fn lift(&self, key: &[u8]) -> bool {
        self.limiter.account(key).reset()
    }

    /// Makes bans last this long from now on.
    pub(crate) fn change(&self, length: Duration) -> Result<(), BuildError> {
        self.limiter.change().to(quota(length)).inherit(Inherit::Additive).apply()
    }

    /// Checks that a [`change`](Self::change) can be made, and taken back.
    pub(crate) fn check_change(&self, length: Duration) -> Result<(), BuildError> {
        self.limiter.change().to(quota(length)).inherit(Inherit::Additive).check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ban_of_any_legal_length_ends_to_the_nanosecond() {
        // Ten years, the longest that the engine counts.
        let longest = 10 * 31_557_600 * 1_000_000_000_u64;
        for nanos in [1, 2, 999, 1_000_000_007, 86_400_000_000_000, longest - 1, longest] {
            let length = Duration::from_nanos(nanos);
            let clock = ManualClock::new();
            clock.advance(Duration::from_nanos(12_345));
            let bans = Bans::new(length, None, clock.clone()).unwrap();
            assert_eq!(bans.left(b"k", clock.now()), None);
            assert_eq!(bans.start(b"k", clock.now()), Some(length));
            clock.advance(length - Duration::from_nanos(1));
            assert_eq!(bans.start(b"k", clock.now()), Some(Duration::from_nanos(1)), "it is not prolonged");
            clock.advance(Duration::from_nanos(1));
            assert_eq!(bans.left(b"k", clock.now()), None, "{length:?}");
        }
    }
}
