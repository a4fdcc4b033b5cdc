//! Waiting for one's turn, as a thread or as a future.

use std::time::Duration;

use crate::algorithm::Algorithm;
use crate::clock::Clock;
use crate::key::Key;
use crate::limiter::{GlobalLimiter, Limiter, Reservation, ReserveError};
#[cfg(not(loom))]
use crate::timer::ThreadTimer;

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Blocks the thread until a request of cost 1 may act, however long that takes.
    ///
    /// Waiters of one key leave in the order in which they came, each woken once, at its own departure.
    ///
    /// **Cost.** That of a check, and one sleep of the thread if it has to wait.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve), at once: who can never be admitted never stands in line.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_second(1_000)).burst(1)).build()?;
    /// let begun = std::time::Instant::now();
    /// for _ in 0..4 {
    ///     limiter.wait("alice")?;
    /// }
    /// assert!(begun.elapsed().as_millis() >= 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait(&self, key: &K) -> Result<(), ReserveError> {
        self.wait_timeout(key, Duration::MAX)
    }

    /// [`wait`](Self::wait), or an error at once when it would take longer than `timeout`.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve).
    pub fn wait_timeout(&self, key: &K, timeout: Duration) -> Result<(), ReserveError> {
        self.reserve(key, timeout).map(Reservation::wait)
    }

    /// Completes when a request of cost 1 may act, however long that takes.
    ///
    /// It stands in line from the first time that it is polled. Waiters of one key complete in that order, each woken
    /// once, at its own departure. A future that is dropped before gives its place back, as
    /// [`Reservation::cancel`] does. Sleeps by [`ThreadTimer`](crate::ThreadTimer); for a runtime's own timer, or a
    /// cost above 1, use [`reserve_n`](Self::reserve_n) and [`Reservation::ready`].
    ///
    /// **Cost.** That of a check at the first poll; then the timer's, if it has to wait.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve), at the first poll.
    #[cfg(not(loom))]
    pub async fn ready(&self, key: &K) -> Result<(), ReserveError> {
        self.ready_within(key, Duration::MAX).await
    }

    /// [`ready`](Self::ready), or an error at the first poll when it would take longer than `max_wait`.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve).
    #[cfg(not(loom))]
    pub async fn ready_within(&self, key: &K, max_wait: Duration) -> Result<(), ReserveError> {
        self.reserve(key, max_wait)?.ready(ThreadTimer).await;
        Ok(())
    }
}

impl<A: Algorithm, C: Clock> GlobalLimiter<A, C> {
    /// Blocks the thread until a request of cost 1 may act, however long that takes.
    ///
    /// Waiters leave in the order in which they came, each woken once, at its own departure.
    ///
    /// **Cost.** That of a check, and one sleep of the thread if it has to wait.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve), at once: who can never be admitted never stands in line.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{GlobalLimiter, Rate, TokenBucket};
    ///
    /// let limiter = GlobalLimiter::builder(TokenBucket::new(Rate::per_second(1_000)).burst(1)).build()?;
    /// let begun = std::time::Instant::now();
    /// for _ in 0..4 {
    ///     limiter.wait()?;
    /// }
    /// assert!(begun.elapsed().as_millis() >= 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait(&self) -> Result<(), ReserveError> {
        self.wait_timeout(Duration::MAX)
    }

    /// [`wait`](Self::wait), or an error at once when it would take longer than `timeout`.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve).
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), ReserveError> {
        self.reserve(timeout).map(Reservation::wait)
    }

    /// Completes when a request of cost 1 may act, however long that takes.
    ///
    /// It stands in line from the first time that it is polled. Waiters complete in that order, each woken
    /// once, at its own departure. A future that is dropped before gives its place back, as
    /// [`Reservation::cancel`] does. Sleeps by [`ThreadTimer`](crate::ThreadTimer); for a runtime's own timer, or a
    /// cost above 1, use [`reserve_n`](Self::reserve_n) and [`Reservation::ready`].
    ///
    /// **Cost.** That of a check at the first poll; then the timer's, if it has to wait.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve), at the first poll.
    #[cfg(not(loom))]
    pub async fn ready(&self) -> Result<(), ReserveError> {
        self.ready_within(Duration::MAX).await
    }

    /// [`ready`](Self::ready), or an error at the first poll when it would take longer than `max_wait`.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve).
    #[cfg(not(loom))]
    pub async fn ready_within(&self, max_wait: Duration) -> Result<(), ReserveError> {
        self.reserve(max_wait)?.ready(ThreadTimer).await;
        Ok(())
    }
}
