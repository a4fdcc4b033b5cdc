//! What a store says of a request that it decided.

use std::time::Duration;

use tollgate::Outcome;

/// The answer of a store to a request. `R` is what gives the charge back.
///
/// Of several limits, the numbers are those of the limit that refuses longest, or else of the one
/// with the least left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreReply<R = ()> {
    /// Whether the request is admitted, refused for now, or can never be admitted.
    pub outcome: Outcome,
    /// The number of the limit that is shown, if the store tells it.
    pub number: Option<usize>,
    /// The most that this limit admits at once.
    pub limit: u64,
    /// What it would still admit, after the request.
    pub remaining: u64,
    /// How long until the request would be admitted, if it is refused for now.
    pub retry_after: Option<Duration>,
    /// How long until the key is as good as new to the limit, if no request comes.
    pub reset_after: Duration,
    /// What gives the charge of an admitted request back. `None` if nothing was charged, or if the
    /// charge cannot be given back.
    pub receipt: Option<R>,
}

impl<R> StoreReply<R> {
    /// The answer of a store that knows one time: how long a refused request must wait, or else how
    /// long until the limit is whole. Without a receipt.
    #[must_use]
    pub fn new(outcome: Outcome, limit: u64, remaining: u64, wait: Duration) -> Self {
        let retry_after = (outcome == Outcome::Denied).then_some(wait);
        Self { outcome, number: None, limit, remaining, retry_after, reset_after: wait, receipt: None }
    }

    /// For a refused request, how long until it would be admitted; otherwise how long until the
    /// limit is whole.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.retry_after.unwrap_or(self.reset_after)
    }

    /// The same answer with another kind of receipt.
    #[must_use]
    pub fn map_receipt<T>(self, change: impl FnOnce(R) -> T) -> StoreReply<T> {
        let Self { outcome, number, limit, remaining, retry_after, reset_after, receipt } = self;
        let receipt = receipt.map(change);
        StoreReply { outcome, number, limit, remaining, retry_after, reset_after, receipt }
    }

    /// The answer and its receipt, each by itself.
    #[must_use]
    pub fn split(mut self) -> (StoreReply, Option<R>) {
        let receipt = self.receipt.take();
        (self.map_receipt(drop), receipt)
    }
}
