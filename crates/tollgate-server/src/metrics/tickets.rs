//! The counts of tickets.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Metrics;
use super::text::Text;

/// The tickets of one kind.
#[derive(Debug, Default)]
pub(crate) struct TicketCounts {
    /// How many there may be.
    pub(crate) most: AtomicU64,
    pub(crate) kept: AtomicU64,
    /// Those that another ticket displaced.
    pub(crate) lost: AtomicU64,
    /// Those that found no room.
    pub(crate) refused: AtomicU64,
}

/// What requests have tickets, in the order of [`Metrics::tickets`].
const KINDS: [&str; 2] = ["check", "acquire"];

impl Metrics {
    pub(super) fn write_tickets(&self, text: &mut Text) {
        type Count = fn(&TicketCounts) -> &AtomicU64;
        let families: [(&str, &str, &str, Count); 4] = [
            ("tollgate_tickets", "gauge", "Tickets of requests that may be settled or released.", |of| {
                &of.kept
            }),
            ("tollgate_tickets_max", "gauge", "The most such tickets.", |of| &of.most),
            ("tollgate_tickets_lost_total", "counter", "Tickets that another one displaced.", |of| &of.lost),
            ("tollgate_tickets_refused_total", "counter", "Tickets that found no room.", |of| &of.refused),
        ];
        for (name, kind, help, count) in families {
            text.family(name, kind, help);
            for (of, counts) in KINDS.into_iter().zip(&self.tickets) {
                text.sample(&[("kind", of)], count(counts).load(Relaxed));
            }
        }
    }
}
