//! Volume: threads on one limiter through the public API. Loom checks single interleavings.
//!
//! The tests do not sleep, and every promise is exact: either time stands still while threads
//! contend, or the assertion holds for any sequence of their operations. A check that does not
//! return ends the process: see `crew`.

pub(crate) mod crew;
mod full;
mod meddling;
mod moving;
mod rounds;
mod spinning;
mod verbs;

use tollgate::{CountPolicy, Quota, Rate};
use tollgate_testing::limits;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// Every algorithm, at `limit` a second.
fn every(limit: u64, count: CountPolicy) -> Vec<Quota> {
    let every = if count == CountPolicy::All { limits::counting_all } else { limits::every };
    every(Rate::per_second(limit))
}
