//! Limits that come with each request.

use tollgate::{BuildError, CallDecision, CallError, CallQuota, PerCallLimiter, WhenFull};
use tollgate_http::RequestHead;

use super::request::CheckRequest;
use super::{QuotaOf, SharedClock};

/// A limiter, and where its quotas come from.
pub(crate) struct PerRequest {
    pub(crate) limiter: PerCallLimiter<[u8], SharedClock>,
    /// Whether a new key passes when the table is full.
    pub(crate) allows_when_full: bool,
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
        let builder = PerCallLimiter::builder().clock(clock);
        let limiter = if let Some(keys) = max_keys { builder.max_keys(keys) } else { builder }.build()?;
        Ok(Self { limiter, allows_when_full: when_full == WhenFull::Allow, quota_of })
    }

    /// Returns the quota of a request. `None` if the rule does not apply.
    #[inline]
    pub(crate) fn quota_of(&self, head: &RequestHead<'_>) -> Option<CallQuota> {
        (self.quota_of)(*head)
    }

    /// Decides a request and charges it. `None` if it has no quota.
    #[inline]
    pub(crate) fn check(&self, request: CheckRequest<'_>) -> Option<Result<CallDecision, CallError>> {
        Some(self.limiter.check(request.key, request.quota?, request.cost))
    }

    /// As [`check`](Self::check), and charges nothing.
    pub(crate) fn peek(&self, request: CheckRequest<'_>) -> Option<Result<CallDecision, CallError>> {
        Some(self.limiter.peek(request.key, request.quota?, request.cost))
    }

    /// Refunds a request.
    pub(crate) fn give_back(&self, mut decision: CallDecision) {
        let cost = decision.cost();
        self.limiter.refund(&mut decision, cost);
    }
}
