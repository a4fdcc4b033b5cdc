//! The charges of a request, rule by rule, until they are settled.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::MultiDecision;
use tollgate_backend::BackendReply;
use tollgate_http::{HeaderStyles, LimitHeaders, LimitState, QuotaPolicies};

use super::LayerState;
use super::owned_charges::{OwnedCharge, OwnedCharges};
use crate::rule::{LimitSet, MAX_RULES, QueueTurn};

/// The charges of one request. Dropping them refunds them, the last first, unless they are settled
/// or [owned](Self::own): the request was refused.
pub(super) struct Charges<'l> {
    /// One for each rule that admitted the request, in the order of the rules.
    made: SmallVec<[Charge<'l>; MAX_RULES]>,
    /// The turns in queues, with the index of their rule, in the same order. They are rare, and a
    /// `Charge` that held one would be more expensive to copy.
    turns: Vec<(usize, QueueTurn)>,
    settled: bool,
}

pub(super) struct Charge<'l> {
    /// The index of the rule.
    pub(super) rule: usize,
    pub(super) shadow: bool,
    pub(super) of: Of<'l>,
}

/// Where the request was charged.
pub(super) enum Of<'l> {
    Here(&'l LimitSet, MultiDecision<'l>),
    /// At a backend, which takes nothing back.
    There(&'l str, BackendReply),
}

impl<'l> Charges<'l> {
    #[inline]
    pub(super) fn new() -> Self {
        Self { made: SmallVec::new(), turns: Vec::new(), settled: false }
    }

    #[inline]
    pub(super) fn push(&mut self, charge: Charge<'l>) {
        self.made.push(charge);
    }

    /// Adds the charge of a request that waits for its turn.
    pub(super) fn push_waiting(&mut self, charge: Charge<'l>, turn: QueueTurn) {
        self.turns.push((charge.rule, turn));
        self.made.push(charge);
    }

    /// Makes the charges stay when they are dropped.
    pub(super) fn settle(&mut self) {
        self.settled = true;
    }

    /// Takes charges as values that do not borrow from the limits: all, or those of rules with a
    /// `charge_if`. The others are settled.
    #[inline(never)]
    pub(super) fn own(&mut self, state: &Arc<LayerState>, all: bool) -> OwnedCharges {
        self.settled = true;
        let mut turns = self.turns.drain(..).peekable();
        let own = |Charge { rule, of, .. }| {
            let turn = turns.next_if(|(of, _)| *of == rule).map(|(_, turn)| Box::new(turn));
            match of {
                Of::Here(limits, decision) if all || state.rules[rule].charge_if.is_some() => {
                    Some(OwnedCharge { rule, set: limits.index, receipt: decision.receipt(), turn })
                }
                Of::Here(..) | Of::There(..) => None,
            }
        };
        OwnedCharges::new(Arc::clone(state), self.made.drain(..).filter_map(own))
    }

    fn give_back(&mut self) {
        while let Some(Charge { rule, of, .. }) = self.made.pop() {
            let turn = self.turns.pop_if(|(of, _)| *of == rule);
            if let Of::Here(limits, decision) = of {
                limits.give_back(decision.receipt(), turn.map(|(_, turn)| turn));
            }
        }
    }

    /// Returns the rate limit headers of the rules that are not shadow rules.
    pub(super) fn headers(&self, styles: HeaderStyles) -> LimitHeaders {
        let enforced = || self.made.iter().filter(|charge| !charge.shadow).map(|charge| &charge.of);
        let policies = enforced().filter_map(|of| match of {
            Of::Here(limits, _) => Some(&limits.policies),
            Of::There(..) => None,
        });
        let policy = || QuotaPolicies::header_of_all(policies);
        LimitHeaders::new(styles, policy, |items| {
            for of in enforced() {
                match of {
                    Of::Here(limits, decision) => limits.policies.add_items(decision, items),
                    Of::There(name, reply) => items.add(name, limit_state(reply)),
                }
            }
        })
    }
}

/// Returns the state of a backend's limit.
pub(super) fn limit_state(reply: &BackendReply) -> LimitState {
    LimitState { limit: reply.limit, remaining: reply.remaining, reset: reply.wait }
}

impl Drop for Charges<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.settled {
            self.give_back();
        }
    }
}
