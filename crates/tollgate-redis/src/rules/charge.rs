//! What a store was charged for a request, and its way back.

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tollgate_rules::StoredCharge;

use crate::{Limiter, Receipt};

/// What a store was charged, or is being charged. Dropping it keeps the charge.
pub(crate) struct Charge {
    limiter: Limiter,
    key: Box<[u8]>,
    receipts: Receipts,
    units: u64,
    /// Whether the rule is in shadow mode: the store may refuse the charge.
    is_shadow: bool,
    runtime: Handle,
}

/// One task after the other owns them, so that each trip follows the one before.
enum Receipts {
    Here(Vec<Receipt>),
    With(JoinHandle<Vec<Receipt>>),
}

impl Receipts {
    /// A task that was cancelled or has panicked has lost them: the charge stays.
    async fn fetch(self) -> Vec<Receipt> {
        match self {
            Self::Here(receipts) => receipts,
            Self::With(task) => task.await.unwrap_or_default(),
        }
    }
}

impl Charge {
    pub(crate) fn new(limiter: Limiter, key: Box<[u8]>, receipt: Receipt, runtime: Handle) -> Self {
        let units = receipt.cost();
        Self { limiter, key, receipts: Receipts::Here(vec![receipt]), units, is_shadow: false, runtime }
    }

    /// The charge of a check in shadow mode, which this task makes.
    pub(crate) fn begun(
        limiter: Limiter,
        key: Box<[u8]>,
        units: u64,
        task: JoinHandle<Vec<Receipt>>,
        runtime: Handle,
    ) -> Self {
        Self { limiter, key, receipts: Receipts::With(task), units, is_shadow: true, runtime }
    }
}

impl StoredCharge for Charge {
    fn give_back(self: Box<Self>) {
        let Self { limiter, receipts, runtime, .. } = *self;
        runtime.spawn(async move {
            let receipts = receipts.fetch().await;
            refund(&limiter, receipts).await;
        });
    }

    /// Of a cost that was too high, the rest is given back, the newest charge first. Of one that
    /// was too low, the rest is charged as far as the limits have it.
    fn settle(&mut self, cost: u64) -> u64 {
        let (known, limiter, key) = (self.units, self.limiter.clone(), self.key.clone());
        if cost == known {
            return cost;
        }
        let receipts = std::mem::replace(&mut self.receipts, Receipts::Here(Vec::new()));
        self.receipts = Receipts::With(self.runtime.spawn(async move {
            let mut receipts = receipts.fetch().await;
            let mut excess = known.saturating_sub(cost);
            for receipt in receipts.iter_mut().rev() {
                let part = excess.min(receipt.cost());
                // What does not come back stays charged: time has won it back, or wins it back.
                if let Err(failed) = limiter.refund_part(receipt, part).await {
                    tracing::warn!(%failed, "a refund is lost");
                }
                excess -= part;
            }
            // What the store has refused in shadow mode is not charged later.
            if cost > known && !receipts.is_empty() {
                match limiter.take(&key, cost - known).await {
                    Ok(answer) => receipts.extend(answer.into_receipt()),
                    Err(failed) => tracing::warn!(%failed, "a cost is not settled"),
                }
            }
            receipts
        }));
        self.units = cost;
        if self.is_shadow { cost } else { known.min(cost) }
    }
}

async fn refund(limiter: &Limiter, receipts: Vec<Receipt>) {
    for receipt in receipts {
        if let Err(failed) = limiter.refund(receipt).await {
            tracing::warn!(%failed, "a refund is lost");
        }
    }
}
