//! What a credit gives, and what it leaves alone.

use std::time::Duration;

use tollgate::{
    Clock, CountPolicy, FixedWindow, Inherit, LeakyBucket, Limiter, ManualClock, Quota, Rate, SlidingLog,
    SlidingWindow, TokenBucket,
};

use tollgate_testing::clocks::Yielding;
use tollgate_testing::limits::{counting_all, every};

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

fn left<C: Clock>(limiter: &Limiter<u64, Quota, 1, C>, key: u64) -> u64 {
    limiter.account(key).at(limiter.now()).peek_n(0).remaining()
}

fn credit<C: Clock>(limiter: &Limiter<u64, Quota, 1, C>, key: u64, units: u64) -> u64 {
    limiter.account(key).credit(units)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A bucket of one token a second.
fn bucket(burst: u64) -> TokenBucket {
    TokenBucket::new(Rate::per_second(1)).burst(burst)
}

#[test]
fn a_credit_admits_as_many_more_as_it_says() {
    for quota in every(Rate::per_second(10)) {
        let (limiter, _) = limiter(quota);
        assert!(limiter.check_n(1, 10).is_allowed());
        assert_eq!(credit(&limiter, 1, 4), 4, "{quota}");
        assert_eq!((0..9).filter(|_| limiter.check(1).is_allowed()).count(), 4, "{quota}");
        assert_eq!([0, 1].map(|units| credit(&limiter, 1, units)), [0, 1], "{quota}");
    }
}

#[test]
fn a_credit_never_fills_above_the_limit() {
    for quota in every(Rate::per_second(10)) {
        let (limiter, clock) = limiter(quota);
        assert_eq!(credit(&limiter, 1, 5), 0, "{quota}: a key that was never seen");
        assert!(limiter.check_n(1, 3).is_allowed());
        assert_eq!([u64::MAX, u64::MAX, 1].map(|units| credit(&limiter, 1, units)), [3, 0, 0], "{quota}");
        assert!(limiter.check_n(1, 10).is_allowed() && !limiter.check(1).is_allowed(), "{quota}");
        clock.advance(Duration::from_secs(2));
        assert_eq!(credit(&limiter, 1, u64::MAX), 0, "{quota}: time has given back all");
        assert_eq!(left(&limiter, 1), 10, "{quota}");
    }
}

#[test]
fn a_credit_counts_a_begun_unit_as_one() {
    let (limiter, clock) = limiter(bucket(10));
    assert!(limiter.check_n(1, 2).is_allowed());
    clock.advance(millis(1_500));
    assert_eq!(credit(&limiter, 1, 5), 1);
    assert_eq!(left(&limiter, 1), 10);
}

/// Three at 0.9 s, four at 1.1 s.
#[test]
fn a_credit_takes_the_newest_counts_first() {
    let second = Rate::per_second(10);
    for (quota, given, left_then) in [
        (Quota::from(FixedWindow::new(second)), 4, 10),
        (SlidingWindow::new(second).into(), 5, 8),
        (SlidingWindow::new(second).subwindows(2).into(), 5, 8),
        (SlidingLog::new(second).into(), 5, 8),
    ] {
        let (limiter, clock) = limiter(quota);
        clock.advance(millis(900));
        assert!(limiter.check_n(1, 3).is_allowed());
        clock.advance(millis(200));
        assert!(limiter.check_n(1, 4).is_allowed());
        assert_eq!(credit(&limiter, 1, 5), given, "{quota}");
        assert_eq!(left(&limiter, 1), left_then, "{quota}");
    }
}

#[test]
fn a_log_keeps_the_times_before_a_credit() {
    let (limiter, clock) = limiter(SlidingLog::new(Rate::per_second(4)));
    assert!(limiter.check(1).is_allowed());
    clock.advance(millis(100));
    assert!(limiter.check_n(1, 2).is_allowed());
    assert_eq!(credit(&limiter, 1, 2), 2);
    assert!(limiter.check_n(1, 3).is_allowed());
    clock.advance(Duration::from_nanos(899_999_999));
    assert!(!limiter.check(1).is_allowed());
    clock.advance(Duration::from_nanos(1));
    assert!(limiter.check(1).is_allowed() && !limiter.check(1).is_allowed());
    clock.advance(millis(99));
    assert_eq!(credit(&limiter, 1, 9), 4, "none of the entries has left");
    assert_eq!(credit(&limiter, 1, 9), 0);
}

/// Any interval admits at most the limit and the credited units.
#[test]
fn a_log_around_its_ring_gives_what_it_says() {
    for quota in
        [SlidingLog::new(Rate::per_second(3)), SlidingLog::new(Rate::per_second(3)).count(CountPolicy::All)]
    {
        let (limiter, clock) = limiter(quota);
        for turn in 0..200_u64 {
            let before = left(&limiter, 1);
            match turn * turn % 7 {
                0 => {
                    let given = credit(&limiter, 1, turn % 4);
                    assert_eq!(left(&limiter, 1), before + given, "{quota}, {turn}");
                }
                1 => clock.advance(millis(turn % 400)),
                _ => {
                    let admitted = limiter.check_n(1, 1 + turn % 2).is_allowed();
                    assert_eq!(admitted, before > turn % 2, "{quota}, {turn}");
                }
            }
        }
    }
}

/// A log that counts refusals has lost the entry under the refusal.
#[test]
fn a_credit_takes_refusals_that_count_back_too() {
    for quota in counting_all(Rate::per_minute(2)) {
        let (limiter, clock) = limiter(quota);
        for _ in 0..3 {
            let _ = limiter.check(1);
            clock.advance(millis(1));
        }
        let (is_log, before) = (matches!(quota, Quota::SlidingLog(_)), left(&limiter, 1));
        assert_eq!(credit(&limiter, 1, 1), u64::from(!is_log), "{quota}");
        assert_eq!((before, left(&limiter, 1)), (0, 0), "{quota}: two count as before");
    }
}

#[test]
fn a_credit_to_a_shared_allowance_gives_nothing() {
    let clock = ManualClock::new();
    let quota = Quota::from(TokenBucket::new(Rate::per_hour(10)));
    let limiter = Limiter::builder(quota).per::<u64>().clock(clock).max_keys(1).build().unwrap();
    let keys: Vec<u64> = (0..1_000).filter(|key| limiter.check_n(key, 6).is_allowed()).collect();
    let before: Vec<u64> = keys.iter().map(|key| left(&limiter, *key)).collect();
    let outside = 5_000;
    assert!(!limiter.check_n(outside, 6).is_allowed());
    assert_eq!(credit(&limiter, outside, 6), 0);
    let after: Vec<u64> = keys.iter().map(|key| left(&limiter, *key)).collect();
    assert_eq!(before, after, "no other key was given anything");
}

#[test]
fn each_limit_is_credited_and_the_least_told() {
    let quotas: [Quota; 3] = [
        bucket(10).into(),
        FixedWindow::new(Rate::per_hour(20)).into(),
        SlidingLog::new(Rate::per_hour(8)).into(),
    ];
    let clock = ManualClock::new();
    let limiter = Limiter::builder(quotas).per::<u64>().clock(clock.clone()).build().unwrap();
    assert!(limiter.check_n(1, 6).is_allowed());
    clock.advance(Duration::from_secs(4));
    assert_eq!(limiter.account(1).credit(3), 2);
    let left: Vec<u64> =
        limiter.account(1).at(limiter.now()).peek_n(0).parts().map(|limit| limit.remaining()).collect();
    assert_eq!(left, [10, 17, 5]);
}

#[test]
fn a_global_limiter_and_a_tier_are_credited_alike() {
    let clock = ManualClock::new();
    let global = Limiter::builder(bucket(5)).clock(clock.clone()).build().unwrap();
    assert!(global.check_n((), 5).is_allowed());
    assert_eq!(global.account(()).credit(2), 2);
    assert!(global.check_n((), 2).is_allowed() && !global.check(()).is_allowed());

    let dearer = TokenBucket::new(Rate::per_minute(1)).burst(5);
    let tiers = Limiter::builder(bucket(5)).per::<u64>().tier(dearer).clock(clock.clone()).build().unwrap();
    let paid = tiers.account(1).tier(1).unwrap();
    assert!(paid.check_n(5).is_allowed());
    assert_eq!(paid.credit(2), 2);
    assert!(paid.check_n(2).is_allowed() && !paid.check().is_allowed());
}

/// A turn that is booked ahead is debt, too. Departures stay.
#[test]
fn a_credit_pays_debts_beyond_the_burst() {
    let (limiter, _) = limiter(bucket(2));
    let key = limiter.account(1);
    let turns = [2, 2, 1].map(|cost| key.reserve(cost, Duration::MAX).unwrap());
    assert_eq!(turns.each_ref().map(|turn| turn.delay().as_secs()), [0, 2, 3]);
    assert_eq!(key.credit(3), 3);
    assert_eq!(left(&limiter, 1), 0);
    assert_eq!(key.reserve(1, Duration::MAX).unwrap().delay().as_secs(), 1);
}

#[test]
fn after_a_credit_a_queue_departs_earlier() {
    let (limiter, _) = limiter(LeakyBucket::queue(Rate::per_second(1)).capacity(4));
    assert_eq!([0, 1, 2].map(|_| limiter.check(1).delay().as_secs()), [0, 1, 2]);
    assert_eq!(credit(&limiter, 1, 1), 1);
    assert_eq!(limiter.check(1).delay().as_secs(), 2, "beside the one that waits");
}

/// No key has less debt than one that was never seen: the table forgets keys.
#[test]
fn a_credit_stops_at_the_debt_of_unseen_keys() {
    let (limiter, _) = limiter(bucket(10).initial(4));
    assert!(limiter.check_n(1, 3).is_allowed());
    assert_eq!(credit(&limiter, 1, 9), 3);
    assert_eq!((left(&limiter, 1), left(&limiter, 2)), (4, 4));

    for (old, new) in [
        (Quota::from(bucket(4)), Quota::from(bucket(10))),
        (FixedWindow::new(Rate::per_hour(4)).into(), FixedWindow::new(Rate::per_hour(10)).into()),
    ] {
        let (limiter, _) = self::limiter(old);
        assert!(limiter.check_n(1, 3).is_allowed());
        limiter.change().to(new).inherit(Inherit::AsIs).apply().unwrap();
        assert_eq!((left(&limiter, 1), left(&limiter, 2)), (1, 4), "{new}");
        assert_eq!(credit(&limiter, 1, 9), 3, "{new}");
        assert_eq!((left(&limiter, 1), left(&limiter, 2)), (4, 4), "{new}");
    }
}

#[test]
fn a_credit_after_a_change_is_of_the_new_quota() {
    for (old, new) in [
        (Quota::from(bucket(10)), Quota::from(bucket(100))),
        (FixedWindow::new(Rate::per_hour(10)).into(), FixedWindow::new(Rate::per_hour(100)).into()),
    ] {
        let (limiter, _) = limiter(old);
        let prepared = limiter.account(1);
        assert!(prepared.check_n(5).is_allowed());
        limiter.change().to(new).inherit(Inherit::Proportional).apply().unwrap();
        assert_eq!(prepared.credit(20), 20, "{new}");
        assert_eq!(left(&limiter, 1), 70, "{new}");
        assert_eq!(prepared.credit(200), 30, "{new}");
        assert_eq!(left(&limiter, 1), 100, "{new}");
    }
}

/// A bucket gives back what the request alone would still owe, as after a refund out of order.
#[test]
fn receipts_from_before_a_credit_give_back_no_more() {
    let gives_all_or_nothing =
        [LeakyBucket::queue(Rate::per_second(10)).into(), SlidingLog::new(Rate::per_second(10)).into()];
    for quota in every(Rate::per_second(10)) {
        let (back, left_then) = if gives_all_or_nothing.contains(&quota) { (0, 7) } else { (3, 10) };
        let (limiter, clock) = limiter(quota);
        let (first, second) = (limiter.check_n(1, 4), limiter.check_n(1, 4));
        assert_eq!(credit(&limiter, 1, 5), 5, "{quota}");
        clock.advance(millis(50));
        assert_eq!((limiter.refund(second), limiter.refund(first)), (back, 0), "{quota}");
        assert_eq!(left(&limiter, 1), left_then, "{quota}");
    }
}

#[test]
fn racing_credits_give_exactly_what_they_say() {
    for quota in every(Rate::per_second(10)) {
        let limiter = Limiter::builder(quota).per::<u64>().clock(Yielding).max_keys(100).build().unwrap();
        let limiter = &limiter;
        let (mut served, mut given) = (0, 0);
        std::thread::scope(|scope| {
            let turns = |thread: u64| {
                let (mut served, mut given) = (0, 0);
                for turn in 0..10_000_u64 {
                    match (turn + thread) % 5 {
                        0 => given += credit(limiter, 1, 1 + turn % 3),
                        1 => {
                            let decision = limiter.check_n(1, 2);
                            served += u64::from(decision.is_allowed()) * 2;
                            served -= limiter.refund(decision);
                        }
                        _ => served += u64::from(limiter.check(1).is_allowed()),
                    }
                }
                (served, given)
            };
            let threads: Vec<_> = (0..4_u64).map(|thread| scope.spawn(move || turns(thread))).collect();
            for thread in threads {
                let (took, gave) = thread.join().unwrap();
                (served, given) = (served + took, given + gave);
            }
        });
        assert_eq!(served + left(limiter, 1), 10 + given, "{quota}");
    }
}
