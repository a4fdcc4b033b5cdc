//! Faults of what the engine calls and stands on: memory that is refused, clocks that jump, user code that panics in the
//! middle of a call, and threads that stall there.
//!
//! After each of them nobody is forgiven, nobody is charged for what was not asked, and everything goes on. Where the
//! engine calls out (a clock, a key's name, a tier, an observer) a test can stop it; `crates/tollgate-protocol` stops it
//! between any two steps.

mod hooked;
mod jumps;
mod panics;
mod stalls;

use tollgate::{BuildError, Limiter, Quota, Rate, SlidingLog};

/// Every algorithm that answers at once, at five an hour.
fn every() -> Vec<Quota> {
    crate::quotas::every(Rate::per_hour(5)).into_iter().filter(|quota| !quota.is_queue()).collect()
}

/// A table of a thousand million rings of 16 million entries: no machine has that.
#[test]
fn memory_that_the_system_refuses_is_an_error() {
    let quota = SlidingLog::new(Rate::per_hour(1 << 24));
    let builder = Limiter::<u64, _>::builder(quota).max_keys(1 << 30).memory_budget(usize::MAX);
    let needed = builder.memory().expect("it can be said how much it is");
    let refused = builder.build().map(|_| ());
    assert!(matches!(refused, Err(BuildError::OutOfMemory { bytes }) if bytes >= needed / 2), "{refused:?}");
}
