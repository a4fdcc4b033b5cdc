//! Backends: limits that are decided outside of this process, by Redis, a service or a sidecar.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use tollgate::{Outcome, Quota};

/// Decides requests outside of this process.
///
/// A refusal is a [`BackendReply`]; an error means that the backend could not decide. A server
/// never mistakes one for the other: [`OnBackendError`] says what happens at an error.
///
/// A server sets no timeout. A backend that may hang must time out by itself.
///
/// # Examples
///
/// A backend that admits every request:
///
/// ```
/// use std::convert::Infallible;
/// use std::time::Duration;
/// use tollgate::Outcome;
/// use tollgate_backend::{Backend, BackendReply};
///
/// struct Everything;
///
/// impl Backend for Everything {
///     type Error = Infallible;
///
///     async fn decide(&self, _key: &[u8], _cost: u64) -> Result<BackendReply, Infallible> {
///         let outcome = Outcome::Allowed;
///         Ok(BackendReply { outcome, limit: 1, remaining: 1, wait: Duration::ZERO })
///     }
/// }
/// ```
pub trait Backend: Send + Sync + 'static {
    /// The reason why the backend could not decide.
    type Error: Error + Send + Sync + 'static;

    /// Decides a request of this cost and charges it if it is admitted.
    ///
    /// `key` may contain any bytes that the client sent, and has any length. It is empty if the
    /// request has no key and the rule lets such requests share a limit.
    ///
    /// The future is dropped if the client disconnects.
    fn decide(&self, key: &[u8], cost: u64)
    -> impl Future<Output = Result<BackendReply, Self::Error>> + Send;
}

/// The decision of a backend about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendReply {
    /// Whether the request is admitted, refused for now, or can never be admitted.
    pub outcome: Outcome,
    /// The most that the limit admits at once.
    pub limit: u64,
    /// How much of the limit is left.
    pub remaining: u64,
    /// For a refused request, the time until it would be admitted; otherwise the time until the
    /// whole limit is available again.
    pub wait: Duration,
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
