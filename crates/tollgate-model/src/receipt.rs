//! Receipts, by which admissions are given back.

use std::any::Any;
use std::fmt;

use crate::rule::Charge;

/// The charge of one admitted request. [`Model::refund`](crate::Model::refund) consumes it, so that
/// it is given back only once.
#[must_use = "without its receipt an admission cannot be refunded"]
pub struct Receipt {
    pub(crate) key: String,
    /// When the request was admitted. A refund never counts as earlier.
    at: u64,
    cost: u64,
    /// The key's state right after the admission; its type is the algorithm's.
    state_after: Box<dyn Any + Send + Sync>,
}

impl Receipt {
    pub(crate) fn new<S: Send + Sync + 'static>(key: &str, at: u64, cost: u64, state_after: S) -> Self {
        Self { key: key.to_owned(), at, cost, state_after: Box::new(state_after) }
    }

    pub(crate) fn charge<S: 'static>(&self) -> Charge<'_, S> {
        let after =
            self.state_after.downcast_ref().expect("the receipt is from a model of the same algorithm");
        Charge { at: self.at, cost: self.cost, after }
    }

    /// The same receipt, for at most the last `units` of the request.
    pub(crate) fn part(self, units: u64) -> Self {
        Self { cost: self.cost.min(units), ..self }
    }

    /// The cost of the request.
    pub fn cost(&self) -> u64 {
        self.cost
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut receipt = f.debug_struct("Receipt");
        receipt.field("key", &self.key).field("at", &self.at).field("cost", &self.cost);
        receipt.finish_non_exhaustive()
    }
}
