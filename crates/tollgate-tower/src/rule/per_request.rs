//! Limits that come with each request.

use tollgate::{BuildError, CallQuota, Decision, Limiter, Receipt, WhenFull};
use tollgate_backend::StoreReply;
use tollgate_http::RequestHead;

use super::request::CheckRequest;
use super::{QuotaOf, SharedClock};

/// A limiter, and where its quotas come from.
pub(crate) struct PerRequest {
    pub(crate) limiter: Limiter<[u8], CallQuota, 1, SharedClock>,
    quota_of: QuotaOf,
}

impl PerRequest {
    /// Builds the limiter. `max_keys`: the engine's default if `None`.
    pub(crate) fn new(
        quota_of: QuotaOf,
        max_keys: Option<usize>,
        when_full: WhenFull,
        clock: SharedClock,
    ) -> Result<Self, BuildError> {
        // Each request that the rule limits brings its quota, so the limiter's own is any.
        let builder = Limiter::builder(CallQuota::from_nanos(1, 1)?).per().when_full(when_full).clock(clock);
        let limiter = if let Some(keys) = max_keys { builder.max_keys(keys) } else { builder }.build()?;
        Ok(Self { limiter, quota_of })
    }

    /// Returns the quota of a request. `None` if the rule does not apply.
    #[inline]
    pub(crate) fn quota_of(&self, head: &RequestHead<'_>) -> Option<CallQuota> {
        (self.quota_of)(*head)
    }

    /// Decides a request and charges it. `None` if it has no quota.
    #[inline]
    pub(crate) fn check(&self, request: CheckRequest<'_>) -> Option<StoreReply<Receipt>> {
        let quota = request.quota?.lend();
        Some(reply_of(self.limiter.account(request.key).under(&quota).check_n(request.cost)))
    }

    /// As [`check`](Self::check), and charges nothing.
    pub(crate) fn peek(&self, request: CheckRequest<'_>) -> Option<StoreReply<Receipt>> {
        let quota = request.quota?.lend();
        Some(reply_of(self.limiter.account(request.key).under(&quota).peek_n(request.cost)))
    }

    /// Refunds a request.
    pub(crate) fn give_back(&self, receipt: Receipt) {
        self.limiter.refund(receipt);
    }
}

fn reply_of(decision: Decision<'_>) -> StoreReply<Receipt> {
    let wait = decision.retry_after().unwrap_or_else(|| decision.reset_after());
    let (outcome, limit, remaining) = (decision.outcome(), decision.limit(), decision.remaining());
    StoreReply { receipt: Some(decision.receipt()), ..StoreReply::new(outcome, limit, remaining, wait) }
}
