//! Backends: limits that are decided outside of this process, by Redis, a service or a sidecar.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use tollgate::Quota;

use crate::store::StoreReply;

/// Decides requests outside of this process.
///
/// A refusal is a [`StoreReply`]; an error means that the backend could not decide. A server
/// never mistakes one for the other: [`OnBackendError`] says what happens at an error. A backend
/// that panics, or that misses its [deadline](Self::deadline), has failed too: see
/// [`BackendFault`](crate::BackendFault).
///
/// # Examples
///
/// A store in this process, which takes charges back:
///
/// ```
/// use std::collections::HashMap;
/// use std::convert::Infallible;
/// use std::sync::Mutex;
/// use std::time::Duration;
/// use tollgate::Outcome;
/// use tollgate_rules::{Backend, StoreReply};
///
/// /// Admits 100 units of each key, once.
/// #[derive(Default)]
/// struct Store(Mutex<HashMap<Vec<u8>, u64>>);
///
/// impl Backend for Store {
///     type Error = Infallible;
///     type Receipt = (Vec<u8>, u64);
///
///     async fn decide(
///         &self,
///         key: &[u8],
///         cost: u64,
///     ) -> Result<StoreReply<(Vec<u8>, u64)>, Infallible> {
///         let mut spent = self.0.lock().unwrap();
///         let spent = spent.entry(key.to_vec()).or_default();
///         let remaining = (100 - *spent).checked_sub(cost);
///         *spent += remaining.map_or(0, |_| cost);
///         let outcome = if remaining.is_some() { Outcome::Allowed } else { Outcome::Denied };
///         let receipt = remaining.map(|_| (key.to_vec(), cost));
///         let reply = StoreReply::new(outcome, 100, 100 - *spent, Duration::from_secs(60));
///         Ok(StoreReply { receipt, ..reply })
///     }
///
///     fn refund(&self, (key, cost): (Vec<u8>, u64)) {
///         if let Some(spent) = self.0.lock().unwrap().get_mut(&key) {
///             *spent -= cost;
///         }
///     }
/// }
/// ```
pub trait Backend: Send + Sync + 'static {
    /// The reason why the backend could not decide.
    type Error: Error + Send + Sync + 'static;

    /// What the backend needs to find a charge again: the key, the cost, and what the charge left
    /// in the store. `()` if the backend takes nothing back.
    ///
    /// A receipt is given back at most once. It need not be `Clone`, and should not be.
    type Receipt: Send + 'static;

    /// Decides a request of this cost and charges it if it is admitted.
    ///
    /// `key` may contain any bytes that the client sent, and has any length. It is empty if the
    /// request has no key and the rule lets such requests share a limit.
    ///
    /// The future is dropped if the client disconnects or the deadline passes. What the store has
    /// charged by then stays charged, since there is no receipt.
    fn decide(
        &self,
        key: &[u8],
        cost: u64,
    ) -> impl Future<Output = Result<StoreReply<Self::Receipt>, Self::Error>> + Send;

    /// Begins to give back the charge of a request that was admitted here and then not served:
    /// another rule refused it, or its client left.
    ///
    /// **The default gives nothing back**: the charge stays until time wins it back.
    ///
    /// Servers call this where a request is dropped: on any thread, and perhaps outside of a
    /// runtime. So it is not async, and must not block. A remote backend hands the receipt to the
    /// task that owns its connection, and logs by itself what goes wrong there. A refund that is
    /// lost errs by refusing.
    fn refund(&self, receipt: Self::Receipt) {
        drop(receipt);
    }

    /// Returns the longest time that a decision may take; by default, a second. A server reads it
    /// once, and the decision fails with
    /// [`BackendFault::TimedOut`](crate::BackendFault::TimedOut) when the time has passed.
    /// [`Duration::MAX`] sets no deadline.
    ///
    /// The server's timer measures it, so a future that blocks its thread is not interrupted.
    fn deadline(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// What happens to a request when the backend fails.
#[derive(Clone, Debug, PartialEq)]
pub enum OnBackendError {
    /// The request is admitted.
    Allow,
    /// The request is refused with 503 and without `Retry-After`: the client did nothing wrong.
    Refuse,
    /// These limits decide, in this process. For example, each of 3 nodes admits 50 requests a
    /// second while the backend with the shared limit of 150 is down.
    LimitLocally(Vec<Quota>),
}
