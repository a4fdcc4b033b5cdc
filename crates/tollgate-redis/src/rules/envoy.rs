//! The counts of files of envoyproxy/ratelimit in a store.
//!
//! There is a limiter for each unit, in whose keys are the limits: it counts the hits in its
//! windows beyond all limits, and the files decide by the count. So a limit's number may change,
//! and hits that are refused are counted, as envoyproxy/ratelimit counts them.

use std::fmt;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tollgate::{Clock, FixedWindow, Rate};
use tollgate_rules::{StoreFailure, StoreServer};
use tollgate_rules_file::{EnvoyAnswer, EnvoyAsk, EnvoyCode, EnvoyCount, EnvoyHandle, EnvoyUnit};

use crate::rules::{StoreCounts, connect};
use crate::{Answer, BuildError, Counts, FailureKind, Limiter, Receipt, Redis};

/// The name of the limiters in the store. It is that of no rule.
const NAME: &str = "_envoy";

/// What stands for a rule in [`StoreCounts`]. It is no rule's name.
const RULE: &str = "(envoy)";

/// The store of files of envoyproxy/ratelimit: what [`EnvoyHandle::find`] finds is asked here.
pub struct EnvoyStore {
    address: String,
    redis: Redis,
    /// By unit.
    limiters: Box<[(EnvoyUnit, Limiter)]>,
    on_failure: StoreFailure,
    runtime: Handle,
}

impl EnvoyStore {
    /// Begins to connect to a store, and does not wait for it. While it does not answer,
    /// `on_failure` decides.
    ///
    /// # Errors
    ///
    /// [`BuildError`]: the settings are none; `nodes` of [`StoreFailure::Local`] is 0.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub fn open(server: &StoreServer, on_failure: StoreFailure) -> Result<Self, BuildError> {
        if let StoreFailure::Local { nodes: 0 } = on_failure {
            let (min, max) = (1, u128::from(u32::MAX));
            return Err(BuildError::OutOfRange { field: "nodes", value: 0, min, max });
        }
        let redis = connect(server, server.deadline)?;
        let limiter = |unit: EnvoyUnit| {
            let rate = Rate::new(EnvoyCount::MOST, Duration::from_secs(unit.seconds()));
            Ok((unit, redis.limiter(NAME, [FixedWindow::new(rate)]).build()?))
        };
        let limiters = EnvoyUnit::ALL.into_iter().map(limiter).collect::<Result<_, BuildError>>()?;
        let (address, runtime) = (server.to_string(), Handle::current());
        Ok(Self { address, redis, limiters, on_failure, runtime })
    }

    /// Waits until the store was reached, or was not at the first attempt.
    ///
    /// # Errors
    ///
    /// [`BuildError::Refused`]: the store refuses the password or scripts, and so every question.
    pub async fn connected(&self) -> Result<(), BuildError> {
        self.redis.connected().await
    }

    /// The store's address, without user and password.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What decides while the store does not answer.
    #[must_use]
    pub fn on_failure(&self) -> StoreFailure {
        self.on_failure
    }

    /// Decides a call whose limits were [found](EnvoyHandle::find).
    ///
    /// If the future is dropped, hits that the store has counted stay counted.
    ///
    /// **Cost.** A trip for each limit, at the same time; if several are charged
    /// [together](tollgate_rules_file::EnvoyCharge::Together), one more to look at each before.
    pub async fn decide<C: Clock>(&self, handle: &EnvoyHandle<C>, answer: &mut EnvoyAnswer) -> EnvoyCode {
        let looks = handle.looks(answer);
        if !looks.is_empty() {
            let said = join_all(looks.iter().map(|ask| self.look(ask))).await;
            handle.looked(answer, &said, self.on_failure);
        }
        let asks = handle.charges(answer);
        let (said, mut receipts): (Vec<_>, Vec<_>) =
            join_all(asks.iter().map(|ask| self.charge(ask))).await.into_iter().unzip();
        let (code, back) = handle.charged(answer, &said, self.on_failure);
        for position in back {
            if let Some(receipt) = receipts[position].take() {
                self.give_back(asks[position].unit, receipt);
            }
        }
        code
    }

    async fn look(&self, ask: &EnvoyAsk) -> Option<EnvoyCount> {
        let answer = self.limiter(ask.unit).peek(&ask.key, ask.hits).await;
        answer.ok().as_ref().map(count)
    }

    async fn charge(&self, ask: &EnvoyAsk) -> (Option<EnvoyCount>, Option<Receipt>) {
        match self.limiter(ask.unit).check_n(&ask.key, ask.hits).await {
            Ok(answer) => (Some(count(&answer)), answer.into_receipt()),
            Err(_) => (None, None),
        }
    }

    /// Begins to give a charge back. The call does not wait for it.
    fn give_back(&self, unit: EnvoyUnit, receipt: Receipt) {
        let limiter = self.limiter(unit).clone();
        self.runtime.spawn(async move {
            if let Err(failed) = limiter.refund(receipt).await {
                tracing::warn!(%failed, "a refund is lost");
            }
        });
    }

    fn limiter(&self, unit: EnvoyUnit) -> &Limiter {
        let (of, limiter) = &self.limiters[unit as usize];
        debug_assert_eq!(*of, unit, "they are in the order of the units");
        limiter
    }

    /// What the store has counted for each unit that was asked for: `(envoy)` stands for the rule,
    /// and the unit for the tier.
    #[must_use]
    pub fn counts(&self) -> Vec<StoreCounts> {
        let all = self.limiters.iter().map(|(unit, limiter)| (unit, limiter.counts()));
        let asked = all.filter(|(_, counts)| was_asked(counts));
        let counts = asked.map(|(unit, counts)| StoreCounts {
            rule: RULE.into(),
            tier: Some(unit.to_string().into()),
            store: self.address.clone(),
            is_shadow: false,
            counts,
        });
        counts.collect()
    }
}

fn was_asked(counts: &Counts) -> bool {
    let trips = counts.trips;
    let failed = FailureKind::ALL.iter().any(|kind| counts.failed(*kind) > 0);
    failed || trips.in_flight > 0 || trips.by_time.iter().any(|trips| *trips > 0)
}

/// The count of an answer. The store refuses hits beyond the most.
fn count(answer: &Answer) -> EnvoyCount {
    EnvoyCount {
        hits: EnvoyCount::MOST - answer.remaining().min(EnvoyCount::MOST),
        is_beyond: !answer.is_allowed(),
        until_reset: answer.reset_after(),
    }
}

impl fmt::Debug for EnvoyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, on_failure, .. } = self;
        f.debug_struct("EnvoyStore").field("address", address).field("on_failure", on_failure).finish()
    }
}
