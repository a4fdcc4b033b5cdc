//! The writes of a call, counted.

use std::time::Duration;

use crate::algorithm::CallQuota;
use crate::clock::ManualClock;
use crate::limiter::PerCallLimiter;
use crate::rate::Rate;
use crate::sync::counted::{Writes, writes_of};

const NOTHING: Writes = Writes { exchanges: 0, stores: 0 };

#[test]
fn a_call_that_is_not_charged_writes_nothing() {
    let limiter = PerCallLimiter::<u64, _>::builder().max_keys(1).clock(ManualClock::new()).build().unwrap();
    let quota = CallQuota::new(Rate::per_hour(3), 3).unwrap();
    let writes = |key, cost| writes_of(|| limiter.check(&key, quota, cost).is_ok()).0;
    let peek_writes = |key, cost| writes_of(|| limiter.peek(&key, quota, cost).is_ok()).0;
    assert_eq!([writes(1, 0), writes(1, 4), peek_writes(1, 3)], [NOTHING; 3]);
    assert_eq!(writes(1, 2).exchanges, 4, "an insertion, counted");
    assert_eq!(writes(1, 1), Writes { exchanges: 1, stores: 0 });
    assert_eq!([writes(1, 1), writes(1, 0), writes(1, 4), peek_writes(1, 1)], [NOTHING; 4]);
    assert_eq!(writes_of(|| limiter.prepare(&1).credit(Duration::from_nanos(1))).0.exchanges, 4);
    assert_eq!(writes_of(|| limiter.prepare(&1).reset()).0.exchanges, 6);
    // A full table counts what it refuses.
    (0..500).for_each(|key| drop(limiter.check(&key, quota, 3)));
    let is_full = (500..).find(|key| limiter.peek(key, quota, 1).is_err()).unwrap();
    assert_eq!(peek_writes(is_full, 1), NOTHING);
    assert_eq!(writes(is_full, 1), Writes { exchanges: 1, stores: 0 });
}
