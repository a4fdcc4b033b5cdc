//! Receipts, by which admissions are given back.

use std::any::Any;
use std::fmt;

use crate::rule::{Charge, Rule};

/// The charge of one admitted request. [`Model::refund`](crate::Model::refund) consumes it, and
/// [`Model::refund_part`](crate::Model::refund_part) spends units of it, so that each unit is given
/// back only once.
#[must_use = "without its receipt an admission cannot be refunded"]
pub struct Receipt {
    pub(crate) key: String,
    /// When the request was admitted. A refund never counts as earlier.
    at: u64,
    /// Units that were not asked back yet.
    cost: u64,
    /// Units that made `state_after` of `state_before`.
    charged: u64,
    by: By,
    /// The key's states right before and after the charge; their type is the algorithm's.
    state_before: State,
    state_after: State,
}

type State = Box<dyn Any + Send + Sync>;

/// How the units were charged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    Check,
    Debit,
    /// A reservation, which is given back as a whole.
    Turn,
}

impl Receipt {
    pub(crate) fn new<S: Send + Sync + 'static>(
        by: By,
        key: &str,
        at: u64,
        cost: u64,
        (before, after): (S, S),
    ) -> Self {
        let (state_before, state_after) = (Box::new(before), Box::new(after));
        Self { key: key.to_owned(), at, cost, charged: cost, by, state_before, state_after }
    }

    /// The charge of the last `units`.
    pub(crate) fn charge<S: 'static>(&self, units: u64) -> Charge<'_, S> {
        Charge { at: self.at, cost: units, after: downcast(&self.state_after) }
    }

    /// Spends `units`, of which no more are left. The rest is as if it had been a request of its
    /// own, right before these.
    pub(crate) fn spend<R: Rule>(&mut self, rule: &R, units: u64) {
        (self.cost, self.charged) = (self.cost - units, self.charged - units);
        if units == 0 || self.cost == 0 {
            return;
        }
        let (before, at, rest) = (downcast(&self.state_before), self.at, self.charged);
        let after = match self.by {
            By::Check => rule.admitted(before, at, rest),
            By::Debit => rule.debited(before, at, rest).map(|(after, _)| after),
            By::Turn => None,
        };
        self.state_after = Box::new(after.expect("less than was charged fits"));
    }

    /// The same receipt, of at most the last `units` of the request.
    pub(crate) fn part(self, units: u64) -> Self {
        Self { cost: self.cost.min(units), ..self }
    }

    /// When the request was admitted.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The cost of the request, less the units asked back so far.
    pub fn cost(&self) -> u64 {
        self.cost
    }
}

fn downcast<S: 'static>(state: &State) -> &S {
    state.downcast_ref().expect("the receipt is from a model of the same algorithm")
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut receipt = f.debug_struct("Receipt");
        receipt.field("key", &self.key).field("at", &self.at).field("cost", &self.cost);
        receipt.finish_non_exhaustive()
    }
}
