//! The clock of the server, and that of the world.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate::Clock;

/// The clock of everything that the server decides.
pub(crate) type ServerClock = Arc<dyn Clock + Send + Sync>;

/// The time of the system's clock.
pub(crate) fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
