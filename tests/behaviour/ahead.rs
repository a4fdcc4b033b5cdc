//! Batches and prepared keys, which prefetch: both decide exactly as single checks do.

mod batch;
mod prepared;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tollgate::{Clock, Decision, Limiter, ManualClock, Quota, Rate, Timestamp};

const SECOND: Duration = Duration::from_secs(1);

/// The limits a second of the three tiers.
const LIMITS: [u64; 3] = [3, 1, 7];

/// Every algorithm in three tiers.
fn every() -> Vec<[Quota; 3]> {
    let tiers = LIMITS.map(|limit| tollgate_testing::limits::every(Rate::per_second(limit)));
    (0..tiers[0].len()).map(|which| [0, 1, 2].map(|tier| tiers[tier][which])).collect()
}

/// The table has room for all keys of a test.
fn limiter(tiers: [Quota; 3]) -> Limiter<u64, Quota, 1, ManualClock> {
    Limiter::builder(tiers[0])
        .per()
        .tier(tiers[1])
        .tier(tiers[2])
        .max_keys(10_000)
        .clock(ManualClock::new())
        .build()
        .unwrap()
}

/// Every field of a decision. A log's numbers are read when they are asked for, so ask at once.
fn all_of(decision: Decision<'_>) -> String {
    format!("{decision:?}")
}

/// A clock that counts its readings and advances by a second at each.
#[derive(Clone, Default)]
struct Counting(Rc<Cell<u64>>);

impl Counting {
    fn readings(&self) -> u64 {
        self.0.get()
    }
}

impl Clock for Counting {
    fn now(&self) -> Timestamp {
        self.0.set(self.0.get() + 1);
        Timestamp::ZERO + SECOND * u32::try_from(self.0.get()).unwrap()
    }
}
