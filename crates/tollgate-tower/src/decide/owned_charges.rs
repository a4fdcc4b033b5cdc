//! The charges that outlive the call which made them: of a request that waits for its departure, or
//! whose response decides whether it is charged.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use smallvec::SmallVec;
use tollgate::{Receipt, Timestamp};
use tollgate_backend::AnyReceipt;

use super::state::LayerState;
use super::waiting::Waiting;
use crate::body::Places;
use crate::rule::{Place, QueueTurn};

/// Charges that borrow nothing. Dropping them refunds them, the last first, unless they are
/// settled.
pub(crate) struct OwnedCharges {
    state: Arc<LayerState>,
    /// In the order of the rules. Mostly one rule has a `charge_if`, and one charge is not boxed.
    made: SmallVec<[OwnedCharge; 1]>,
    settled: bool,
}

pub(super) struct OwnedCharge {
    /// The index of the rule.
    pub(super) rule: usize,
    pub(super) of: OwnedOf,
}

/// Where the request was charged.
pub(super) enum OwnedOf {
    Here {
        /// The index of the rule's limit set.
        set: usize,
        receipt: Receipt<8>,
        /// Boxed, so that the futures of requests that do not wait stay small.
        turn: Option<Box<QueueTurn>>,
        /// For a request without a turn whose response tells its cost.
        key: Option<Box<[u8]>>,
    },
    /// At the rule's backend.
    There(AnyReceipt),
    /// By a limit that came with the request.
    Call(Receipt),
    /// In flight, until this is dropped.
    InFlight(Place),
}

impl OwnedCharge {
    fn departure(&self) -> Option<Timestamp> {
        match &self.of {
            OwnedOf::Here { turn, .. } => turn.as_ref().map(|turn| turn.departure()),
            OwnedOf::There(_) | OwnedOf::Call(_) | OwnedOf::InFlight(_) => None,
        }
    }
}

impl OwnedCharges {
    pub(super) fn new(state: Arc<LayerState>, made: impl Iterator<Item = OwnedCharge>) -> Self {
        Self { state, made: made.collect(), settled: false }
    }

    /// Lets the request move up in its queues.
    pub(super) fn begin_to_wait(&mut self) {
        for OwnedCharge { rule, of } in &mut self.made {
            if let OwnedOf::Here { set, turn: Some(turn), .. } = of {
                self.state.rules[*rule].decider.limit_set(*set).wait(turn);
            }
        }
    }

    /// Returns when the request departs from the last of its queues. `None`: it waits in none.
    fn departure(&self) -> Option<Timestamp> {
        self.made.iter().filter_map(OwnedCharge::departure).max()
    }

    /// Returns the time until the request departs. Zero if it departs now.
    pub(super) fn wait(&self) -> Duration {
        let departs_in = |departure: Timestamp| departure.saturating_since(self.state.clock.now());
        self.departure().map_or(Duration::ZERO, departs_in)
    }

    /// Sleeps for this time, or until the request has moved up.
    // By `&mut`: receipts of backends may be `Send` only.
    pub(super) async fn sleep(&mut self, time: Duration) {
        let departure = self.departure();
        let mut sleep = pin!((self.state.sleep)(time));
        poll_fn(move |context| {
            self.turns().for_each(|turn| turn.watch(context.waker()));
            if self.departure() < departure { Poll::Ready(()) } else { sleep.as_mut().poll(context) }
        })
        .await;
    }

    fn turns(&mut self) -> impl Iterator<Item = &mut QueueTurn> {
        self.made.iter_mut().filter_map(|charge| match &mut charge.of {
            OwnedOf::Here { turn, .. } => turn.as_deref_mut(),
            OwnedOf::There(_) | OwnedOf::Call(_) | OwnedOf::InFlight(_) => None,
        })
    }

    /// Counts the request as one that waits for the last of its queues.
    pub(super) fn waiting(&self) -> Option<Waiting> {
        let charge = self.made.iter().max_by_key(|charge| charge.departure())?;
        Some(Waiting::begin(&self.state, charge.rule))
    }

    /// Makes the charges stay when they are dropped: the request is served. Returns those that its
    /// response may still give back.
    pub(crate) fn settle(mut self) -> Option<Self> {
        self.settled = true;
        if self.turns().next().is_some() {
            let now = self.state.clock.now();
            self.turns().for_each(|turn| turn.depart(now));
        }
        self.made.retain(|charge| self.state.rules[charge.rule].awaits_response());
        (!self.made.is_empty()).then_some(self)
    }

    /// Refunds a request for which the inner service did not become ready: all of its charges, or
    /// if they are settled, those of rules that await the response.
    pub(crate) fn not_served(self) {
        if self.settled {
            drop(self.answered(None));
        }
    }

    /// Settles what the rules charge by the response; `None` is an error. Returns the charges that
    /// last until the response's body has ended: the places in flight. An error gives them back.
    pub(crate) fn answered(mut self, response: Option<(StatusCode, &HeaderMap)>) -> Option<Self> {
        let rules = &self.state.rules;
        // All closures run before the first change: if one panics, the request stays charged.
        let costs: SmallVec<[_; 1]> =
            self.made.iter().map(|charge| rules[charge.rule].cost_by(response)).collect();
        for (charge, cost) in std::mem::take(&mut self.made).into_iter().zip(costs).rev() {
            match cost {
                None if response.is_some() && matches!(charge.of, OwnedOf::InFlight(_)) => {
                    self.made.push(charge)
                }
                None => {}
                Some(0) => self.give_back(charge),
                Some(cost) => self.settle_difference(charge, cost),
            }
        }
        (!self.made.is_empty()).then_some(self)
    }

    /// Returns the places of a request that was [answered](Self::answered).
    pub(crate) fn into_places(mut self) -> Places {
        let place = |charge: OwnedCharge| match charge.of {
            OwnedOf::InFlight(place) => Some(place),
            OwnedOf::Here { .. } | OwnedOf::There(_) | OwnedOf::Call(_) => None,
        };
        std::mem::take(&mut self.made).into_iter().filter_map(place).collect()
    }

    /// Charges a request what it cost, instead of its estimate.
    fn settle_difference(&self, OwnedCharge { rule, of }: OwnedCharge, cost: u64) {
        let OwnedOf::Here { set, mut receipt, turn, key } = of else { return };
        let limiter = &self.state.rules[rule].decider.limit_set(set).limiter;
        let charged = turn.as_ref().map_or(receipt.left(), |turn| turn.units());
        if cost <= charged {
            if turn.as_ref().is_none_or(|turn| turn.is_own()) {
                limiter.refund_part(&mut receipt, charged - cost);
            }
        } else if let Some(key) = key.as_deref().or(turn.as_deref().map(QueueTurn::key)) {
            // An error is a full table, which its counters show: there is no place for the debt.
            let _ = limiter.account(key).debit(cost - charged);
        }
    }

    /// Runs code of the inner service. If it panics, the rules are refunded as at an error.
    pub(crate) fn guard<T>(charges: &mut Option<Self>, act: impl FnOnce() -> T) -> T {
        catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
            if let Some(charges) = charges.take() {
                drop(charges.answered(None));
            }
            resume_unwind(panic)
        })
    }

    fn give_back(&self, OwnedCharge { rule, of }: OwnedCharge) {
        match of {
            OwnedOf::Here { set, receipt, turn, .. } => {
                let limits = self.state.rules[rule].decider.limit_set(set);
                limits.give_back(receipt, turn.map(|turn| *turn));
            }
            OwnedOf::There(receipt) => self.state.give_back_there(rule, receipt),
            OwnedOf::Call(receipt) => self.state.give_back_call(rule, receipt),
            OwnedOf::InFlight(place) => drop(place),
        }
    }
}

impl Drop for OwnedCharges {
    fn drop(&mut self) {
        if !self.settled {
            while let Some(charge) = self.made.pop() {
                self.give_back(charge);
            }
        }
    }
}
