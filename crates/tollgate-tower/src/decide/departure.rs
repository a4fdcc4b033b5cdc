//! When a request leaves its queue.

use std::sync::Arc;

use tollgate::Timestamp;
use tollgate_rules::Line;

use super::generation::Generation;
use super::state::LayerState;
use super::turns::Turns;

/// When a request leaves its queue.
pub(crate) struct Departure {
    /// By the queues in which it cannot move up.
    pub(super) fixed: Timestamp,
    /// The line of the rule that lets it wait longest.
    pub(super) line: Line,
    pub(super) generation: Arc<Generation>,
    pub(super) since: Timestamp,
}

impl Departure {
    /// Returns when the request departs, which has these turns.
    pub(crate) fn at(&self, turns: Option<&Turns>) -> Timestamp {
        turns.and_then(Turns::last).map_or(self.fixed, |last| last.max(self.fixed))
    }

    /// Counts the request as one that waits.
    pub(crate) fn begin(&self) {
        self.generation.telemetry(&self.line).begin_wait();
    }

    /// The request departs.
    pub(crate) fn depart(&self, state: &LayerState) {
        let waited = state.clock.now().saturating_since(self.since);
        self.generation.telemetry(&self.line).report_wait(waited);
    }

    /// The request does not wait any more: it departs, or its client left.
    pub(crate) fn end(&self) {
        self.generation.telemetry(&self.line).end_wait();
    }
}
