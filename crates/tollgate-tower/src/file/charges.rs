//! What an admitted request may still give back.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use http::{Extensions, HeaderMap, StatusCode};

use super::turns::Turns;
use super::{FileTicket, NotServed};

/// Reads what a request cost from the head of its response.
pub(super) type CostFrom = Arc<dyn Fn(StatusCode, &HeaderMap) -> Option<u64> + Send + Sync>;

/// A status that no rule lists: of a request that was not answered.
const NOT_ANSWERED: u16 = 0;

/// What an admitted request may still give back. Dropping it before the request is served gives
/// back all charges; dropping it later, only the places in flight.
#[derive(Default)]
pub(super) struct Charges {
    /// `None` if nothing can come back any more.
    ticket: Option<FileTicket>,
    /// The turns in queues that go to others with the charges.
    turns: Option<Box<Turns>>,
    cost_from: Option<CostFrom>,
    /// Whether all comes back if the response says that its request was not served.
    gives_back_unserved: bool,
    is_served: bool,
}

impl Charges {
    pub(super) fn new(
        ticket: Option<FileTicket>,
        turns: Option<Box<Turns>>,
        cost_from: Option<CostFrom>,
        gives_back_unserved: bool,
    ) -> Self {
        Self { ticket, turns, cost_from, gives_back_unserved, is_served: false }
    }

    /// The turns of a request that waits in queues.
    pub(super) fn turns(&self) -> Option<&Turns> {
        self.turns.as_deref()
    }

    /// Hands the request to the inner service by `call`. The client may leave now: what is charged
    /// stays.
    pub(super) fn serve<T>(&mut self, call: impl FnOnce() -> T) -> T {
        self.is_served = true;
        if let Some(turns) = self.turns.take() {
            turns.depart(self.ticket.as_mut());
        }
        self.guard(call)
    }

    /// Runs code of the inner service. If it panics, the request counts as not answered.
    pub(super) fn guard<T>(&mut self, act: impl FnOnce() -> T) -> T {
        if self.ticket.is_none() {
            return act();
        }
        catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
            drop(self.answered(None));
            resume_unwind(panic)
        })
    }

    /// Gives back all if the request was not served. Then [`answered`](Self::answered) finds
    /// nothing.
    pub(super) fn give_back_unserved(&mut self, response: &Extensions) {
        if self.gives_back_unserved && response.get::<NotServed>().is_some() {
            self.ticket.take().into_iter().for_each(FileTicket::cancel);
        }
    }

    /// Settles what the rules charge by the head of the response; `None` is an error. Returns what
    /// the request holds until the response's body has ended. An error holds nothing.
    pub(super) fn answered(&mut self, head: Option<(StatusCode, &HeaderMap)>) -> Option<FileTicket> {
        let mut ticket = self.ticket.take()?;
        if let (Some(cost_from), Some((status, headers))) = (&self.cost_from, head)
            && ticket.has_costs()
            && let Some(cost) = cost_from(status, headers)
        {
            // First: a status ends what a cost could change.
            ticket.settle_cost(cost);
        }
        ticket.settle(head.map_or(NOT_ANSWERED, |(status, _)| status.as_u16()));
        let holds_places = head.is_some() && !ticket.is_empty();
        holds_places.then_some(ticket)
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
