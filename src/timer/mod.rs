//! Who wakes a future that waits for its turn.

use std::time::Duration;

#[cfg(not(loom))]
mod thread;

#[cfg(not(loom))]
pub use thread::ThreadTimer;

/// What makes a future sleep. An async runtime's own timer is cheaper than [`ThreadTimer`], which needs none.
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
    /// Completes after `duration`, or a little later. What completes sooner is asked to sleep again.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;
}
