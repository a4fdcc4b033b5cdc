//! `/v1/settle` and `/v1/release`: what became of a request.

use http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize};
use tollgate_rules::Ticket;

use super::body::read;
use super::service::Service;
use super::tickets::{TicketId, Tickets};
use crate::core::ServerClock;
use crate::web::{Answer, json, problem, problem_at};

/// The body of `/v1/settle` and of `/v1/release`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settlement {
    ticket: String,
    /// The status of the response.
    #[serde(default, deserialize_with = "present")]
    status: Option<u16>,
    /// What the request cost after all.
    #[serde(default, deserialize_with = "present")]
    cost: Option<u64>,
}

/// The fields of a settlement.
pub(super) const FIELDS: [&str; 3] = ["ticket", "status", "cost"];

/// The answer.
#[derive(Debug, Serialize)]
pub(super) struct Settled {
    pub(super) settled: bool,
}

impl Service {
    /// Settles the ticket of a check or a reservation.
    pub(super) fn settle(&self, body: &[u8]) -> Answer {
        let settlement = match read::<Settlement>(body) {
            Ok(settlement) => settlement,
            Err(answer) => return *answer,
        };
        if settlement.status.is_none() && settlement.cost.is_none() {
            return problem_at("", "either `status` or `cost` is needed");
        }
        self.end(&self.tickets, settlement)
    }

    /// Gives back the places in flight of a ticket.
    pub(super) fn release(&self, body: &[u8]) -> Answer {
        match read::<Settlement>(body) {
            Ok(settlement) => self.end(&self.places, settlement),
            Err(answer) => *answer,
        }
    }

    fn end(&self, tickets: &Tickets, Settlement { ticket, status, cost }: Settlement) -> Answer {
        if let Some((pointer, detail)) = mistake(status, cost) {
            return problem_at(pointer, detail);
        }
        let id = ticket.parse::<TicketId>().ok();
        let Some(ticket) = id.and_then(|id| tickets.take(id, self.core.now())) else {
            let detail = "the ticket was settled, has ended, was lost, or never was";
            return problem(StatusCode::NOT_FOUND, detail);
        };
        settle(ticket, status, cost);
        json(StatusCode::OK, &Settled { settled: true })
    }
}

fn settle(mut ticket: Ticket<ServerClock>, status: Option<u16>, cost: Option<u64>) {
    if cost == Some(0) {
        ticket.cancel();
    } else if let Some(status) = status {
        ticket.settle(status);
    }
}

/// What is wrong with a settlement.
fn mistake(status: Option<u16>, cost: Option<u64>) -> Option<(&'static str, &'static str)> {
    match (status, cost) {
        (Some(_), Some(_)) => Some(("/cost", "there is a `status`, too")),
        (Some(status), None) if !(100..=599).contains(&status) => {
            Some(("/status", "a status is between 100 and 599"))
        }
        (None, Some(cost)) if cost != 0 => Some(("/cost", "only 0 can be told: all is given back")),
        _ => None,
    }
}

/// Reads a field that may be left out, and is not null.
fn present<'b, D: Deserializer<'b>, T: Deserialize<'b>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
