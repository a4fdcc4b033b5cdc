//! No remainder is lost, and no rate is rounded.
//!
//! If a vector polls a bucket, the bucket here holds two tokens. A full bucket would lose the time
//! between a token's arrival and the next poll.

use tollgate::{Rate, TokenBucket};

use super::{HOUR, MINUTE, MS, One, SECOND, per};

/// Returns how many requests an initially empty bucket admits if it is polled until `end`.
fn polled(rate: Rate, every: u64, end: u64) -> u64 {
    let limit = One::new(TokenBucket::new(rate).burst(2).initial(0));
    (0..=end.div_ceil(every)).filter(|poll| limit.check(poll * every)).count() as u64
}

/// Seen in ratelimit 2.0: 5.
#[test]
fn one_an_hour_is_ten_in_ten_hours() {
    assert_eq!(polled(per(1, HOUR), 7_190_000, 10 * HOUR), 10);
    assert_eq!(polled(per(1, HOUR), 36_000_000, 10 * HOUR), 10);
}

/// Seen in ratelimit 2.0: 5, and 53 of 60.
#[test]
fn quick_polls_lose_no_fraction_of_a_token() {
    assert_eq!(polled(per(1, MINUTE), 1_199_900, 10 * MINUTE), 10);
    assert_eq!(polled(per(1, MINUTE), 119_990, MINUTE), 1);
    assert_eq!(polled(per(3, SECOND), 1_500, 2 * SECOND), 6);
    assert_eq!(polled(per(3, SECOND), 15_000, 20 * SECOND), 60);
}

/// Seen in governor: up to 67 % over; Guava, Envoy, firecracker: under.
#[test]
fn the_long_run_rate_is_the_configured_one() {
    for rate in [3, 7, 80, 300, 600, 700, 999, 2_000, 10_000].map(|millions| millions * 1_000_000) {
        let share = rate / 100;
        let limit = One::new(TokenBucket::new(Rate::per_second(rate)).burst(share).initial(0));
        for hundredth in 1..=1_000 {
            let at = hundredth * 10 * MS;
            assert!(limit.check_n(at, share), "{rate}/s is short of {share} at {at} ns");
            assert!(!limit.check(at), "{rate}/s has more than {share} at {at} ns");
        }
    }
}

/// Rates that do not divide a nanosecond, over nine years.
#[test]
fn odd_rates_are_exact_to_a_billionth_over_years() {
    let odd =
        [per(14_500, MINUTE), per(999_983, SECOND), per(700_000, HOUR), per(1, 24 * HOUR), per(7, SECOND)];
    let years = 9 * 31_557_600 * SECOND;
    for rate in odd {
        let period = u64::try_from(rate.period().as_nanos()).unwrap();
        let limit = One::new(TokenBucket::new(rate).burst(2).initial(0));
        // The bucket gives one token exactly when it arrives, then the next one after that.
        let first = limit.wait(0, 1).unwrap();
        let expected = period.div_ceil(rate.count());
        assert!(expected - first <= 1, "{rate}: {first} instead of {expected}");
        let flowed = u128::from(years) * u128::from(rate.count()) / u128::from(period);
        let whole = One::new(TokenBucket::new(rate).burst(u64::try_from(flowed).unwrap() * 2).initial(0));
        let found = u128::from(whole.remaining(years));
        assert!(found.abs_diff(flowed) <= flowed / 1_000_000_000 + 1, "{rate}: {found} instead of {flowed}");
    }
}

/// Seen in Bucket4j.
#[test]
fn a_bucket_fills_evenly_within_its_period() {
    let limit = One::new(TokenBucket::new(per(10, 100)).initial(0));
    assert_eq!(limit.drain(97), 9);
    assert_eq!(limit.wait(97, 1), Some(3));
    assert_eq!(limit.drain(100), 1);
}

/// Polled every 60 ms, where the vector polls every millisecond.
#[test]
fn one_a_minute_is_1440_a_day_and_the_first() {
    let limit = One::new(TokenBucket::new(per(1, MINUTE)));
    let day = 24 * HOUR;
    let granted = (0..=day / (60 * MS)).filter(|poll| limit.check(poll * 60 * MS)).count();
    assert_eq!(granted, 1441);
}
