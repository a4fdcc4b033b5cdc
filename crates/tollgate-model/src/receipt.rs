//! The right to give an admission back.

use std::any::Any;
use std::fmt;

use crate::rule::Charge;

/// What was charged for one admitted request, so that it can be given back: once, because
/// [`Model::refund`](crate::Model::refund) takes it away.
#[must_use = "a receipt that nobody keeps cannot be refunded"]
pub struct Receipt {
    pub(crate) key: String,
    /// When the request was admitted: no refund is earlier.
    at: u64,
    cost: u64,
    /// The key's state right after the admission; its type is the algorithm's.
    charged: Box<dyn Any + Send + Sync>,
}

impl Receipt {
    pub(crate) fn new<S: Send + Sync + 'static>(key: &str, at: u64, cost: u64, charged: S) -> Self {
        Self { key: key.to_owned(), at, cost, charged: Box::new(charged) }
    }

    pub(crate) fn charge<S: 'static>(&self) -> Charge<'_, S> {
        let after = self.charged.downcast_ref().expect("a receipt belongs to the model that gave it");
        Charge { at: self.at, cost: self.cost, after }
    }

    /// The same receipt, for the last `units` of the request at the most.
    pub(crate) fn part(self, units: u64) -> Self {
        Self { cost: self.cost.min(units), ..self }
    }

    /// What the request cost.
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
