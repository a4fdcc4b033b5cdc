//! Save and restore: restart without forgiving anyone.

mod damage;
mod exact;
mod gaps;
mod meanwhile;
mod sealed;
mod settings;
mod several;

use std::time::Duration;

use tollgate::{Limiter, ManualClock, Quota, Timestamp};

/// A limiter of short keys whose time a test moves.
type Subject = Limiter<u64, Quota, ManualClock>;

const SECOND: u64 = 1_000_000_000;

/// A clock that shows `at` nanoseconds since its zero, at Unix time `unix`.
fn clock(unix: u64, at: u64) -> ManualClock {
    let clock = ManualClock::starting_at(Duration::from_nanos(unix - at));
    clock.set(Timestamp::from_nanos(at));
    clock
}

/// What `limiter` saves.
fn saved(limiter: &Subject) -> Vec<u8> {
    let mut file = Vec::new();
    limiter.save(&mut file).expect("a vector takes all");
    file
}
