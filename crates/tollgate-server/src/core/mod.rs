//! The rules in force, and who asks them.

mod decider;

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use tokio_util::sync::CancellationToken;
use tollgate::{BuildError, Clock, PerCallLimiter};
use tollgate_rules::LiveRules;

use crate::metrics::Metrics;
use crate::state::StateReport;
pub(crate) use decider::{Decider, Free};

/// The clock of everything that the server decides.
pub(crate) type ServerClock = Arc<dyn Clock + Send + Sync>;

/// How many free deciders are kept. A busy moment may make more, which are then dropped.
const FREE: usize = 64;

/// What all listeners share.
pub(crate) struct Core {
    pub(crate) live: LiveRules<ServerClock>,
    /// The keys of `CL.THROTTLE`.
    pub(crate) calls: PerCallLimiter<[u8], ServerClock>,
    pub(crate) clock: ServerClock,
    pub(crate) metrics: Metrics,
    /// Cancelled when the server was told to end: it still serves, but is not ready any more.
    pub(crate) draining: CancellationToken,
    /// What became of the state file.
    pub(crate) state: StateReport,
    free: ArrayQueue<Box<Decider>>,
}

impl Core {
    pub(crate) fn new(
        live: LiveRules<ServerClock>,
        clock: ServerClock,
        max_keys: usize,
    ) -> Result<Self, BuildError> {
        let calls = PerCallLimiter::builder().max_keys(max_keys).clock(Arc::clone(&clock)).build()?;
        let (draining, state) = (CancellationToken::new(), StateReport::default());
        Ok(Self { live, calls, clock, metrics: Metrics::new(), draining, state, free: ArrayQueue::new(FREE) })
    }

    /// A decider that no other task uses, until it is dropped.
    pub(crate) fn decider(&self) -> Free<'_> {
        let decider = self.free.pop().unwrap_or_else(|| Box::new(Decider::new(self.live.handle())));
        Free::new(decider, &self.free)
    }
}
