//! The names of charges, by which the store finds them again.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// A name that no other call has, in any process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallId(u64);

/// The name of the charge of one request of a call. Most are never written down: only a refund and
/// the log need them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChargeId {
    pub(crate) call: CallId,
    /// The number of the request in the call.
    pub(crate) number: usize,
}

impl CallId {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Relaxed))
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        static PROCESS: OnceLock<u64> = OnceLock::new();
        let process = PROCESS.get_or_init(|| {
            // A random number of the process, with the time at which it began.
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            RandomState::new().hash_one((now.as_nanos(), std::process::id()))
        });
        write!(f, "{process:x}.{:x}", self.0)
    }
}

impl fmt::Display for ChargeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.call, self.number)
    }
}
