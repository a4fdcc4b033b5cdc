//! Limits that somebody else keeps: Redis, a service, a sidecar.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Outcome, Quota};

use crate::headers::Numbers;

/// Decides requests somewhere else.
///
/// A refusal is a [`Reply`]; an error is that nobody could decide. The two never turn into one another: what an error
/// means is [`OnError`]'s to say, and is reported as [`Told::Failed`](crate::Told::Failed).
///
/// The layer sets no deadline: a backend that may hang ends by itself, in a time that requests can bear.
///
/// # Examples
///
/// A backend that takes everything, and one line to use it:
///
/// ```
/// use std::convert::Infallible;
/// use std::time::Duration;
/// use tollgate::Outcome;
/// use tollgate_tower::{Backend, OnError, Reply, Rule};
///
/// struct Everything;
///
/// impl Backend for Everything {
///     type Error = Infallible;
///
///     async fn decide(&self, _key: &[u8], _cost: u64) -> Result<Reply, Infallible> {
///         Ok(Reply { outcome: Outcome::Allowed, limit: 1, remaining: 1, wait: Duration::ZERO })
///     }
/// }
///
/// let rule = Rule::remote("everything", Everything, OnError::Refuse);
/// ```
pub trait Backend: Send + Sync + 'static {
    /// Why nobody could decide.
    type Error: Error + Send + Sync + 'static;

    /// Decides a request of this cost and charges it if it is admitted. The key is what the rule's
    /// [`KeyBy`](crate::KeyBy) wrote, as the client sent it and of any length; empty for requests that share a limit for
    /// want of one.
    ///
    /// A client that disconnects drops the future.
    fn decide(&self, key: &[u8], cost: u64) -> impl Future<Output = Result<Reply, Self::Error>> + Send;
}

/// What a backend says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Admitted, refused for now, or never to be admitted.
    pub outcome: Outcome,
    /// The most that can be admitted at once.
    pub limit: u64,
    /// What is left of it.
    pub remaining: u64,
    /// Of a refused request, how long until it would be admitted; of another one, how long until everything is as new.
    pub wait: Duration,
}

impl Reply {
    pub(crate) fn numbers(self) -> Numbers {
        Numbers { limit: self.limit, remaining: self.remaining, reset: self.wait }
    }
}

/// What happens to a request when a backend fails.
#[derive(Clone, Debug, PartialEq)]
pub enum OnError {
    /// It is admitted.
    Allow,
    /// It is refused with 503 and without `Retry-After`: it is not the client's doing.
    Refuse,
    /// These limits decide, in this process: "50 a second on each of 3 nodes is better than the flood gates".
    Limit(Vec<Quota>),
}

/// A backend that is shared, and what its errors mean; `L` are the local limits.
pub(crate) struct Remote<L> {
    backend: Arc<dyn Decide>,
    pub(crate) on_error: Fallback<L>,
}

pub(crate) enum Fallback<L> {
    Allow,
    Refuse,
    Limit(L),
}

type Deciding<'a> = Pin<Box<dyn Future<Output = Result<Reply, Box<dyn Error + Send + Sync>>> + Send + 'a>>;

/// A [`Backend`] of any type.
trait Decide: Send + Sync {
    fn decide<'a>(&'a self, key: &'a [u8], cost: u64) -> Deciding<'a>;
}

impl<B: Backend> Decide for B {
    fn decide<'a>(&'a self, key: &'a [u8], cost: u64) -> Deciding<'a> {
        Box::pin(async move { Backend::decide(self, key, cost).await.map_err(Into::into) })
    }
}

impl Remote<Vec<Quota>> {
    pub(crate) fn new(backend: impl Backend, on_error: OnError) -> Self {
        let on_error = match on_error {
            OnError::Allow => Fallback::Allow,
            OnError::Refuse => Fallback::Refuse,
            OnError::Limit(quotas) => Fallback::Limit(quotas),
        };
        Self { backend: Arc::new(backend), on_error }
    }

    pub(crate) fn try_map<L, E>(self, make: impl FnOnce(Vec<Quota>) -> Result<L, E>) -> Result<Remote<L>, E> {
        let on_error = match self.on_error {
            Fallback::Allow => Fallback::Allow,
            Fallback::Refuse => Fallback::Refuse,
            Fallback::Limit(quotas) => Fallback::Limit(make(quotas)?),
        };
        Ok(Remote { backend: self.backend, on_error })
    }
}

impl<L> Remote<L> {
    pub(crate) fn decide<'a>(&'a self, key: &'a [u8], cost: u64) -> Deciding<'a> {
        self.backend.decide(key, cost)
    }
}

impl<L> fmt::Debug for Remote<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remote(..)")
    }
}
