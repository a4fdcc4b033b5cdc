//! Faults of the engine's surroundings: memory that the system refuses, clocks that jump, user code
//! that panics in the middle of a call, and threads that stall there.
//!
//! After each fault no debt is forgiven, nothing is charged that was not requested, and the limiter
//! stays usable. A test can stop the engine where it calls user code (a clock, a key's hash, a
//! tier, an observer); `proof/protocol` stops it between any two steps.

mod jumps;
mod panics;
mod stalls;

use tollgate::{BuildError, Limiter, Quota, Rate, SlidingLog};

/// Every algorithm without delays, at five an hour.
fn every() -> Vec<Quota> {
    tollgate_testing::limits::every(Rate::per_hour(5)).into_iter().filter(|quota| !quota.is_queue()).collect()
}

/// A table of a thousand million rings of 16 million entries exceeds every machine.
#[test]
fn memory_that_the_system_refuses_is_an_error() {
    let quota = SlidingLog::new(Rate::per_hour(1 << 24));
    let builder = Limiter::builder(quota).per::<u64>().max_keys(1 << 30).memory_budget(usize::MAX);
    let needed = builder.memory().expect("it can be said how much it is");
    let refused = builder.build().map(|_| ());
    assert!(matches!(refused, Err(BuildError::OutOfMemory { bytes }) if bytes >= needed / 2), "{refused:?}");
}
