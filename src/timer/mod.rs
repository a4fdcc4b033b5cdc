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
/// For tokio:
///
/// ```ignore
/// struct Tokio;
///
/// impl tollgate::Timer for Tokio {
///     fn sleep(&self, duration: std::time::Duration) -> impl Future<Output = ()> + Send {
///         tokio::time::sleep(duration)
///     }
/// }
///
/// limiter.prepare("alice").reserve(3, Duration::from_secs(1))?.ready(Tokio).await;
/// ```
pub trait Timer {
    /// Completes after `duration`, or a little later. If it completes early, the waiting future
    /// asks it to sleep again.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
}
