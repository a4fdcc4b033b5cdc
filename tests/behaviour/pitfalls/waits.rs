//! Waits are exact and rounded up.

use std::time::Duration;

use tollgate::{LeakyBucket, SlidingWindow, TokenBucket};

use super::{MS, One, SECOND, bucket, per};

/// Seen in ratelimit: five hints before a grant.
#[test]
fn a_third_of_a_second_is_333333334_nanoseconds() {
    let limit = One::new(bucket(3, 3).initial(0));
    let wait = 333_333_334;
    assert_eq!(limit.wait(0, 1), Some(wait));
    assert_eq!(limit.wait(wait - 1, 1), Some(1));
    assert!(limit.check(wait));
}

/// Seen in Bucket4j: 666,666,666 leaves no token.
#[test]
fn waits_grow_with_the_cost() {
    let limit = One::new(TokenBucket::new(per(3, 2 * SECOND)).initial(0));
    assert_eq!(limit.wait(0, 1), Some(666_666_667));
    let limit = One::new(bucket(1, 4).initial(0));
    assert_eq!(limit.wait(200 * MS, 1), Some(800 * MS));
    assert_eq!(limit.wait(200 * MS, 3), Some(2_800 * MS));
}

/// Seen in rate-net: early.
#[test]
fn a_sliding_window_has_an_exact_retry_after() {
    let limit = One::new(SlidingWindow::new(per(10, SECOND)));
    assert!(limit.check_n(0, 10));
    assert_eq!(limit.wait(500 * MS, 1), Some(600_000_000));
    assert!(!limit.check(1_099_999_999));
    assert!(limit.check(1_100_000_000));

    let limit = One::new(SlidingWindow::new(per(10, SECOND)));
    assert!(limit.check_n(0, 10));
    assert_eq!(limit.wait(500 * MS, 10), Some(1_500_000_000));
    assert!(limit.check_n(2 * SECOND, 10));
}

/// Seen in governor #102, #157.
#[test]
fn remaining_is_after_this_request() {
    let limit = One::new(bucket(4, 4));
    assert_eq!([(); 4].map(|()| limit.0.check(()).remaining()), [3, 2, 1, 0]);
}

/// The first request leaves at once, the next one interval later.
#[test]
fn a_queue_hands_out_departure_times_in_order() {
    let limit = One::new(LeakyBucket::queue(per(10, SECOND)).capacity(3));
    let delays = [0, 100, 200].map(Duration::from_millis);
    assert_eq!([(); 3].map(|()| limit.0.check(()).delay()), delays);
    assert_eq!(limit.wait(0, 1), Some(100 * MS));
}

/// A meter refuses what would overflow, and does not delay.
#[test]
fn a_meter_lets_its_capacity_act_at_once() {
    let limit = One::new(LeakyBucket::meter(per(10, SECOND)).capacity(3));
    assert_eq!([(); 3].map(|()| limit.0.check(()).delay()), [Duration::ZERO; 3]);
    assert_eq!(limit.wait(0, 1), Some(100 * MS));
}
