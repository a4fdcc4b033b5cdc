//! The operating system's monotonic clock.

use std::time::{Duration, Instant};

use crate::clock::{Clock, unix_now};
use crate::time::{Timestamp, nanos};

/// The operating system's monotonic clock, which shows zero when it is created. A reading takes
/// about 20 ns on Linux.
///
/// It never steps back, and only the kernel's slewing adjusts it. It costs more than
/// [`TscClock`](crate::TscClock), and is right even where a virtual machine's time stamp counter is
/// not.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    zero: Instant,
    unix_at_zero: Duration,
}

impl SystemClock {
    /// A clock that shows zero now.
    #[must_use]
    pub fn new() -> Self {
        Self { zero: Instant::now(), unix_at_zero: unix_now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(nanos(self.zero.elapsed()))
    }

    fn unix_at_zero(&self) -> Duration {
        self.unix_at_zero
    }

    fn unix_now(&self) -> Duration {
        unix_now()
    }
}
