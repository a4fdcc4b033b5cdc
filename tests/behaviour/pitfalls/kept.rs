//! Defects that the comparison with the model has found, as the shortest scripts.

use std::time::Duration;

use tollgate::{
    CountPolicy, FixedWindow, LeakyBucket, Limiter, ManualClock, Quota, SlidingLog, SlidingWindow, Timestamp,
    TokenBucket,
};
use tollgate_model::{CountPolicy::Allowed, Model};
use tollgate_testing::random::Random;

use super::{One, SECOND, UPTIME, per};

/// The largest refill time did not fit into a word and was truncated to a time in the past.
#[test]
fn a_bucket_of_a_huge_burst_refills_for_ten_years() {
    let quota = TokenBucket::new(per(5, 35_751_777_952_395_970)).burst(854_096_332_599);
    let limit = One::new(quota);
    assert!(limit.check_n(0, 854_096_332_599));
    assert_eq!(limit.remaining(UPTIME), 44);
}

#[test]
fn a_request_for_nothing_does_not_queue() {
    let limit = One::new(LeakyBucket::queue(per(1, SECOND)).capacity(2));
    assert!(limit.check_n(0, 2));
    assert_eq!(limit.0.account(()).at(Timestamp::ZERO).check_n(0).delay(), Duration::ZERO);
}

/// Panicked in debug builds.
#[test]
fn a_log_answers_requests_for_nothing_and_for_too_much() {
    let builder = Limiter::builder(SlidingLog::new(per(1, SECOND))).per::<str>();
    let limiter = builder.clock(ManualClock::new()).build().unwrap();
    for remaining in [1, 0] {
        assert!(limiter.check_n("alice", 2).is_never());
        assert!(limiter.check_n("alice", 0).is_allowed());
        assert_eq!(limiter.check_n("alice", 0).remaining(), remaining);
        let _ = limiter.check("alice");
    }
}

/// After a reset, entries that were never written counted as admissions at time zero.
#[test]
fn a_log_that_was_reset_holds_nothing() {
    let limit = One::new(SlidingLog::new(per(2, SECOND)));
    limit.0.account(()).reset();
    assert_eq!(limit.remaining(0), 2);
    assert!(limit.check(0));
    limit.0.account(()).reset();
    assert_eq!(limit.remaining(0), 2);
    limit.0.account(()).reset();
    assert_eq!(limit.remaining(0), 2);
    assert_eq!(limit.drain(0), 2);
}

/// The window of the answer was beyond the window numbers of a word, and a debug assertion failed.
#[test]
fn a_wait_of_many_years_is_answered() {
    let years = UPTIME / 10;
    for k in [1, 7, 24] {
        let limit = One::new(SlidingWindow::new(per(1, 50 * years)).subwindows(k));
        assert!(limit.check(0));
        assert!(limit.wait(0, 1) > Some(50 * years - SECOND));
        assert!(limit.wait(UPTIME, 1) > Some(40 * years - SECOND));
    }
    let limit = One::new(SlidingWindow::new(per(1, 50 * years)));
    assert!(limit.check(0));
    assert!(limit.wait(UPTIME, 1) > Some(40 * years - SECOND));
}

/// A peek at a refusal that would count read the clock instead of the newest entry.
#[test]
fn a_late_peek_sees_the_newest_entry_of_a_log() {
    let limit = One::new(SlidingLog::new(per(1, SECOND)).count(CountPolicy::All));
    assert!(limit.check(1));
    assert_eq!(limit.wait(0, 1), Some(SECOND + 1));
}

/// The ring of a recycled slot counted entries of its previous owner against the new one.
#[test]
fn a_recycled_slot_of_a_log_starts_empty() {
    let clock = ManualClock::new();
    // Two buckets. About eight of sixty keys are in debt at a time, so they fit even into one
    // bucket.
    let builder = Limiter::builder(SlidingLog::new(per(4, SECOND))).per::<u64>().max_keys(1);
    let limiter = builder.clock(clock.clone()).build().unwrap();
    let mut model =
        Model::new(tollgate_model::Algorithm::SlidingLog { limit: 4, window_ns: SECOND, count: Allowed });
    let (mut now, mut random) = (0, Random::with_seed(1));
    for step in 0..20_000 {
        now += random.u64(..SECOND / 4);
        let (key, cost) = (random.u64(..60), random.u64(1..=3));
        clock.set(Timestamp::from_nanos(now));
        let (found, expected) = (limiter.check_n(key, cost), model.check(&key.to_string(), now, cost));
        assert_eq!(
            (found.is_allowed(), found.remaining()),
            (expected.allowed, expected.remaining),
            "step {step}"
        );
    }
}

/// The window was asked to last to its end, which was after the end of the bucket's ten years.
#[test]
fn the_last_window_counts_what_comes_before_it() {
    let quotas: [Quota; 2] = [
        TokenBucket::new(per(1, 100_000_000 * SECOND)).burst(64).into(),
        FixedWindow::new(per(4, SECOND)).into(),
    ];
    let limiter = Limiter::builder(quotas).per::<str>().clock(ManualClock::new()).build().unwrap();
    for (at, left) in [(UPTIME, 3), (UPTIME - SECOND / 8, 2)] {
        let decision = limiter.account("alice").at(Timestamp::from_nanos(at)).check();
        assert!(decision.is_allowed());
        assert_eq!(decision.remaining(), left);
    }
}
