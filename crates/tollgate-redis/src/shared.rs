//! What all limiters of a connection share.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::store::Store;

/// Whose clock decides.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Time {
    /// The server's: one clock for all callers. Needs no agreement between the callers' clocks.
    #[default]
    Server,
    /// The caller's: the time since 1970, where the server refuses `TIME` in scripts.
    ///
    /// If the callers' clocks differ by up to `skew`, an interval of length `W` admits up to
    /// `burst + rate * (W + skew)`.
    Caller(Arc<dyn Fn() -> Duration + Send + Sync>),
}

impl Time {
    /// The system's clock of each caller.
    #[must_use]
    pub fn of_callers() -> Self {
        Self::Caller(Arc::new(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server => "Server",
            Self::Caller(_) => "Caller",
        })
    }
}

/// What all limiters of a connection share.
pub(crate) struct Shared {
    pub(crate) store: Arc<Store>,
    pub(crate) prefix: String,
    pub(crate) time: Time,
    pub(crate) slack: Duration,
}
