//! Requests that take as much as there is, and debits over the limit.

mod debit;
mod full;
mod several;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::{
    FixedWindow, LeakyBucket, Limiter, ManualClock, Outcome, Quota, Rate, SlidingLog, Timestamp, TokenBucket,
};
use tollgate_testing::limits;

type Keyed = Limiter<u64, Quota, 1, ManualClock>;

fn limiter(quota: impl Into<Quota>) -> (Keyed, ManualClock) {
    let clock = ManualClock::new();
    (
        Limiter::builder(Into::<Quota>::into(quota))
            .per()
            .clock(clock.clone())
            .max_keys(100)
            .build()
            .unwrap(),
        clock,
    )
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Ten a second, by every algorithm.
fn every() -> Vec<Quota> {
    limits::every(Rate::per_second(10))
}

#[test]
fn a_request_takes_exactly_what_there_is() {
    for quota in every() {
        let (limiter, _) = limiter(quota);
        let alice = limiter.account(1);
        let taken = [4, 3, 9, 1].map(|most| {
            let decision = alice.check_up_to(most);
            (decision.is_allowed(), decision.cost(), decision.remaining())
        });
        assert_eq!(taken, [(true, 4, 6), (true, 3, 3), (true, 3, 0), (false, 1, 0)], "{quota}");
        assert_eq!(alice.check_up_to(5).retry_after(), alice.peek().retry_after(), "{quota}");
        assert_eq!(limiter.account(2).check_up_to(u64::MAX).cost(), 10, "{quota}");
        assert!(!limiter.check(2).is_allowed(), "{quota}: all was taken");
    }
}

/// Where a window's estimate or a refill leaves a part of a unit, that part is not taken.
#[test]
fn a_request_takes_whole_units_at_any_time() {
    for quota in every() {
        let (limiter, clock) = limiter(quota);
        let alice = limiter.account(1);
        assert!(alice.check_n(10).is_allowed());
        for step in 0..200_u64 {
            clock.advance(Duration::from_nanos(step * 1_000_003));
            let left = limiter.account(1).at(limiter.now()).peek_n(0).remaining();
            let (taken, most) = (alice.check_up_to(1 + step % 4), 1 + step % 4);
            assert_eq!((taken.is_allowed(), taken.cost()), (left > 0, left.min(most).max(1)), "{quota}");
        }
    }
}

#[test]
fn a_request_for_nothing_changes_nothing() {
    for quota in every() {
        let (limiter, _) = limiter(quota);
        let nothing = limiter.account(1).check_up_to(0);
        assert_eq!((nothing.is_allowed(), nothing.cost(), nothing.receipt().left()), (true, 0, 0), "{quota}");
        assert_eq!(limiter.usage().live_keys, 0, "{quota}");
    }
}

#[test]
fn the_receipt_gives_back_what_was_taken() {
    for quota in every() {
        let (limiter, _) = limiter(quota);
        assert!(limiter.check_n(1, 7).is_allowed());
        let mut receipt = limiter.account(1).check_up_to(9).receipt();
        assert_eq!(receipt.left(), 3, "{quota}");
        assert_eq!(limiter.refund_part(&mut receipt, 1), 1, "{quota}");
        assert_eq!(limiter.refund_part(&mut receipt, 9), 2, "{quota}");
        assert_eq!(limiter.account(1).at(limiter.now()).peek_n(0).remaining(), 3, "{quota}");
    }
}

/// The same is left at each later time as after refused checks of cost 1.
#[test]
fn a_refused_request_for_what_there_is_counts_one() {
    for quota in limits::counting_all(Rate::per_second(10)) {
        let (of_many, _) = limiter(quota);
        let (of_one, _) = limiter(quota);
        assert!(of_many.check_n(1, 10).is_allowed() && of_one.check_n(1, 10).is_allowed());
        for _ in 0..4 {
            assert!(!of_many.account(1).check_up_to(8).is_allowed());
            assert!(!of_one.check(1).is_allowed());
        }
        for eighth in 0..40 {
            let now = Timestamp::ZERO + Duration::from_millis(125 * eighth);
            let left = |limiter: &Keyed| limiter.account(1).at(now).peek_n(0).remaining();
            assert_eq!(left(&of_many), left(&of_one), "{quota}, at {now:?}");
        }
    }
}

#[test]
fn a_queue_admits_together_what_has_room() {
    let (limiter, _) = limiter(LeakyBucket::queue(Rate::per_second(10)).capacity(5));
    assert!(limiter.check_n(1, 2).is_allowed());
    let rest = limiter.account(1).check_up_to(9);
    assert_eq!((rest.cost(), rest.delay()), (3, Duration::from_millis(200)));
}

#[test]
fn a_tier_takes_what_it_has_left() {
    let of = |count| TokenBucket::new(Rate::per_hour(count));
    let builder = Limiter::builder(of(10)).per::<u64>().tier(of(100)).clock(ManualClock::new());
    let limiter = builder.build().unwrap();
    let paid = |key: u64| limiter.account(key).tier(1).unwrap();
    assert_eq!(limiter.account(1).check_up_to(50).cost(), 10);
    assert_eq!(paid(2).check_up_to(200).cost(), 100);
    let owed = paid(2).debit(30).unwrap();
    assert_eq!((owed.cost(), owed.limit()), (30, 100));
}

#[test]
fn as_much_as_there_is_is_observed_once() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = told.clone();
    let limiter = Limiter::builder(TokenBucket::new(Rate::per_hour(5)))
        .on_decision(move |decision| tell.lock().unwrap().push((decision.outcome(), decision.cost())))
        .clock(ManualClock::new())
        .build()
        .unwrap();
    let all = limiter.account(());
    let _ = (all.check_up_to(3), all.check_up_to(3), all.check_up_to(3), all.check_up_to(0));
    let _ = (all.debit(7), all.debit(0));
    let (allowed, denied) = (Outcome::Allowed, Outcome::Denied);
    let expected = [(allowed, 3), (allowed, 2), (denied, 1), (allowed, 0), (allowed, 7), (allowed, 0)];
    assert_eq!(*told.lock().unwrap(), expected);
}

#[test]
fn a_changed_quota_leaves_what_it_inherits() {
    let (limiter, _) = limiter(FixedWindow::new(Rate::per_hour(10)));
    let alice = limiter.account(1);
    assert_eq!(alice.check_up_to(4).cost(), 4);
    limiter
        .change()
        .to(Quota::from(FixedWindow::new(Rate::per_hour(20))))
        .inherit(tollgate::Inherit::Additive)
        .apply()
        .unwrap();
    assert_eq!(alice.check_up_to(30).cost(), 16);
}

#[test]
fn a_log_is_left_what_is_outside_its_window() {
    let (limiter, clock) = limiter(SlidingLog::new(Rate::per_second(5)));
    for _ in 0..5 {
        assert!(limiter.check(1).is_allowed());
        clock.advance(Duration::from_millis(100));
    }
    clock.set(Timestamp::ZERO + seconds(1) + Duration::from_millis(150));
    assert_eq!(limiter.account(1).check_up_to(5).cost(), 2);
    clock.advance(Duration::from_millis(50));
    assert_eq!(limiter.account(1).check_up_to(5).cost(), 1);
}
