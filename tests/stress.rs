//! Volume: real threads on one limiter, through the public API only. Interleavings one by one belong to loom.
//!
//! Nothing here sleeps, and every promise is exact: either time stands still while threads meet, or what is
//! asserted holds for whatever they did. A check that does not return ends the process: see `crew`.

#[path = "stress/crew.rs"]
mod crew;
#[path = "stress/full.rs"]
mod full;
#[path = "stress/meddling.rs"]
mod meddling;
#[path = "stress/moving.rs"]
mod moving;
mod quotas;
#[path = "stress/rounds.rs"]
mod rounds;
#[path = "stress/spinning.rs"]
mod spinning;
#[path = "stress/verbs.rs"]
mod verbs;

use tollgate::{CountPolicy, Quota, Rate};

/// Nanoseconds a second.
const SECOND: u64 = 1_000_000_000;

/// Every algorithm, at `limit` a second.
fn every(limit: u64, count: CountPolicy) -> Vec<Quota> {
    let every = if count == CountPolicy::All { quotas::counting_all } else { quotas::every };
    every(Rate::per_second(limit))
}
