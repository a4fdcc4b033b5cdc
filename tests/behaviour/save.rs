//! Save and restore: a restart forgives no debt.

mod changed;
mod damage;
mod exact;
mod file;
mod gaps;
mod in_one_file;
mod meanwhile;
mod sealed;
mod settings;
mod several;
mod successor;

use std::time::Duration;

use tollgate::{Limiter, ManualClock, Quota, Timestamp};

/// A limiter with a clock that the test moves.
type Subject = Limiter<u64, Quota, 1, ManualClock>;

const SECOND: u64 = 1_000_000_000;

/// A clock that shows `at` nanoseconds and the Unix time `unix`.
fn clock(unix: u64, at: u64) -> ManualClock {
    let clock = ManualClock::starting_at(Duration::from_nanos(unix - at));
    clock.set(Timestamp::from_nanos(at));
    clock
}

/// Returns the file of a limiter.
fn saved(limiter: &Subject) -> Vec<u8> {
    let mut file = Vec::new();
    limiter.save(&mut file).expect("a vector takes all");
    file
}
