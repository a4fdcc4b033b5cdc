//! Giving memory back after a spike, while everybody goes on.

use crate::algorithm::{Algorithm, Rule};
use crate::clock::Clock;
use crate::key::Key;
use crate::limiter::Limiter;

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Returns the memory that a spike of keys took to the operating system, but for what the keys that still owe
    /// something need: how many bytes fewer are [in use](Self::memory). The table grows again when it has to.
    ///
    /// Checks go on meanwhile. A key's first check after its turn has come may move it and its neighbours itself, as it
    /// does while the table grows. While it lasts, the table takes up to twice the memory that what is owed needs.
    ///
    /// **Guarantee.** Every key owes afterwards what it did before.
    ///
    /// **Cost.** Reads the whole table, and writes what is owed once more. To spread that, [`sweep`](Self::sweep). Nothing
    /// is returned while another thread sweeps or shrinks, and nothing yet if some thread is held up in an insertion: the
    /// next call does.
    ///
    /// Memory is returned on Linux, by tables that reserve 64 KiB or more; elsewhere it is only used again. The table of a
    /// [sliding log](crate::SlidingLog) does not shrink: there it says why, and what to do instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Rate, TokenBucket};
    ///
    /// let clock = ManualClock::new();
    /// let quota = TokenBucket::new(Rate::per_second(1)).burst(100);
    /// let limiter = Limiter::<u64>::builder(quota).clock(clock.clone()).build()?;
    /// let quiet = limiter.memory();
    /// for key in 0..10_000 {
    ///     assert!(limiter.check(&key).is_allowed());
    /// }
    /// assert!(limiter.check_n(&7, 90).is_allowed());
    /// assert!(limiter.memory() > quiet);
    /// clock.advance(Duration::from_secs(10));
    /// assert!(limiter.shrink() > 0);
    /// assert_eq!(limiter.memory(), quiet);
    /// assert_eq!(limiter.check(&7).remaining(), 18);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn shrink(&self) -> usize {
        let before = self.memory();
        let rule = &self.versions.current().default.rule;
        self.table.shrink(rule, || rule.moment(self.clock.now()));
        before.saturating_sub(self.memory())
    }

    /// [Shrinks](Self::shrink) by about `buckets` buckets of 15 keys at a time: `true` when a round through the table has
    /// ended, and its memory is returned. The next call begins another.
    ///
    /// For a thread that has something else to do, too: there is none in the limiter.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_second(1))).build()?;
    /// assert!(limiter.check(&7).is_allowed());
    /// // Now and then, 64 buckets are some ten microseconds:
    /// while !limiter.sweep(64) { /* serve */ }
    /// assert!(!limiter.check(&7).is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn sweep(&self, buckets: usize) -> bool {
        let rule = &self.versions.current().default.rule;
        self.table.sweep(rule, buckets, || rule.moment(self.clock.now()))
    }
}
