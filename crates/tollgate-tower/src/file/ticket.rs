//! What a request may still give back.

use tollgate_rules::Ticket;

use crate::rule::SharedClock;

/// What a request may still give back.
pub(crate) type FileTicket = Ticket<SharedClock>;
