//! Changes of buckets.

use std::time::Duration;

use tollgate::Inherit::{Additive, AsIs, Proportional, Reset};
use tollgate::{
    BuildError, Inherit, LeakyBucket, Limiter, ManualClock, Quota, Rate, SlidingLog, TokenBucket, WhenFull,
};

use super::{SECOND, at, bucket, global, keyed, left, per};

const ALL: [Inherit; 4] = [AsIs, Proportional, Additive, Reset];

#[test]
fn each_inherit_policy_keeps_its_promise() {
    for (inherit, expected) in [(AsIs, 1), (Additive, 58), (Reset, 60), (Proportional, 36)] {
        let (limiter, clock) = global(TokenBucket::new(per(3, 5)));
        assert!(limiter.check_n((), 3).is_allowed());
        clock.set(at(3)); // 1.8 tokens
        limiter.change().to(TokenBucket::new(per(60, 1_000))).inherit(inherit).apply().unwrap();
        assert_eq!(limiter.account(()).at(at(3)).peek_n(0).remaining(), expected, "{inherit:?}");
        assert!(limiter.check_n((), expected).is_allowed(), "{inherit:?}");
        assert!(!limiter.check(()).is_allowed(), "{inherit:?}");
    }
}

#[test]
fn a_full_bucket_shrinks_to_the_new_burst() {
    for inherit in ALL {
        let (limiter, _) = keyed(bucket(500, 500));
        limiter.change().to(bucket(200, 200)).inherit(inherit).apply().unwrap();
        assert_eq!(left(&limiter, 7), 200, "{inherit:?}");
        assert!(limiter.check_n(7, 200).is_allowed() && !limiter.check(7).is_allowed(), "{inherit:?}");
    }
}

#[test]
fn remaining_never_underflows() {
    for (inherit, expected) in [(AsIs, 0), (Proportional, 0), (Additive, 0), (Reset, 200)] {
        let (limiter, _) = keyed(bucket(500, 500));
        assert!(limiter.check_n(7, 500).is_allowed());
        limiter.change().to(bucket(200, 200)).inherit(inherit).apply().unwrap();
        assert_eq!(left(&limiter, 7), expected, "{inherit:?}");
    }
    let (limiter, clock) = keyed(bucket(1, 500));
    assert!(limiter.check_n(7, 400).is_allowed());
    limiter.change().to(bucket(1, 200)).inherit(Additive).apply().unwrap();
    assert_eq!(left(&limiter, 7), 0, "100 less 300 is nothing, not less");
    clock.advance(Duration::from_secs(1));
    assert_eq!(left(&limiter, 7), 1);
}

#[test]
fn a_cost_that_was_never_possible_becomes_so() {
    let (limiter, _) = keyed(bucket(5, 5));
    assert!(limiter.check_n(7, 6).is_never());
    limiter.change().to(bucket(5, 6)).inherit(Additive).apply().unwrap();
    assert!(limiter.check_n(7, 6).is_allowed());
}

#[test]
fn a_key_never_seen_had_the_old_burst() {
    for (inherit, expected) in [(AsIs, 10), (Proportional, 25), (Additive, 25), (Reset, 25)] {
        let (limiter, clock) = keyed(bucket(1, 10));
        limiter.change().to(bucket(2, 25)).inherit(inherit).apply().unwrap();
        assert_eq!(left(&limiter, 7), expected, "{inherit:?}");
        assert!(!limiter.check_n(7, expected + 1).is_allowed());
        assert!(limiter.check_n(7, expected).is_allowed(), "{inherit:?}");
        clock.advance(Duration::from_secs(1));
        assert_eq!((left(&limiter, 7), left(&limiter, 8)), (2, (expected + 2).min(25)), "{inherit:?}");
        clock.advance(Duration::from_secs(20));
        assert_eq!((left(&limiter, 7), left(&limiter, 9)), (25, 25), "{inherit:?}");
    }
}

#[test]
fn a_recovered_key_equals_a_new_one() {
    let (limiter, clock) = keyed(bucket(1, 10));
    assert!(limiter.check_n(7, 5).is_allowed());
    clock.advance(Duration::from_secs(5));
    limiter.change().to(bucket(1, 30)).inherit(AsIs).apply().unwrap();
    assert_eq!((left(&limiter, 7), left(&limiter, 8)), (10, 10));
    assert_eq!(limiter.usage().live_keys, 0, "it owes nothing that others do not");
    assert!(limiter.check_n(7, 10).is_allowed() && limiter.check_n(8, 10).is_allowed());
    assert_eq!(limiter.usage().live_keys, 2);
}

#[test]
fn an_initial_debt_is_carried_too() {
    let (limiter, clock) = keyed(bucket(1, 10).initial(4));
    clock.advance(Duration::from_secs(2));
    limiter.change().to(bucket(1, 20)).inherit(AsIs).apply().unwrap();
    assert_eq!(left(&limiter, 7), 6);
    limiter.change().to(bucket(1, 40)).inherit(Proportional).apply().unwrap();
    assert_eq!(left(&limiter, 7), 12);
}

#[test]
fn a_chain_of_changes_applies_each_of_them() {
    let (limiter, clock) = keyed(bucket(10, 10));
    assert!(limiter.check_n(7, 8).is_allowed()); // 2
    assert!(limiter.check_n(8, 8).is_allowed());
    limiter.change().to(bucket(20, 20)).inherit(Additive).apply().unwrap(); // 12
    clock.advance(Duration::from_millis(100)); // 14
    assert_eq!(left(&limiter, 7), 14);
    limiter.change().to(bucket(5, 10)).inherit(Proportional).apply().unwrap(); // 7
    limiter.change().to(bucket(1, 100)).inherit(AsIs).apply().unwrap(); // 7
    assert!(limiter.check_n(8, 3).is_allowed());
    let all = || [7, 8, 9].map(|key| left(&limiter, key));
    assert_eq!(all(), [7, 4, 10], "a key that was not seen inherits like one that was");
    clock.advance(Duration::from_secs(1)); // 8
    assert_eq!(all(), [8, 5, 11]);
    limiter.change().to(bucket(1, 9)).inherit(AsIs).apply().unwrap(); // 8
    assert_eq!(all(), [8, 5, 9]);
    // The debts, 1 and 4, stay the same over any number of changes.
    for turn in 1..=100 {
        limiter.change().to(bucket(1, 9 + turn)).inherit(Additive).apply().unwrap();
        assert_eq!(all(), [8 + turn, 5 + turn, 9 + turn], "after {turn} changes");
    }
    clock.advance(Duration::from_secs(2)); // The debts are 0 and 2.
    assert_eq!(all(), [109, 107, 109]);
    limiter.change().to(bucket(1, 9)).inherit(Reset).apply().unwrap();
    assert_eq!((left(&limiter, 7), left(&limiter, 8)), (9, 9));
}

#[test]
fn a_limiter_stands_a_million_changes() {
    let (limiter, clock) = keyed(bucket(100, 10));
    assert!(limiter.check_n(7, 10).is_allowed());
    for turn in 0..if cfg!(debug_assertions) { 20_000 } else { 1_000_000 } {
        limiter.change().to(bucket(100 + turn % 7, 10)).inherit(AsIs).apply().unwrap();
        clock.advance(Duration::from_nanos(50_000_000));
        let _ = limiter.check(turn % 9);
    }
    clock.advance(Duration::from_secs(1));
    assert!(limiter.check_n(7, 10).is_allowed() && !limiter.check(7).is_allowed());
}

#[test]
fn too_many_changes_are_an_error() {
    // Each debt lasts longer than all changes together.
    let (limiter, _) = keyed(TokenBucket::new(Rate::per_day(1)).burst(100));
    assert!(limiter.check_n(7, 90).is_allowed());
    let changes = (0..10_000).take_while(|_| {
        let quota = TokenBucket::new(Rate::per_day(1)).burst(100);
        match limiter.change().to(quota).inherit(AsIs).apply() {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error, BuildError::ChangedTooOften);
                false
            }
        }
    });
    let changes = changes.count();
    assert!((100..=1_025).contains(&changes), "{changes}");
    assert_eq!((left(&limiter, 7), left(&limiter, 8)), (10, 100));
    assert!(limiter.check_n(7, 10).is_allowed() && !limiter.check(7).is_allowed());
}

#[test]
fn a_change_may_have_the_slowest_and_the_fastest_rate() {
    let slow = TokenBucket::new(Rate::per_day(1)).burst(10);
    let fast = TokenBucket::new(Rate::per_second(1_000_000_000)).burst(1_000_000_000);
    let (limiter, clock) = keyed(slow);
    assert!(limiter.check_n(7, 4).is_allowed());
    limiter.change().to(fast).inherit(AsIs).apply().unwrap();
    assert_eq!(left(&limiter, 7), 6);
    clock.advance(Duration::from_nanos(5));
    assert_eq!(left(&limiter, 7), 11);
    limiter.change().to(slow).inherit(AsIs).apply().unwrap();
    assert_eq!(left(&limiter, 7), 10);
    assert!(limiter.check_n(7, 10).is_allowed());
    assert_eq!(limiter.check(7).retry_after(), Some(Duration::from_secs(86_400)));
    limiter.change().to(fast).inherit(Proportional).apply().unwrap();
    assert_eq!(left(&limiter, 7), 0);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(left(&limiter, 7), 1);
}

#[test]
fn retry_after_is_exact_after_a_change() {
    for inherit in ALL {
        for (old, new) in
            [((3, 5), (60, 1_000)), ((7, SECOND), (11, 60 * SECOND)), ((1, 1), (14_500, 60 * SECOND))]
        {
            let (limiter, clock) = global(TokenBucket::new(per(old.0, old.1)).burst(20));
            assert!(limiter.check_n((), 17).is_allowed());
            clock.set(at(3));
            limiter
                .change()
                .to(TokenBucket::new(per(new.0, new.1)).burst(40))
                .inherit(inherit)
                .apply()
                .unwrap();
            while limiter.check_n((), 3).is_allowed() {}
            let wait = u64::try_from(limiter.check_n((), 3).retry_after().unwrap().as_nanos()).unwrap();
            assert!(!limiter.account(()).at(at(3 + wait - 1)).check_n(3).is_allowed(), "{inherit:?} {new:?}");
            assert!(limiter.account(()).at(at(3 + wait)).check_n(3).is_allowed(), "{inherit:?} {new:?}");
        }
    }
}

#[test]
fn a_time_before_the_change_is_the_change() {
    let (limiter, clock) = keyed(bucket(10, 10));
    clock.set(at(SECOND));
    assert!(limiter.check_n(7, 10).is_allowed());
    limiter.change().to(bucket(1, 10)).inherit(AsIs).apply().unwrap();
    for early in [0, 1, SECOND - 1, SECOND] {
        assert_eq!(limiter.account(7).at(at(early)).peek_n(0).remaining(), 0);
        let refused = limiter.account(7).at(at(early)).check();
        assert_eq!(refused.retry_after(), Some(Duration::from_nanos(2 * SECOND - early)));
        assert_eq!(limiter.account(8).at(at(early)).peek_n(0).remaining(), 10);
    }
    clock.set(at(0));
    limiter.change().to(bucket(2, 10)).inherit(AsIs).apply().unwrap();
    assert_eq!(left(&limiter, 7), 0, "a clock that steps back brings nothing back");
}

#[test]
fn a_time_far_ahead_before_the_change_stays_paid() {
    // The word is far ahead of the clock.
    let (limiter, clock) = keyed(bucket(10, 10));
    assert!(limiter.account(7).at(at(100 * SECOND)).check_n(10).is_allowed());
    limiter.change().to(bucket(20, 10)).inherit(AsIs).apply().unwrap();
    assert!(!limiter.check(7).is_allowed());
    clock.set(at(50 * SECOND));
    assert!(!limiter.check(7).is_allowed(), "1010 tokens were owed, 1000 are paid");
    clock.set(at(50 * SECOND + SECOND / 2));
    assert_eq!(left(&limiter, 7), 10);
}

#[test]
fn a_reservation_survives_a_change() {
    for (inherit, wait) in [(AsIs, 15), (Additive, 13), (Proportional, 12), (Reset, 1)] {
        let (limiter, _) = keyed(bucket(1, 2));
        assert!(limiter.check_n(7, 2).is_allowed());
        let place = limiter.account(7).reserve(2, Duration::from_secs(60)).unwrap();
        assert_eq!(place.delay(), Duration::from_secs(2));
        // 2 units are reserved ahead: -2 of 2 are available.
        limiter.change().to(bucket(1, 4)).inherit(inherit).apply().unwrap();
        let refused = limiter.account(7).reserve(4, Duration::ZERO);
        if inherit == Reset {
            assert!(refused.is_ok());
            continue;
        }
        let expected = match inherit {
            Inherit::AsIs => 6,         // -2
            Inherit::Additive => 4,     // 0
            Inherit::Proportional => 8, // -4
            other => unreachable!("{other:?}"),
        };
        let error = refused.unwrap_err();
        let told = tollgate::ReserveError::TooLong { wait: Duration::from_secs(expected) };
        assert_eq!(error, told, "{inherit:?} {wait}");
    }
}

#[test]
fn a_turn_of_a_global_limiter_survives_a_change() {
    let (limiter, _) = global(bucket(1, 2));
    assert!(limiter.check_n((), 2).is_allowed());
    let turn = limiter.account(()).reserve(2, Duration::MAX).unwrap();
    assert_eq!(turn.delay(), Duration::from_secs(2));
    limiter.change().to(bucket(1, 4)).inherit(AsIs).apply().unwrap();
    let refused = limiter.account(()).reserve(4, Duration::ZERO).map(|turn| turn.delay());
    assert_eq!(refused, Err(tollgate::ReserveError::TooLong { wait: Duration::from_secs(6) }));
}

#[test]
fn a_queue_goes_on_at_the_new_pace() {
    let (limiter, clock) = keyed(LeakyBucket::queue(Rate::per_second(10)).capacity(5));
    assert_eq!(limiter.check_n(7, 3).delay(), Duration::ZERO);
    limiter
        .change()
        .to(LeakyBucket::queue(Rate::per_second(1)).capacity(5))
        .inherit(Additive)
        .apply()
        .unwrap();
    assert_eq!(limiter.check(7).delay(), Duration::from_secs(3));
    clock.advance(Duration::from_secs(1));
    limiter
        .change()
        .to(LeakyBucket::meter(Rate::per_second(1)).capacity(5))
        .inherit(Additive)
        .apply()
        .unwrap();
    assert_eq!(limiter.check(7).delay(), Duration::ZERO);
    assert_eq!(left(&limiter, 7), 1);
}

#[test]
fn a_refund_after_a_change_is_as_one_before_it() {
    for (inherit, back, expected) in [(AsIs, 3, 6), (Proportional, 3, 12), (Additive, 3, 16), (Reset, 0, 20)]
    {
        let (limiter, _) = keyed(bucket(1, 10));
        assert!(limiter.check_n(7, 4).is_allowed());
        let taken = limiter.check_n(7, 3);
        limiter.change().to(bucket(1, 20)).inherit(inherit).apply().unwrap();
        assert_eq!(limiter.refund(taken), back, "{inherit:?}");
        assert_eq!(left(&limiter, 7), expected, "{inherit:?}");
    }
}

#[test]
fn a_refund_is_zero_once_the_new_quota_charged() {
    let (limiter, _) = keyed(bucket(1, 10));
    let taken = limiter.check_n(7, 3);
    limiter.change().to(bucket(1, 20)).inherit(AsIs).apply().unwrap();
    assert!(limiter.check(7).is_allowed());
    assert_eq!(limiter.refund(taken), 0);
    assert_eq!(left(&limiter, 7), 6);
    let taken = limiter.check_n(7, 6);
    assert_eq!(limiter.refund(taken), 6, "of the new quota all comes back");
}

#[test]
fn a_refund_from_before_a_change_mints_nothing() {
    // Under the old quota, the new word looks as if it still contained the request.
    for cost in [3, 100] {
        let (limiter, _) = keyed(TokenBucket::new(Rate::per_day(1)).burst(100));
        let taken = limiter.check_n(7, cost);
        limiter
            .change()
            .to(TokenBucket::new(Rate::per_second(1_000)).burst(100))
            .inherit(Reset)
            .apply()
            .unwrap();
        assert!(limiter.check_n(7, 100).is_allowed());
        assert_eq!(limiter.refund(taken), 0, "{cost}");
        assert!(!limiter.check(7).is_allowed(), "{cost}");
    }
}

#[test]
fn a_shared_allowance_is_carried_over_every_change() {
    let clock = ManualClock::new();
    let quota = TokenBucket::new(Rate::per_day(1)).burst(10);
    let limiter = Limiter::builder(quota)
        .per::<u64>()
        .max_keys(1)
        .when_full(WhenFull::Share)
        .clock(clock)
        .build()
        .unwrap();
    let mut taken = [0; 200];
    for cost in [6, 5, 4, 3, 2, 1, 1, 1, 1] {
        for (key, taken) in (0..).zip(&mut taken) {
            *taken += if limiter.check_n(key, cost).is_allowed() { cost } else { 0 };
        }
        limiter.change().to(quota).inherit(AsIs).apply().unwrap();
    }
    assert!(taken.iter().all(|&taken| taken <= 10), "{taken:?}");
    assert!(limiter.stats().shared > 0);
    let all: u64 = taken.iter().sum();
    assert!(
        all <= 4 * (15 * 10 + 5),
        "15 slots and one allowance of half a burst in each of four buckets: {all}"
    );
}

#[test]
fn a_reset_after_a_change_makes_a_key_new() {
    let (limiter, _) = keyed(bucket(1, 10));
    assert!(limiter.check_n(7, 10).is_allowed());
    limiter.change().to(bucket(1, 20)).inherit(AsIs).apply().unwrap();
    assert!(limiter.account(7).reset());
    assert_eq!(left(&limiter, 7), 10);
}

#[test]
fn errors_change_nothing() {
    let (limiter, _) = keyed(Quota::from(bucket(1, 10)));
    assert!(limiter.check_n(7, 4).is_allowed());
    let wrong: [(Quota, BuildError); 3] = [
        (bucket(1, 0).into(), BuildError::OutOfRange { field: "burst", value: 0, min: 1, max: 0 }),
        (SlidingLog::new(Rate::per_second(5)).into(), BuildError::CannotInherit { field: "algorithm" }),
        (
            bucket(1, 10).initial(11).into(),
            BuildError::OutOfRange { field: "initial", value: 11, min: 0, max: 10 },
        ),
    ];
    for (quota, expected) in wrong {
        match (limiter.change().to(quota).inherit(Reset).apply().unwrap_err(), expected) {
            (
                BuildError::OutOfRange { field, value, .. },
                BuildError::OutOfRange { field: other, value: same, .. },
            ) => {
                assert_eq!((field, value), (other, same));
            }
            (error, expected) => assert_eq!(error, expected),
        }
        assert_eq!((left(&limiter, 7), left(&limiter, 8)), (6, 10));
    }
    // Token buckets and leaky buckets are the same rule.
    limiter
        .change()
        .to(Quota::from(LeakyBucket::meter(Rate::per_second(1)).capacity(12)))
        .inherit(AsIs)
        .apply()
        .unwrap();
    assert_eq!(left(&limiter, 7), 6);
}

#[test]
fn the_least_debt_across_quotas_is_evicted() {
    let builder = Limiter::builder(TokenBucket::new(Rate::per_day(1)).burst(10)).per::<u64>().max_keys(1);
    let limiter = builder.when_full(WhenFull::Share).clock(ManualClock::new()).build().unwrap();
    let owing: Vec<_> = (0..200_u64).map(|key| (key, limiter.check_n(key, 9))).collect();
    let mut in_slots = owing.into_iter().filter(|(_, taken)| taken.is_allowed());
    limiter.change().to(TokenBucket::new(Rate::per_day(1)).burst(10)).inherit(Additive).apply().unwrap();
    // One key is charged under the new quota: it has the largest word and the least debt.
    let (key, taken) = in_slots.next().unwrap();
    assert_eq!(limiter.refund_part(&mut taken.receipt(), 8), 8);
    assert!(limiter.check(key).is_allowed());
    let _ = (200..260).filter(|key| limiter.check_n(key, 2).is_allowed()).count();
    assert!(limiter.stats().evicted_with_debt > 0, "{:?}", limiter.stats());
}

#[test]
fn a_debt_in_the_overflow_word_survives_a_change() {
    let builder = Limiter::builder(TokenBucket::new(Rate::per_day(1)).burst(10)).per::<u64>().max_keys(1);
    let limiter = builder.when_full(WhenFull::Share).clock(ManualClock::new()).build().unwrap();
    let keys = || 0..200_u64;
    // Every key in a slot has used more than half; one more key of each bucket shares the rest.
    let in_slots: Vec<_> =
        keys().map(|key| limiter.check_n(key, 6)).filter(|taken| taken.is_allowed()).collect();
    let known = |key: &u64| limiter.account(key).at(limiter.now()).peek_n(10).remaining() < 10;
    let shared: Vec<_> = keys().filter(|key| limiter.check_n(key, 5).is_allowed()).collect();
    assert!(!in_slots.is_empty() && !shared.is_empty() && shared.iter().all(known));
    limiter.change().to(TokenBucket::new(Rate::per_day(1)).burst(40)).inherit(Additive).apply().unwrap();
    // The keys in slots have less debt than the overflow word, so they are evicted.
    assert!(in_slots.into_iter().all(|taken| limiter.refund_part(&mut taken.receipt(), 5) == 5));
    assert!((200..206).all(|key| limiter.check(key).is_allowed()));
    assert!(limiter.stats().evicted_with_debt >= 6, "{:?}", limiter.stats());
    for key in shared {
        assert!(!limiter.check_n(key, 36).is_allowed(), "it owes 5 of 40");
    }
}

#[test]
fn a_full_bucket_keeps_all_debt_across_a_change() {
    // More keys than slots: keys are evicted and share allowances before and after the change.
    for inherit in [AsIs, Proportional, Additive] {
        for (old, new) in [((1, 10), (1, 20)), ((1, 20), (7, 10)), ((14_500, 10), (3, 10))] {
            let clock = ManualClock::new();
            let quota = |(count, burst): (u64, u64)| TokenBucket::new(Rate::per_day(count)).burst(burst);
            let builder = Limiter::builder(quota(old)).per::<u64>().max_keys(1).when_full(WhenFull::Share);
            let limiter = builder.clock(clock).build().unwrap();
            let mut taken = vec![0; 300];
            let mut ask = |limiter: &Limiter<u64, _, 1, ManualClock>, cost| {
                for key in 0..300_u64 {
                    if limiter.check_n(key, cost).is_allowed() {
                        taken[key as usize] += cost;
                    }
                }
                taken.clone()
            };
            let _ = (ask(&limiter, 1), ask(&limiter, 2));
            let before = ask(&limiter, 4);
            limiter.change().to(quota(new)).inherit(inherit).apply().unwrap();
            let after = [1, 3, 1, 5, 2, 1, 1].map(|cost| ask(&limiter, cost)).pop_last();
            for (before, after) in before.into_iter().zip(after) {
                let had = old.1 - before;
                let carried = match inherit {
                    Inherit::AsIs => had.min(new.1),
                    Inherit::Proportional => had * new.1 / old.1,
                    _ => (had + new.1).saturating_sub(old.1),
                };
                assert!(after - before <= carried, "{inherit:?}: {after} of {before}, {carried} were left");
            }
        }
    }
}

/// Returns the last element.
trait PopLast<T> {
    fn pop_last(self) -> T;
}

impl<T, const N: usize> PopLast<T> for [T; N] {
    fn pop_last(self) -> T {
        self.into_iter().next_back().unwrap()
    }
}
