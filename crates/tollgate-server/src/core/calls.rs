//! The keys of `CL.THROTTLE`.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tollgate::{BuildError, PerCallLimiter};

use crate::clock::ServerClock;

/// A limiter whose quotas come with the calls.
pub(crate) type CallLimiter = PerCallLimiter<[u8], ServerClock>;

/// The limiter of `CL.THROTTLE`, which is exchanged for a new one when all keys are forgotten.
pub(crate) struct Calls {
    limiter: ArcSwap<CallLimiter>,
    clock: ServerClock,
    max_keys: usize,
}

impl Calls {
    pub(super) fn new(max_keys: usize, clock: ServerClock) -> Result<Self, BuildError> {
        Ok(Self { limiter: ArcSwap::from_pointee(build(max_keys, &clock)?), clock, max_keys })
    }

    /// The limiter, for one batch of calls.
    pub(crate) fn load(&self) -> Guard<Arc<CallLimiter>> {
        self.limiter.load()
    }

    /// Forgets all keys. A call that is decided meanwhile may be forgotten, too.
    ///
    /// It frees the old table: not for a thread of the runtime.
    pub(crate) fn clear(&self) -> Result<(), BuildError> {
        self.put(build(self.max_keys, &self.clock)?);
        Ok(())
    }

    /// Puts another limiter in its place, as one whose state was restored.
    pub(crate) fn put(&self, limiter: CallLimiter) {
        self.limiter.store(Arc::new(limiter));
    }
}

fn build(max_keys: usize, clock: &ServerClock) -> Result<CallLimiter, BuildError> {
    PerCallLimiter::builder().max_keys(max_keys).clock(Arc::clone(clock)).build()
}
