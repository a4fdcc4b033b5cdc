//! Giving memory back after a spike.

use crate::algorithm::{Algorithm, Rule};
use crate::clock::Clock;
use crate::error::Error;
use crate::key::Key;
use crate::limiter::Limiter;

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Returns the memory that a spike of keys took to the operating system, but for what the keys that still owe
    /// something need: how many bytes fewer are [in use](Self::memory). The table grows again when it has to.
    ///
    /// It needs the limiter for itself, which is what makes it safe: no check is under way, and no decision, lease or
    /// guard is left to come back. A limiter behind an `Arc` is had by [`Arc::get_mut`](std::sync::Arc::get_mut), or kept
    /// behind an `RwLock` whose readers check.
    ///
    /// **Guarantee.** Every key owes afterwards what it did before.
    ///
    /// **Cost.** Reads the whole table, and writes what is owed into a new one.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], and nothing has changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, ManualClock, Rate, TokenBucket};
    ///
    /// let clock = ManualClock::new();
    /// let quota = TokenBucket::new(Rate::per_second(1)).burst(100);
    /// let mut limiter = Limiter::<u64>::builder(quota).clock(clock.clone()).build()?;
    /// let quiet = limiter.memory();
    /// for key in 0..10_000 {
    ///     assert!(limiter.check(&key).is_allowed());
    /// }
    /// assert!(limiter.check_n(&7, 90).is_allowed());
    /// assert!(limiter.memory() > quiet);
    /// clock.advance(Duration::from_secs(10));
    /// assert_eq!(limiter.shrink()?, limiter.memory() * 31);
    /// assert_eq!(limiter.memory(), quiet);
    /// assert_eq!(limiter.check(&7).remaining(), 18);
    /// # Ok::<(), tollgate::Error>(())
    /// ```
    pub fn shrink(&mut self) -> Result<usize, Error> {
        let rule = &self.versions.current().default.rule;
        self.table.shrink(rule, rule.moment(self.clock.now()))
    }
}
