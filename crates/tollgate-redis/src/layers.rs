//! What a check passes: the deny cache, the store behind its guard, and what decides on failure.
//!
//! ```text
//!   check --> lease, if the mode has them -------- a permit --> admitted
//!                 |
//!             deny cache --------------------- remembered --> refused
//!                 |
//!              breaker, store, deadline ------- answered ---> admitted, or refused and remembered
//!                 |
//!              OnFailure: Local, Allow, Refuse -------------> admitted or refused
//!                         Error ----------------------------> Failed
//! ```

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Decision, KeyHasher, MOST_LIMITS, Outcome, Quota};

use crate::answer::{Answer, Charge, DecidedBy, LimitAnswer, Receipt};
use crate::deny::{DenyCache, Fingerprint, Refusal};
use crate::failed::{Failed, FailureKind};
use crate::fallback::{Local, LocalReceipt, OnFailure};
use crate::lease::Leases;
use crate::metrics::{Counts, Metrics};
use crate::shadow::Shadow;
use crate::store::Store;

/// What a refusal without the store's numbers tells the client to wait: the longest pause between
/// two probes of the store.
const UNKNOWN_WAIT: Duration = Duration::from_secs(1);

/// The layers of one limiter.
#[derive(Debug)]
pub(crate) struct Layers {
    pub(crate) store: Arc<Store>,
    /// Keyed, so that no client can choose a key with the fingerprint of another.
    pub(crate) hasher: KeyHasher,
    pub(crate) deny: Option<DenyCache>,
    pub(crate) fallback: Fallback,
    pub(crate) metrics: Metrics,
    /// The most that all limits together admit at once.
    pub(crate) limit: u64,
    /// The limiter's number in this process.
    pub(crate) number: u64,
    /// If the limiter decides nothing.
    pub(crate) shadow: Option<Shadow>,
    /// If permits are taken ahead.
    pub(crate) leases: Option<Leases>,
}

/// What decides when the store fails.
#[derive(Debug)]
pub(crate) enum Fallback {
    Local(Box<Local>),
    Allow,
    Refuse,
    Error,
}

impl Fallback {
    pub(crate) fn new(on_failure: OnFailure, quotas: &[Quota]) -> Result<Self, tollgate::BuildError> {
        Ok(match on_failure {
            OnFailure::Local { nodes } => Self::Local(Box::new(Local::new(quotas, nodes)?)),
            OnFailure::Allow => Self::Allow,
            OnFailure::Refuse => Self::Refuse,
            OnFailure::Error => Self::Error,
        })
    }
}

impl Layers {
    /// Turns what the store answered or failed to answer into the answer of the check.
    pub(crate) fn settle(
        &self,
        key: &[u8],
        cost: u64,
        answer: Result<Answer, Failed>,
        sent: Duration,
    ) -> Result<Answer, Failed> {
        match answer {
            Ok(answer) => Ok(self.counted(self.remember(key, answer, sent))),
            Err(failed) => self.fall_back(key, cost, failed),
        }
    }

    fn counted(&self, answer: Answer) -> Answer {
        self.metrics.decided(answer.decided_by(), answer.outcome());
        answer
    }

    /// The same for the requests of one script.
    pub(crate) fn settle_many(
        &self,
        requests: &[(&[u8], u64)],
        answers: Result<Vec<Answer>, Failed>,
        sent: Duration,
    ) -> Vec<Result<Answer, Failed>> {
        let answers: Vec<_> = match answers {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(failed) => vec![failed; requests.len()].into_iter().map(Err).collect(),
        };
        let settle = |(answer, &(key, cost))| self.settle(key, cost, answer, sent);
        answers.into_iter().zip(requests).map(settle).collect()
    }

    /// Makes a trip that may charge, and that nothing but the store decides.
    pub(crate) async fn charge(
        &self,
        key: &[u8],
        sent: Duration,
        ask: impl Future<Output = Result<Answer, Failed>> + Unpin,
    ) -> Result<Answer, Failed> {
        let mut answer = self.trip(sent, ask).await?;
        answer.note(self.fingerprint(key));
        self.metrics.decided(DecidedBy::Store, answer.outcome());
        Ok(answer)
    }

    /// Makes a trip to the store that begins at this time, and counts it if it fails.
    ///
    /// The trip is pinned, since it is large: each layer would copy it.
    pub(crate) async fn trip<T>(
        &self,
        sent: Duration,
        trip: impl Future<Output = Result<T, Failed>> + Unpin,
    ) -> Result<T, Failed> {
        let under_way = self.metrics.trips.begin();
        let result = self.store.trip(self.store.until(sent), trip).await;
        drop(under_way);
        let is_made = !matches!(&result, Err(failed) if failed.kind == FailureKind::BreakerOpen);
        if is_made {
            self.metrics.trips.took(self.store.now() - sent);
        }
        result.map_err(|failed| self.failed(failed))
    }

    /// What a check of the key with this name fails with at once, while its breaker is open.
    #[inline]
    pub(crate) fn closed_to(&self, name: impl FnOnce() -> String) -> Option<Failed> {
        self.store.not_sent(name).map(|failed| self.failed(failed))
    }

    /// Counts a failure.
    fn failed(&self, failed: Failed) -> Failed {
        self.metrics.failed(&failed);
        failed
    }

    /// Forgets the key's refusal: its debt has changed by something else than time.
    pub(crate) fn forget(&self, fingerprint: Fingerprint) {
        if let Some(deny) = &self.deny {
            deny.forget(fingerprint, self.store.now());
        }
    }

    /// What the deny cache and the leases know a key by.
    pub(crate) fn fingerprint(&self, key: &[u8]) -> Fingerprint {
        self.hasher.bytes(key).max(1)
    }

    /// Gives back up to so many units that a local limiter charged.
    pub(crate) fn refund_locally(&self, receipt: &mut LocalReceipt, units: u64) -> u64 {
        match &self.fallback {
            Fallback::Local(local) => local.refund(receipt, units),
            _ => 0,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let evicted = self.deny.as_ref().map_or(0, DenyCache::evicted);
        let leases = self.leases.as_ref().map(Leases::counts).unwrap_or_default();
        let mut counts = self.metrics.counts(self.store.counts(), evicted);
        counts.leases = leases;
        counts
    }

    /// The refusal that the store gave and that still stands.
    pub(crate) fn remembered(&self, fingerprint: Fingerprint, cost: u64, now: Duration) -> Option<Answer> {
        // A cost above the limit has no wait, so the store must say `Never`.
        let deny = self.deny.as_ref().filter(|_| cost <= self.limit)?;
        let refusal = deny.refused(fingerprint, cost, now)?;
        let part = LimitAnswer {
            outcome: Outcome::Denied,
            limit: refusal.most,
            remaining: refusal.remaining,
            retry_after: Some(refusal.wait),
            reset_after: refusal.reset,
            delay: Duration::ZERO,
        };
        let refused_by = usize::try_from(refusal.limit).ok();
        self.metrics.decided(DecidedBy::DenyCache, Outcome::Denied);
        Some(Answer::without_store(
            DecidedBy::DenyCache,
            Outcome::Denied,
            cost,
            refused_by,
            part.into(),
            None,
        ))
    }

    /// Remembers a refusal of the store, and notes in a receipt what its refund makes obsolete.
    fn remember(&self, key: &[u8], mut answer: Answer, sent: Duration) -> Answer {
        let Some(deny) = &self.deny else { return answer };
        let fingerprint = self.fingerprint(key);
        answer.note(fingerprint);
        let refusal = answer.refused_by().and_then(|number| {
            let (part, wait) = (answer.limits().get(number)?, answer.retry_after()?);
            Some(Refusal {
                cost: answer.cost(),
                wait,
                reset: part.reset_after,
                limit: number as u64,
                most: part.limit,
                remaining: part.remaining,
            })
        });
        if let Some(refusal) = refusal {
            deny.remember(fingerprint, refusal, sent);
        }
        answer
    }

    /// Decides what the store did not.
    pub(crate) fn fall_back(&self, key: &[u8], cost: u64, failed: Failed) -> Result<Answer, Failed> {
        let outcome = match &self.fallback {
            Fallback::Error => return Err(failed),
            Fallback::Local(local) => return Ok(self.counted(self.locally(local.check_n(key, cost)))),
            // No wait makes room for it, with the store or without.
            _ if cost > self.limit => Outcome::Never,
            Fallback::Allow => Outcome::Allowed,
            Fallback::Refuse => Outcome::Denied,
        };
        let part = LimitAnswer {
            outcome,
            limit: self.limit,
            remaining: 0,
            retry_after: (outcome == Outcome::Denied).then_some(UNKNOWN_WAIT),
            reset_after: Duration::ZERO,
            delay: Duration::ZERO,
        };
        let (by, parts) = (DecidedBy::OnFailure, part.into());
        Ok(self.counted(Answer::without_store(by, outcome, cost, None, parts, None)))
    }

    /// The answer of the local limiters.
    fn locally(&self, decision: Decision<'_, MOST_LIMITS>) -> Answer {
        // Above this node's share, but not above the limit: the store will admit it.
        let waits = decision.is_never() && decision.cost() <= self.limit;
        let outcome = if waits { Outcome::Denied } else { decision.outcome() };
        let delay = decision.delay();
        let parts = decision.parts().map(|part| {
            let outcome = if part.refuses() { outcome } else { Outcome::Allowed };
            let wait = part.retry_after().or((part.refuses() && waits).then_some(UNKNOWN_WAIT));
            let (limit, remaining, reset_after) = (part.limit(), part.remaining(), part.reset_after());
            LimitAnswer { outcome, limit, remaining, retry_after: wait, reset_after, delay }
        });
        let (cost, refused_by, parts) = (decision.cost(), decision.refused_by(), parts.collect());
        let charged = decision.is_allowed() && cost > 0;
        let charge = charged.then(|| Charge::Local(Box::new(decision.receipt())));
        let receipt = charge.map(|charge| Receipt { limiter: self.number, cost, charge });
        Answer::without_store(DecidedBy::Local, outcome, cost, refused_by, parts, receipt)
    }
}
