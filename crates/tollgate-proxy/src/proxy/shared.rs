//! What the proxy has in common with the rest of the server.

use std::sync::Arc;

use tollgate_net::Limits;
use tollgate_net::counts::ListenerCounts;

use crate::Generations;
use crate::park::Parks;

/// What the proxy shares with the rest of the server.
pub struct Shared {
    /// The rules in force.
    pub generations: Arc<Generations>,
    /// Requests that are kept for later.
    pub parks: Arc<Parks>,
    /// The counts of the proxy's connections.
    pub counts: Arc<ListenerCounts>,
    /// What its connections may use.
    pub limits: Limits,
}
