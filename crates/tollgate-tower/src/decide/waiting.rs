//! Counts the requests that wait in queues.

use std::sync::Arc;

use tollgate::Timestamp;

use super::state::LayerState;
use crate::telemetry::RuleTelemetry;

/// A request that waits in the queue of a rule, until it is dropped.
pub(super) struct Waiting {
    state: Arc<LayerState>,
    /// The index of the rule.
    rule: usize,
    since: Timestamp,
}

impl Waiting {
    pub(super) fn begin(state: &Arc<LayerState>, rule: usize) -> Self {
        state.rules[rule].telemetry.begin_wait();
        Self { state: Arc::clone(state), rule, since: state.clock.now() }
    }

    /// Reports how long the request waited.
    pub(super) fn depart(self) {
        self.telemetry().report_wait(self.state.clock.now().saturating_since(self.since));
    }

    fn telemetry(&self) -> &RuleTelemetry {
        &self.state.rules[self.rule].telemetry
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.telemetry().end_wait();
    }
}
