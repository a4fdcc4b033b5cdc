//! A backend of any type.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::{Backend, BackendReply};

type DecideFuture<'a> =
    Pin<Box<dyn Future<Output = Result<BackendReply, Box<dyn Error + Send + Sync>>> + Send + 'a>>;

/// The dyn-compatible form of [`Backend`].
trait DynBackend: Send + Sync {
    fn decide<'a>(&'a self, key: &'a [u8], cost: u64) -> DecideFuture<'a>;
}

impl<B: Backend> DynBackend for B {
    fn decide<'a>(&'a self, key: &'a [u8], cost: u64) -> DecideFuture<'a> {
        Box::pin(async move { Backend::decide(self, key, cost).await.map_err(Into::into) })
    }
}

/// A backend of any type, for servers that choose it at run time.
pub struct AnyBackend(Box<dyn DynBackend>);

impl AnyBackend {
    /// Boxes a backend.
    pub fn new(backend: impl Backend) -> Self {
        Self(Box::new(backend))
    }

    /// Asks the backend.
    ///
    /// # Errors
    ///
    /// The error of the backend.
    ///
    /// **Cost.** One allocation more than the backend's own future.
    pub async fn decide(&self, key: &[u8], cost: u64) -> Result<BackendReply, Box<dyn Error + Send + Sync>> {
        self.0.decide(key, cost).await
    }
}

impl fmt::Debug for AnyBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyBackend(..)")
    }
}
