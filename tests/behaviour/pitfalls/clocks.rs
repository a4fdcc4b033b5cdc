//! Late clocks, concurrent threads, and bursts after idling.

use tollgate::{SlidingLog, TokenBucket};

use super::{HOUR, MS, One, SECOND, bucket, per};

/// Seen in golang/go #56287: 100 of 100.
#[test]
fn alternating_timestamps_mint_no_tokens() {
    let limit = One::new(bucket(20, 3));
    let times = [10_100 * MS, 10_000 * MS].into_iter().cycle().take(100);
    assert_eq!(times.filter(|&at| limit.check(at)).count(), 3);
}

/// Seen in x/time/rate, TestLimiterJumpBackwards.
#[test]
fn a_jump_back_grants_no_more_than_the_time_reached() {
    let limit = One::new(bucket(10, 3));
    let [t0, t1, t2] = [0, 100, 200].map(|ms| SECOND + ms * MS);
    let granted = |times: &[u64]| times.iter().filter(|&&at| limit.check(at)).count();
    let by_t1 = granted(&[t1, t0, t0, t0, t0, t1, t1]);
    assert_eq!(by_t1, 3);
    assert_eq!(by_t1 + granted(&[t2, t2]), 4);
}

/// Seen in quanta #111.
#[test]
fn cores_with_different_clocks_share_a_limit_exactly() {
    let limit = One::new(bucket(20, 3));
    let (ahead, behind) = (10_000 * MS, 8_400 * MS);
    let times = [ahead, behind].into_iter().cycle().take(100);
    assert_eq!(times.filter(|&at| limit.check(at)).count(), 3);
    let honest = limit.wait(ahead, 1).unwrap();
    assert!(honest <= 50 * MS);
    assert!(limit.wait(behind, 1).unwrap() <= honest + 1_600 * MS);
}

/// Seen in ratelimit 2.0: spurious refusals.
#[test]
fn twenty_threads_get_exactly_the_ten_tokens_there_are() {
    for _ in 0..20 {
        let limit = One::new(bucket(10, 10).initial(0));
        let granted: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..20).map(|_| scope.spawn(|| usize::from(limit.check(SECOND)))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(granted, 10);
    }
}

/// Seen in governor #107, #249.
#[test]
fn a_long_pause_gives_one_burst_and_no_extra_cell() {
    let limit = One::new(bucket(5, 5));
    assert_eq!(limit.drain(0), 5);
    assert_eq!(limit.drain(2 * SECOND), 5);
}

/// throttlecrab admits 17 and 12.
#[test]
fn a_short_pause_gives_one_burst() {
    for pause in [17_999 * MS, 12 * SECOND] {
        let limit = One::new(TokenBucket::new(per(60, 60 * SECOND)).burst(10));
        assert_eq!(limit.drain(0), 10);
        assert_eq!(limit.drain(pause), 10);
    }
}

/// Seen in governor, rejects_too_many.
#[test]
fn two_a_second_means_two_then_two_a_second_later() {
    let limit = One::new(bucket(2, 2));
    let granted = [0, 1, 2, 1002, 1003, 1004].map(|ms| limit.check(ms * MS));
    assert_eq!(granted, [true, true, false, true, true, false]);
}

/// Seen in governor #16, Bucket4j #128.
#[test]
fn an_initially_empty_bucket_admits_one_burst_in_a_period() {
    let first_period = |quota| {
        let limit = One::new(quota);
        let granted: u64 = (0..3600).map(|second| limit.drain(second * SECOND)).sum();
        granted + limit.drain(HOUR - 1)
    };
    assert_eq!(first_period(TokenBucket::new(per(100, HOUR))), 199); // and the 200th later
    assert_eq!(first_period(TokenBucket::new(per(100, HOUR)).initial(0)), 99);
}

/// A clock steps back after a refund. What is admitted for two must be admitted for one.
#[test]
fn a_smaller_request_is_admitted_where_a_larger_one_is() {
    for (early, refunded) in [(100, 1), (900, 1), (900, 2), (900, 3)] {
        for late in (950..3_200).step_by(50) {
            let limit = One::new(SlidingLog::new(per(3, 1_000)));
            assert!(limit.check_n(early, 1));
            let later = limit.0.account(()).at(tollgate::Timestamp::from_nanos(1_150));
            if refunded < 3 {
                let taken = later.check_n(refunded);
                assert!(taken.is_allowed() && later.refund(taken) == refunded);
            }
            // The clock is behind now.
            assert!(limit.check_n(920, 2));
            let most = limit.remaining(late);
            for cost in 1..=3 {
                let what = format!("{cost} at {late}, after {refunded} at {early}");
                assert_eq!(limit.wait(late, cost).is_none(), cost <= most, "{what}: {most} are left");
            }
        }
    }
}
