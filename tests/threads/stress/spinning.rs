//! Threads that check without a pause, in real time.

use std::time::{Duration, Instant};

use tollgate::{Limiter, Rate, Timestamp, TokenBucket};

use super::SECOND;
use super::crew::crew;

const RATE: u64 = 1_000;
const BURST: u64 = 1_000;

/// Returns the most that a full bucket admits between two readings of the limiter's clock.
fn bound(from: Timestamp, to: Timestamp) -> u64 {
    BURST + (to.as_nanos() - from.as_nanos()) * RATE / SECOND
}

fn spin(now: impl Fn() -> Timestamp + Sync, check: impl Fn() -> bool + Sync) {
    let before_first = now();
    assert!(check());
    let after_first = now();
    // The bucket is emptied first: a full bucket would lose the refill while the crew starts.
    let drained = std::iter::repeat_with(&check).take_while(|&passes| passes).count() as u64;
    let end = Instant::now() + Duration::from_millis(700);
    let admitted = crew(8, |worker| {
        let mut admitted = 0;
        while Instant::now() < end {
            admitted += u64::from(check());
            worker.count_operation();
        }
        admitted
    });
    let before_last = now();
    let rest = std::iter::repeat_with(&check).take_while(|&passes| passes).count() as u64;
    let admitted = 1 + drained + rest + admitted.iter().sum::<u64>();
    assert!(admitted <= bound(before_first, now()), "{admitted} is too much");
    // No refill was lost either: the bucket was never full in between, and at the end it was empty.
    assert!(admitted + 1 >= bound(after_first, before_last), "{admitted} is too little");
}

/// better-bucket admits 1.37 million for 2,500.
#[test]
fn spinning_threads_get_the_limit_of_one_key_exactly() {
    let quota = TokenBucket::new(Rate::per_second(RATE)).burst(BURST);
    let limiter = Limiter::builder(quota).per::<u64>().build().unwrap();
    spin(|| limiter.now(), || limiter.check(7).is_allowed());
}

#[test]
fn spinning_threads_get_a_global_limit_exactly() {
    let quota = TokenBucket::new(Rate::per_second(RATE)).burst(BURST);
    let limiter = Limiter::builder(quota).build().unwrap();
    spin(|| limiter.now(), || limiter.check(()).is_allowed());
}
