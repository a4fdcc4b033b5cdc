//! What is looked at ahead of its turn: a batch of keys, and a key that is prepared. Neither decides otherwise than
//! one check after the other would.

mod batch;
mod prepared;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tollgate::{Clock, Decision, Limiter, ManualClock, Quota, Rate, Timestamp};

const SECOND: Duration = Duration::from_secs(1);

/// The limits of the three tiers, a second.
const LIMITS: [u64; 3] = [3, 1, 7];

/// Three tiers of every algorithm.
fn every() -> Vec<[Quota; 3]> {
    let tiers = LIMITS.map(|limit| crate::quotas::every(Rate::per_second(limit)));
    (0..tiers[0].len()).map(|which| [0, 1, 2].map(|tier| tiers[tier][which])).collect()
}

/// A key's tier is its number's remainder by 3. Many more keys fit than are asked for: no bucket is ever full.
fn limiter(tiers: [Quota; 3]) -> Limiter<u64, Quota, ManualClock> {
    Limiter::builder(tiers[0])
        .tier(tiers[1])
        .tier(tiers[2])
        .tier_by(|key| (key % 3) as usize)
        .max_keys(10_000)
        .clock(ManualClock::new())
        .build()
        .unwrap()
}

/// All that a decision says. The log's numbers are those of this moment, so this is asked at once.
fn all_of(decision: Decision<'_>) -> String {
    format!("{decision:?}")
}

/// A clock that counts how often it is read, and moves on by a second each time.
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
