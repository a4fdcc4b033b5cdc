//! Checks whose answers are counted and decide nothing.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// The checks of a limiter in shadow mode that have not ended.
#[derive(Debug)]
pub(crate) struct Shadow {
    pub(crate) room: Arc<Semaphore>,
    pub(crate) runtime: Handle,
}

impl Shadow {
    /// Room for so many checks at once, on this runtime.
    pub(crate) fn new(checks: usize, runtime: Handle) -> Self {
        Self { room: Arc::new(Semaphore::new(checks)), runtime }
    }
}
