//! The charges of a request, rule by rule, until they are settled.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::{Decision, MOST_LIMITS, Receipt, Timestamp};
use tollgate_backend::AnyReceipt;
use tollgate_http::{HeaderStyles, LimitHeaders, LimitState, QuotaPolicies};

use super::owned_charges::{OwnedCharge, OwnedCharges, OwnedOf};
use super::state::LayerState;
use crate::rule::{LimitSet, MAX_RULES, Place, QueueTurn};

/// The charges of one request. Dropping them refunds them, the last first, unless they are settled
/// or [owned](Self::own): the request was refused.
pub(super) struct Charges<'l> {
    state: &'l LayerState,
    /// One for each rule that admitted the request, in the order of the rules.
    made: SmallVec<[Charge<'l>; MAX_RULES]>,
    /// What else goes back with a charge, with the index of its rule, in the same order. It is
    /// rare, and a `Charge` that held it would be more expensive to copy.
    extras: SmallVec<[(usize, Extra); 1]>,
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
    Here(&'l LimitSet, Decision<'l, MOST_LIMITS>),
    /// At the rule's backend, by a limit that came with the request, or in flight: a limit in this
    /// state at this time.
    There(LimitState, Timestamp),
}

/// What goes back with a charge.
pub(super) enum Extra {
    Turn(QueueTurn),
    Receipt(AnyReceipt),
    /// The charge by a limit that came with the request.
    Call(Receipt),
    /// The request's places in flight, which go back by themselves.
    Place(Place),
    /// The request's key, to debit it by the response.
    Key(Box<[u8]>),
}

impl<'l> Charges<'l> {
    #[inline]
    pub(super) fn new(state: &'l LayerState) -> Self {
        Self { state, made: SmallVec::new(), extras: SmallVec::new(), settled: false }
    }

    #[inline]
    pub(super) fn push(&mut self, charge: Charge<'l>) {
        self.made.push(charge);
    }

    /// Adds the charge of a request that waits for its turn.
    pub(super) fn push_waiting(&mut self, charge: Charge<'l>, turn: QueueTurn) {
        self.extras.push((charge.rule, Extra::Turn(turn)));
        self.made.push(charge);
    }

    /// Adds the charge of a request whose response tells its cost.
    #[inline(never)]
    pub(super) fn push_with_key(&mut self, charge: Charge<'l>, key: &[u8]) {
        self.extras.push((charge.rule, Extra::Key(key.into())));
        self.made.push(charge);
    }

    /// Adds the charge of a request that a backend or a limit of its own admitted.
    pub(super) fn push_there(&mut self, charge: Charge<'l>, receipt: Option<impl Into<Extra>>) {
        self.extras.extend(receipt.map(|receipt| (charge.rule, receipt.into())));
        self.made.push(charge);
    }

    /// Makes the charges stay when they are dropped.
    pub(super) fn settle(&mut self) {
        self.settled = true;
    }

    /// Takes charges as values that do not borrow from the limits: all, or those of rules that
    /// await the response. The others are settled.
    #[inline(never)]
    pub(super) fn own(&mut self, state: &Arc<LayerState>, all: bool) -> OwnedCharges {
        self.settled = true;
        let mut extras = self.extras.drain(..).peekable();
        let own = |Charge { rule, of, .. }| {
            let extra = extras.next_if(|(of, _)| *of == rule).map(|(_, extra)| extra);
            if !all && !state.rules[rule].awaits_response() {
                return None;
            }
            let of = match (of, extra) {
                (Of::Here(limits, decision), extra) => {
                    let (turn, key) = match extra {
                        Some(Extra::Turn(turn)) => (Some(Box::new(turn)), None),
                        Some(Extra::Key(key)) => (None, Some(key)),
                        Some(Extra::Receipt(_) | Extra::Call(_) | Extra::Place(_)) | None => (None, None),
                    };
                    OwnedOf::Here { set: limits.index, receipt: decision.receipt(), turn, key }
                }
                (Of::There(..), Some(Extra::Receipt(receipt))) => OwnedOf::There(receipt),
                (Of::There(..), Some(Extra::Call(receipt))) => OwnedOf::Call(receipt),
                (Of::There(..), Some(Extra::Place(place))) => OwnedOf::InFlight(place),
                (Of::There(..), _) => return None,
            };
            Some(OwnedCharge { rule, of })
        };
        OwnedCharges::new(Arc::clone(state), self.made.drain(..).filter_map(own))
    }

    fn give_back(&mut self) {
        while let Some(Charge { rule, of, .. }) = self.made.pop() {
            let has_extra = self.extras.last().is_some_and(|(of, _)| *of == rule);
            let extra = if has_extra { self.extras.pop().map(|(_, extra)| extra) } else { None };
            match (of, extra) {
                (Of::Here(limits, decision), extra) => {
                    limits.give_back(decision.receipt(), extra.and_then(Extra::turn));
                }
                (Of::There(..), Some(Extra::Receipt(receipt))) => {
                    self.state.give_back_there(rule, receipt);
                }
                (Of::There(..), Some(Extra::Call(receipt))) => self.state.give_back_call(rule, receipt),
                (Of::There(..), _) => {}
            }
        }
    }

    /// Returns the policies of the rules that are not shadow rules.
    pub(super) fn policies(&self) -> impl Iterator<Item = &'l QuotaPolicies> + Clone + use<'l, '_> {
        let enforced = self.made.iter().filter(|charge| !charge.shadow);
        enforced.filter_map(|charge| match charge.of {
            Of::Here(limits, _) => Some(&limits.policies),
            Of::There(..) => None,
        })
    }

    /// Returns the rate limit headers of the rules that are not shadow rules, and the time from
    /// which their resets count.
    pub(super) fn headers(&self, styles: HeaderStyles) -> (LimitHeaders, Timestamp) {
        let enforced = || self.made.iter().filter(|charge| !charge.shadow);
        let policy = || QuotaPolicies::header_of_all(self.policies());
        let decided_at = enforced().map(|charge| charge.of.decided_at()).min().unwrap_or_default();
        let headers = LimitHeaders::new(styles, policy, |items| {
            for charge in enforced() {
                let rule = &self.state.rules[charge.rule];
                let later = charge.of.decided_at().saturating_since(decided_at);
                match &charge.of {
                    Of::Here(limits, decision) => limits.add_items(decision, rule.max_wait, later, items),
                    Of::There(limit, _) => {
                        items.add(
                            &rule.name,
                            LimitState { reset: limit.reset.saturating_add(later), ..*limit },
                        );
                    }
                }
            }
        });
        (headers, decided_at)
    }
}

impl Of<'_> {
    #[inline]
    fn decided_at(&self) -> Timestamp {
        match self {
            Of::Here(_, decision) => decision.decided_at(),
            Of::There(_, decided_at) => *decided_at,
        }
    }
}

impl Extra {
    fn turn(self) -> Option<QueueTurn> {
        match self {
            Self::Turn(turn) => Some(turn),
            Self::Receipt(_) | Self::Call(_) | Self::Place(_) | Self::Key(_) => None,
        }
    }
}

impl From<AnyReceipt> for Extra {
    fn from(receipt: AnyReceipt) -> Self {
        Self::Receipt(receipt)
    }
}

impl From<Receipt> for Extra {
    fn from(receipt: Receipt) -> Self {
        Self::Call(receipt)
    }
}

impl Drop for Charges<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.settled {
            self.give_back();
        }
    }
}
