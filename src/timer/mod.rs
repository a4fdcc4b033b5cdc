//! Timers: what wakes a future that waits for its turn.

use std::time::Duration;

#[cfg(not(loom))]
mod thread;

#[cfg(not(loom))]
pub use thread::ThreadTimer;

/// Puts a future to sleep. The timer of an async runtime is cheaper than [`ThreadTimer`], which
/// needs no runtime.
///
/// # Examples
///
/// A function that returns such a future is a timer. For tokio:
///
/// ```ignore
/// limiter.account("alice").reserve(3, Duration::from_secs(1))?.ready(tokio::time::sleep).await;
/// ```
pub trait Timer {
    /// Completes after `duration`, or a little later. If it completes early, the waiting future
    /// asks it to sleep again.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
}

impl<F: Fn(Duration) -> S, S: Future<Output = ()> + Send> Timer for F {
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        self(duration)
    }
}
