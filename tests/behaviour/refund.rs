//! The units that a refund returns, and the limits of refunds.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{
    CountPolicy, Decision, FixedWindow, LeakyBucket, Limiter, ManualClock, Quota, Rate, SlidingLog,
    SlidingWindow, Timestamp, TokenBucket,
};
use tollgate_testing::clocks::{Hooked, Yielding, at_reading};

fn limiter(quota: impl Into<Quota>) -> (Limiter<u64, Quota, 1, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(Into::<Quota>::into(quota))
        .per()
        .clock(clock.clone())
        .max_keys(100)
        .build()
        .unwrap();
    (limiter, clock)
}

fn left(limiter: &Limiter<u64, Quota, 1, ManualClock>, key: u64) -> u64 {
    limiter.account(key).at(limiter.now()).peek_n(0).remaining()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn all_five() -> Vec<Quota> {
    tollgate_testing::limits::every(Rate::per_second(10))
}

#[test]
fn a_refund_at_once_gives_all_back() {
    for quota in all_five() {
        let (limiter, _) = limiter(quota);
        assert!(limiter.check_n(1, 2).is_allowed());
        let decision = limiter.check_n(1, 3);
        assert_eq!(left(&limiter, 1), 5, "{quota}");
        assert_eq!(limiter.refund(decision), 3, "{quota}");
        assert_eq!(left(&limiter, 1), 8, "{quota}");
    }
}

#[test]
fn refusals_peeks_and_cost_zero_give_nothing_back() {
    for quota in all_five() {
        let (limiter, _) = limiter(quota);
        assert!(limiter.check_n(1, 10).is_allowed());
        let refused = limiter.check(1);
        assert!(!refused.is_allowed(), "{quota}");
        for took_nothing in [refused, limiter.peek(2), limiter.check_n(1, 0), limiter.check_n(1, 11)] {
            assert_eq!(limiter.refund(took_nothing), 0, "{quota}");
        }
        assert_eq!(left(&limiter, 1), 0, "{quota}");
    }
}

#[test]
fn a_refund_never_fills_above_capacity() {
    for quota in all_five() {
        let (limiter, clock) = limiter(quota);
        let decision = limiter.check_n(1, 4);
        clock.advance(seconds(10));
        assert_eq!(limiter.refund(decision), 0, "{quota}");
        assert_eq!(left(&limiter, 1), 10, "{quota}");
    }
}

/// Without the first request, the bucket would have been full when the second came, and its refill
/// would have been lost.
#[test]
fn a_refund_is_at_most_the_remaining_debt() {
    let (limiter, clock) = limiter(TokenBucket::new(Rate::per_second(1)).burst(10));
    let first = limiter.check_n(1, 4);
    clock.advance(seconds(3));
    assert!(limiter.check_n(1, 2).is_allowed());
    assert_eq!(left(&limiter, 1), 7);
    assert_eq!(limiter.refund(first), 1);
    assert_eq!(left(&limiter, 1), 8);
}

/// After the refund of the first request, the second takes its position: at one second its debt is
/// zero.
#[test]
fn refunds_out_of_order_mint_nothing() {
    let (limiter, clock) = limiter(TokenBucket::new(Rate::per_second(1)).burst(2));
    let (first, second) = (limiter.check(1), limiter.check(1));
    assert_eq!(limiter.refund(first), 1);
    clock.advance(seconds(1));
    assert!(limiter.check(1).is_allowed());
    assert_eq!(limiter.refund(second), 0);
    assert!(!limiter.check_n(1, 2).is_allowed());
}

#[test]
fn requests_in_flight_together_are_all_given_back_at_once() {
    let (limiter, clock) = limiter(TokenBucket::new(Rate::per_minute(6)).burst(6));
    let taken: Vec<Decision<'_>> = (0..6).map(|_| limiter.check(1)).collect();
    clock.advance(Duration::from_millis(50));
    assert_eq!(taken.into_iter().map(|decision| limiter.refund(decision)).sum::<u64>(), 6);
    // The later refunds give back what the first ones could not.
    assert_eq!(left(&limiter, 1), 6);
}

#[test]
fn another_keys_refunds_do_not_give_a_key_more() {
    let (limiter, clock) = limiter(TokenBucket::new(Rate::per_second(1)).burst(4));
    for key in 0..50 {
        let (first, second) = (limiter.check(key), limiter.check(key));
        limiter.refund(first);
        limiter.refund(second);
        assert_eq!(left(&limiter, key), 4, "key {key}");
    }
    clock.advance(seconds(1));
}

/// Three units taken at 0.9 s are refunded at 1.1 s, after four were taken in the next window.
#[test]
fn a_refund_never_reaches_into_a_later_window() {
    let second = Rate::per_second(10);
    for (quota, back) in [
        (Quota::from(FixedWindow::new(second)), 0),
        (SlidingWindow::new(second).into(), 3),
        (SlidingWindow::new(second).subwindows(2).into(), 3),
    ] {
        let (limiter, clock) = limiter(quota);
        clock.advance(Duration::from_millis(900));
        let first = limiter.check_n(1, 3);
        clock.advance(Duration::from_millis(200));
        assert!(limiter.check_n(1, 4).is_allowed());
        assert_eq!(limiter.refund(first), back, "{quota}");
        clock.advance(Duration::from_millis(899));
        assert_eq!(left(&limiter, 1), 6, "{quota}: the window's own four stay");
    }
}

#[test]
fn a_window_that_has_left_gets_nothing_back() {
    for quota in all_five() {
        let (limiter, clock) = limiter(quota);
        let first = limiter.check_n(1, 3);
        clock.advance(seconds(3));
        assert!(limiter.check_n(1, 10).is_allowed());
        assert_eq!(limiter.refund(first), 0, "{quota}");
        assert_eq!(left(&limiter, 1), 0, "{quota}");
    }
}

#[test]
fn a_log_gives_back_its_newest_admission_only() {
    let (limiter, clock) = limiter(SlidingLog::new(Rate::per_second(4)));
    let first = limiter.check(1);
    clock.advance(Duration::from_millis(100));
    let second = limiter.check_n(1, 2);
    assert_eq!(limiter.refund(first), 0);
    assert_eq!(limiter.refund(second), 2);
    // The log is as before the second request: the first entry leaves at one second.
    assert!(limiter.check_n(1, 3).is_allowed());
    clock.advance(Duration::from_millis(899));
    assert!(!limiter.check(1).is_allowed());
    clock.advance(Duration::from_millis(1));
    assert!(limiter.check(1).is_allowed());
}

#[test]
fn a_log_gives_back_nothing_that_has_left_its_window() {
    for (after, back) in [(999_999_999, 1), (1_000_000_000, 0)] {
        let (limiter, clock) = limiter(SlidingLog::new(Rate::per_second(4)));
        let decision = limiter.check(1);
        clock.advance(Duration::from_nanos(after));
        assert_eq!(limiter.refund(decision), back, "after {after} ns");
    }
}

#[test]
fn a_log_that_counted_a_refusal_since_gives_nothing_back() {
    // Up to the number of refusals at one instant with which the ring's head comes round, and more.
    for refusals in 1..=9 {
        let (limiter, _) = limiter(SlidingLog::new(Rate::per_second(2)).count(CountPolicy::All));
        let first = limiter.check_n(1, 2);
        for _ in 0..refusals {
            assert!(!limiter.check(1).is_allowed());
        }
        assert_eq!(limiter.refund(first), 0, "after {refusals} refusals");
    }
}

#[test]
fn a_refund_never_revives_a_recycled_slot() {
    for quota in all_five() {
        let clock = ManualClock::new();
        let limiter = Limiter::builder(quota).per::<u64>().clock(clock.clone()).max_keys(1).build().unwrap();
        let keys = 1_000;
        let taken: Vec<Decision<'_>> = (0..keys).map(|key| limiter.check_n(key, 5)).collect();
        clock.advance(seconds(5));
        // Other keys take the slots and spend their limits.
        let spent: u64 = (keys..2 * keys).filter(|key| limiter.check_n(key, 10).is_allowed()).count() as u64;
        assert!(spent > 0);
        // Half of them at the callers' own late time, when nothing was refilled yet.
        for (nth, decision) in taken.into_iter().enumerate() {
            let back = if nth % 2 == 0 {
                limiter.refund(decision)
            } else {
                limiter.refund_at(decision, Timestamp::ZERO)
            };
            assert_eq!(back, 0, "{quota}");
        }
        for key in keys..2 * keys {
            assert!(!limiter.check_n(key, 6).is_allowed(), "{quota}: key {key}");
        }
    }
}

/// An evicted key keeps its debt, even if all other keys are refunded.
#[test]
fn a_refund_in_a_full_bucket_forgives_no_key_outside() {
    let mut lost_its_slot = 0;
    for _ in 0..50 {
        let quota = TokenBucket::new(Rate::per_hour(1)).burst(10);
        let clock = ManualClock::new();
        let limiter = Limiter::builder(quota).per::<u64>().clock(clock).max_keys(1).build().unwrap();
        assert!(limiter.check_n(0, 2).is_allowed());
        let mut others = Vec::new();
        while limiter.stats().evicted_with_debt == 0 {
            others.push(limiter.check_n(1 + others.len() as u64, 4));
        }
        lost_its_slot += u64::from(limiter.account(0).at(limiter.now()).peek_n(0).remaining() != 8);
        for decision in others {
            limiter.refund(decision);
        }
        let again = (0..10).filter(|_| limiter.check(0).is_allowed()).count();
        assert!(again <= 8, "two were taken before, and now {again} of ten");
    }
    assert!(lost_its_slot > 0);
}

#[test]
fn racing_refunds_and_checks_never_admit_more_than_the_limit() {
    for quota in all_five() {
        let limiter = Limiter::builder(quota).per::<u64>().clock(Yielding).max_keys(100).build().unwrap();
        let limiter = &limiter;
        let served: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4_u64)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut served = 0;
                        for turn in 0..20_000_u64 {
                            let decision = limiter.check(1);
                            if !decision.is_allowed() {
                                continue;
                            }
                            // A refunded request was not served. If nothing could be refunded, it
                            // was.
                            if (turn + thread) % 4 == 0 || limiter.refund(decision) == 0 {
                                served += 1;
                            }
                        }
                        served
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let left = limiter.account(1).at(limiter.now()).peek_n(0).remaining();
        assert_eq!(served + left, 10, "{quota}");
    }
}

#[test]
fn a_receipt_of_another_limiter_gives_nothing_back() {
    let build = || Limiter::builder(TokenBucket::new(Rate::per_hour(10))).build().unwrap();
    let (charged, drained) = (build(), build());
    let receipt = charged.check_n((), 5).receipt();
    assert!(drained.check_n((), 10).is_allowed());
    assert_eq!(drained.account(()).refund(receipt), 0);
    assert!(!drained.check(()).is_allowed());

    // Nor does a limiter restored from the same file, whose keys have the same fingerprints.
    let (saved, _) = limiter(TokenBucket::new(Rate::per_hour(10)));
    let mut file = Vec::new();
    saved.save(&mut file).unwrap();
    let restore = || {
        let quota: Quota = TokenBucket::new(Rate::per_hour(10)).into();
        Limiter::builder(quota).per::<u64>().clock(ManualClock::new()).restore(&file[..]).unwrap()
    };
    let (first, second) = (restore(), restore());
    let mut receipt = first.check_n(7, 5).receipt();
    assert!(second.check_n(7, 10).is_allowed());
    assert_eq!(second.refund_part(&mut receipt, 5), 0);
    assert!(!second.check(7).is_allowed());
    assert_eq!(receipt.left(), 5, "what a foreign limiter was asked for is not spent");
    assert_eq!(first.refund(receipt), 5);
}

#[test]
fn a_receipt_gives_back_its_cost_once_in_parts() {
    for quota in all_five() {
        let (limiter, _) = limiter(quota);
        let before = limiter.check(7).remaining();
        let mut receipt = limiter.check_n(7, 4).receipt();
        let parts = [1, 0, 2].map(|units| limiter.refund_part(&mut receipt, units));
        assert_eq!((parts, receipt.left()), ([1, 0, 2], 1), "{quota}");
        assert_eq!(limiter.refund_part(&mut receipt, 9), 1, "{quota}");
        assert_eq!((limiter.refund_part(&mut receipt, 9), limiter.refund(receipt)), (0, 0), "{quota}");
        assert_eq!(left(&limiter, 7), before, "{quota}: a receipt is spent once");
    }
}

/// A request of four units is two requests at one time, of which the second is given back first.
#[test]
fn parts_of_a_receipt_come_back_as_separate_requests_do() {
    for quota in all_five() {
        for (part, waits) in [(1, [3, 0]), (3, [1, 4]), (2, [0, 2])] {
            let ((whole, clock), (split, other)) = (limiter(quota), limiter(quota));
            let mut receipt = whole.check_n(7, 4).receipt();
            let requests = [split.check_n(7, 4 - part), split.check_n(7, part)];
            let mut given = Vec::new();
            for ((request, units), wait) in requests.into_iter().rev().zip([part, 4 - part]).zip(waits) {
                clock.advance(Duration::from_millis(50 * wait));
                other.advance(Duration::from_millis(50 * wait));
                given.push((whole.refund_part(&mut receipt, units), split.refund(request)));
            }
            assert!(given.iter().all(|(whole, split)| whole == split), "{quota} {part} {waits:?}: {given:?}");
            assert_eq!(left(&whole, 7), left(&split, 7), "{quota}");
        }
    }
}

/// Which request is the newest tells the word alone.
#[test]
fn a_queue_gives_back_its_newest_beside_another_refund() {
    let queue = LeakyBucket::queue(Rate::per_second(10));
    let limiter = Arc::new(Limiter::builder(queue).per::<u64>().clock(Hooked::default()).build().unwrap());
    let [first, second] = [(); 2].map(|()| limiter.check(1).receipt());
    let beside = limiter.clone();
    let newest = move || assert_eq!(beside.refund(second), 1);
    let (_, is_beside) = at_reading(1, newest, || limiter.refund(first));
    assert!(is_beside);
}
