//! `/v1/settle` and `/v1/release`: what became of a request.

use http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize};
use tollgate_net::web::{Answer, json, problem, problem_at};

use super::tickets::{TicketId, Tickets};
use crate::core::Core;
use crate::web::{Object, read_json};

/// The body of `/v1/settle` and of `/v1/release`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settlement {
    ticket: String,
    /// The status of the response.
    #[serde(default, deserialize_with = "present")]
    status: Option<u16>,
    /// What the request really cost.
    #[serde(default, deserialize_with = "present")]
    cost: Option<u64>,
    /// Whether the request was not served.
    #[serde(default)]
    cancel: bool,
}

/// The fields of a settlement.
#[cfg(test)]
pub(super) const FIELDS: [&str; 4] = ["ticket", "status", "cost", "cancel"];

/// The answer.
#[derive(Debug, Serialize)]
pub(super) struct Settled {
    pub(super) settled: bool,
    /// How many units of the cost are charged, by the rule that charged least of it. `None`: there
    /// was no cost, or no rule's cost could be settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) charged: Option<u64>,
}

/// Settles the ticket of a check or a reservation.
pub(super) fn settle(core: &Core, tickets: &Tickets, body: &[u8]) -> Answer {
    let settlement = match read_json::<Object<Settlement>>(body) {
        Ok(Object(settlement)) => settlement,
        Err(answer) => return *answer,
    };
    if settlement.status.is_none() && settlement.cost.is_none() && !settlement.cancel {
        return problem_at("", "a `status` is needed, a `cost`, or `cancel`");
    }
    end(core, tickets, settlement)
}

/// Gives back the places in flight of a ticket.
pub(super) fn release(core: &Core, places: &Tickets, body: &[u8]) -> Answer {
    match read_json::<Object<Settlement>>(body) {
        Ok(Object(settlement)) => end(core, places, settlement),
        Err(answer) => *answer,
    }
}

fn end(core: &Core, tickets: &Tickets, settlement: Settlement) -> Answer {
    let Settlement { ticket, status, cost, cancel } = settlement;
    if status.is_some_and(|status| !(100..=599).contains(&status)) {
        return problem_at("/status", "a status is between 100 and 599");
    }
    if cancel && (status.is_some() || cost.is_some()) {
        return problem_at("/cancel", "there is a `status` or a `cost`, too");
    }
    let id = ticket.parse::<TicketId>().ok();
    let Some(mut ticket) = id.and_then(|id| tickets.take(id, core.now())) else {
        let detail = "the ticket was settled, has ended, was lost, or never was";
        return problem(StatusCode::NOT_FOUND, detail);
    };
    // First: a status ends what a cost could change.
    let cost = cost.filter(|_| ticket.has_costs());
    let charged = cost.map(|cost| ticket.settle_cost(cost));
    match status {
        Some(status) => ticket.settle(status),
        None if cancel => ticket.cancel(),
        None => {}
    }
    json(StatusCode::OK, &Settled { settled: true, charged })
}

/// Reads a field that may be left out, and is not null.
fn present<'b, D: Deserializer<'b>, T: Deserialize<'b>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
