//! What an admitted request may still give back.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use http::{Extensions, HeaderMap, StatusCode};

use super::state::LayerState;
use super::turns::Turns;
use super::{LayerTicket, NotServed};

/// A status that no rule lists: of a request that was not answered.
const NOT_ANSWERED: u16 = 0;

/// What an admitted request may still give back. Dropping it before the request is served gives
/// back all charges; dropping it later, only the places in flight.
#[derive(Default)]
pub(crate) struct Charges {
    /// `None` if nothing can come back any more.
    ticket: Option<LayerTicket>,
    /// The turns in queues that go to others with the charges.
    turns: Option<Box<Turns>>,
    /// What tells by the response what the request cost; `None`: its status does.
    settled_by: Option<Arc<LayerState>>,
    /// Whether all comes back if the response says that its request was not served.
    gives_back_unserved: bool,
    is_served: bool,
}

impl Charges {
    pub(super) fn new(
        ticket: Option<LayerTicket>,
        turns: Option<Box<Turns>>,
        settled_by: Option<Arc<LayerState>>,
        gives_back_unserved: bool,
    ) -> Self {
        Self { ticket, turns, settled_by, gives_back_unserved, is_served: false }
    }

    /// Whether nothing can come back any more.
    pub(crate) fn is_empty(&self) -> bool {
        self.ticket.is_none()
    }

    /// The turns of a request that waits in queues.
    pub(crate) fn turns(&self) -> Option<&Turns> {
        self.turns.as_deref()
    }

    /// Hands the request to the inner service by `call`. The client may leave now: its charges
    /// stay.
    pub(crate) fn serve<T>(&mut self, call: impl FnOnce() -> T) -> T {
        self.is_served = true;
        if let Some(turns) = self.turns.take() {
            turns.depart(self.ticket.as_mut());
        }
        self.guard(call)
    }

    /// Runs code of the inner service. If it panics, the request counts as not answered.
    pub(crate) fn guard<T>(&mut self, act: impl FnOnce() -> T) -> T {
        if self.ticket.is_none() {
            return act();
        }
        catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
            self.answered(None);
            resume_unwind(panic)
        })
    }

    /// Gives back all if the request was not served. Then [`answered`](Self::answered) finds
    /// nothing.
    pub(crate) fn give_back_unserved(&mut self, response: &Extensions) {
        if self.gives_back_unserved && response.get::<NotServed>().is_some() {
            self.ticket.take().into_iter().for_each(LayerTicket::cancel);
        }
    }

    /// Settles what the rules charge by the head of the response; `None` is an error. The places in
    /// flight stay until the response's body has ended. An error holds none.
    pub(crate) fn answered(&mut self, head: Option<(StatusCode, &HeaderMap)>) {
        let Some(ticket) = &mut self.ticket else { return };
        match &self.settled_by {
            Some(state) if state.has_closures() => {
                ticket.settle_each(|rule| state.closures(rule)?.cost_by(head));
            }
            by => {
                if let (Some(cost_from), Some((status, headers))) =
                    (by.as_ref().and_then(|state| state.settings.cost_from.as_ref()), head)
                    && ticket.has_costs()
                    && let Some(cost) = cost_from(status, headers)
                {
                    // First: a status ends what a cost could change.
                    ticket.settle_cost(cost);
                }
                ticket.settle(head.map_or(NOT_ANSWERED, |(status, _)| status.as_u16()));
            }
        }
        if head.is_none() || ticket.is_empty() {
            self.ticket = None;
        }
    }

    /// Takes out what an answered request holds until the body of its response has ended.
    pub(crate) fn take_held(&mut self) -> Option<LayerTicket> {
        self.ticket.take()
    }
}

impl Drop for Charges {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take()
            && !self.is_served
        {
            match self.turns.take() {
                Some(turns) => turns.abandon(ticket),
                None => ticket.cancel(),
            }
        }
    }
}
