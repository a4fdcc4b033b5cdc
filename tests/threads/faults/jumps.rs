//! Clocks that jump by hours in both directions while threads check.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate::{Clock, Limiter, ManualClock, Quota, Timestamp};

use super::every;

const HOUR: Duration = Duration::from_secs(3_600);

/// A clock that shows each thread another hour of the day, and from time to time an hour later than
/// ever before.
#[derive(Debug, Default)]
struct Jumping {
    readings: AtomicU64,
    latest: ManualClock,
}

impl Clock for Jumping {
    fn now(&self) -> Timestamp {
        let reading = self.readings.fetch_add(1, Relaxed);
        if reading.is_multiple_of(1_000) {
            self.latest.advance(HOUR);
        }
        // Back by up to a day, but not before zero.
        let back = HOUR.as_nanos() as u64 * (reading.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 59);
        Timestamp::from_nanos(self.latest.now().as_nanos().saturating_sub(back))
    }
}

/// Returns the most that a key may be admitted until the latest time: five at once and five an
/// hour. A fixed window, and the estimate of a sliding one, may admit twice the five in one hour,
/// not in more.
fn most(latest: Timestamp) -> u64 {
    let hours = latest.saturating_since(Timestamp::ZERO).as_secs().div_ceil(3_600);
    5 * (hours + 2)
}

fn jumps(quota: Quota) {
    let limiter = Limiter::builder(quota).per::<u64>().clock(Jumping::default()).build().unwrap();
    let admitted: [AtomicU64; 4] = Default::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for turn in 0..5_000 {
                    let key = turn % 4;
                    admitted[key].fetch_add(limiter.check(key as u64).is_allowed().into(), Relaxed);
                }
            });
        }
    });
    let latest = Timestamp::from_nanos(limiter.now().as_nanos()) + HOUR * 32;
    for admitted in &admitted {
        let admitted = admitted.load(Relaxed);
        assert!(admitted >= 5 && admitted <= most(latest), "{quota}: {admitted} by {latest}");
    }
    // An hour after the latest reading, the whole limit is available again.
    let (later, key) = (latest + HOUR * 2, 0);
    assert!(limiter.account(key).at(later).check_n(5).is_allowed(), "{quota}");
    assert!(!limiter.account(key).at(later).check().is_allowed(), "{quota}");
}

#[test]
fn a_clock_that_jumps_by_hours_mints_and_blocks_nothing() {
    every().into_iter().for_each(jumps);
}
