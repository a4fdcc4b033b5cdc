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
#[path = "stress/rounds.rs"]
mod rounds;
#[path = "stress/spinning.rs"]
mod spinning;
#[path = "stress/verbs.rs"]
mod verbs;

use tollgate::{Count, FixedWindow, LeakyBucket, Quota, Rate, SlidingLog, SlidingWindow, TokenBucket};

/// Nanoseconds a second.
const SECOND: u64 = 1_000_000_000;

/// Every algorithm, at `limit` a second.
fn every(limit: u64, count: Count) -> Vec<Quota> {
    let rate = Rate::per_second(limit);
    let mut quotas: Vec<Quota> = vec![
        FixedWindow::new(rate).count(count).into(),
        SlidingWindow::new(rate).count(count).into(),
        SlidingWindow::new(rate).subwindows(4).count(count).into(),
        SlidingLog::new(rate).count(count).into(),
    ];
    if count == Count::Allowed {
        quotas.push(TokenBucket::new(rate).into());
        quotas.push(LeakyBucket::meter(rate).into());
        quotas.push(LeakyBucket::queue(rate).into());
    }
    quotas
}
