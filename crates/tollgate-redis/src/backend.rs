//! Limits in the store for the middleware and the server.

use std::time::Duration;

use tollgate_rules::{Backend, StoreReply};

use crate::{CentreLimiter, Failed, Limiter, Receipt};

/// A request is decided as by [`Limiter::check_n`]. A failure of the store is an error, so that the
/// server's [`OnBackendError`](tollgate_rules::OnBackendError) says what happens then.
impl Backend for Limiter {
    type Error = Failed;
    type Receipt = Receipt;

    async fn decide(&self, key: &[u8], cost: u64) -> Result<StoreReply<Receipt>, Failed> {
        Ok(self.check_n(key, cost).await?.into_reply())
    }

    /// Hands the receipt to a task on the runtime in which the limiter was built. If the store
    /// does not answer, the refund is lost, and a warning is logged.
    fn refund(&self, receipt: Receipt) {
        self.begin_refund(receipt);
    }

    /// The deadline of the connection, and as much again: the limiter keeps its own, and its
    /// errors say more.
    fn deadline(&self) -> Duration {
        2 * Limiter::deadline(self)
    }
}

/// A request is decided as by [`CentreLimiter::check_n`]. Nothing is taken back: the other centres
/// have been told of the charge.
impl Backend for CentreLimiter {
    type Error = Failed;
    type Receipt = ();

    async fn decide(&self, key: &[u8], cost: u64) -> Result<StoreReply, Failed> {
        Ok(self.check_n(key, cost).await?.into_reply().split().0)
    }

    /// As that of a [`Limiter`].
    fn deadline(&self) -> Duration {
        2 * CentreLimiter::deadline(self)
    }
}
