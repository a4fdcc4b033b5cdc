//! A full table forgets no debt.

use std::time::Duration;

use tollgate::{
    Algorithm, FixedWindow, Limiter, ManualClock, Rate, SlidingLog, SlidingWindow, Timestamp, TokenBucket,
    WhenFull,
};

use super::{HOUR, MINUTE, SECOND, per};

fn limiter<A: Algorithm>(
    quota: A,
    max_keys: usize,
    when_full: WhenFull,
) -> (Limiter<u64, A, 1, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let builder = Limiter::builder(quota).per::<u64>().max_keys(max_keys).when_full(when_full);
    (builder.clock(clock.clone()).build().unwrap(), clock)
}

/// Seen in rate-net RN-005.
#[test]
fn a_flood_of_other_keys_forgives_no_debt() {
    let five_a_minute = TokenBucket::new(Rate::per_minute(5));
    for (spent, when_full) in
        [(5, WhenFull::Share), (3, WhenFull::Share), (5, WhenFull::Deny), (3, WhenFull::Deny)]
    {
        let (limiter, clock) = limiter(five_a_minute, 1_000, when_full);
        let victim = 1_000_000;
        assert!(limiter.check_n(victim, spent).is_allowed());
        for other in 0..10_000 {
            let _ = limiter.check(other);
        }
        let owed = limiter.account(victim).at(Timestamp::ZERO).peek_n(0).remaining();
        assert_eq!(owed, 5 - spent, "{when_full:?}");
        assert!(!limiter.check_n(victim, 5 - spent + 1).is_allowed());
        assert!(limiter.check_n(victim, 5 - spent).is_allowed());
        clock.advance(Duration::from_secs(60));
        assert!(limiter.check_n(victim, 5).is_allowed());
    }
}

/// Seen in Envoy gateway #9973: all.
#[test]
fn going_round_more_keys_than_fit_grants_nothing_twice() {
    for when_full in [WhenFull::Share, WhenFull::Deny] {
        for keys in [21, 1_000] {
            let (limiter, _) = limiter(TokenBucket::new(Rate::per_hour(1)), 20, when_full);
            for key in 0..keys {
                let _ = limiter.check(key);
            }
            let again = (0..keys).filter(|key| limiter.check(key).is_allowed()).count();
            assert_eq!(again, 0, "{when_full:?}, {keys} keys");
        }
    }
}

/// Returns the keys in debt a nanosecond before `end` and at `end`, if a key spent `cost` at time
/// zero.
fn owing<A: Algorithm>(quota: A, cost: u64, end: u64) -> (usize, usize) {
    let (limiter, clock) = limiter(quota, 10, WhenFull::Share);
    assert!(limiter.check_n(7, cost).is_allowed());
    let len_at = |at| {
        clock.set(Timestamp::from_nanos(at));
        limiter.usage().live_keys
    };
    (len_at(end - 1), len_at(end))
}

/// Seen in ulule, sei-chain #3507: evicted early.
#[test]
fn a_key_is_forgotten_exactly_when_its_debt_is_zero() {
    assert_eq!(owing(TokenBucket::new(per(1, MINUTE)).burst(5), 3, 3 * MINUTE), (1, 0));
    assert_eq!(owing(FixedWindow::new(per(5, MINUTE)), 1, MINUTE), (1, 0));
    assert_eq!(owing(SlidingWindow::new(per(5, MINUTE)), 1, 2 * MINUTE), (1, 0));
    assert_eq!(owing(SlidingWindow::new(per(5, MINUTE)).subwindows(6), 1, 70 * SECOND), (1, 0));
    // A log may remember a key a few nanoseconds too long.
    assert_eq!(owing(SlidingLog::new(per(5, MINUTE)), 1, MINUTE).0, 1);
    assert_eq!(owing(SlidingLog::new(per(5, MINUTE)), 1, MINUTE + HOUR).1, 0);
}

#[test]
fn when_full_decides_and_is_counted() {
    for when_full in [WhenFull::Share, WhenFull::Deny, WhenFull::Allow] {
        let (limiter, _) = limiter(TokenBucket::new(Rate::per_hour(4)), 1, when_full);
        let granted = (0..1_000).filter(|key| limiter.check_n(key, 4).is_allowed()).count();
        let stats = limiter.stats();
        match when_full {
            WhenFull::Allow => assert_eq!(granted, 1_000),
            _ => assert!(granted < 100, "{when_full:?} grants {granted}"),
        }
        let counted = match when_full {
            WhenFull::Deny => stats.refused_full,
            WhenFull::Allow => stats.admitted_uncounted,
            _ => stats.shared + stats.evicted_with_debt + stats.refused_full,
        };
        assert!(counted > 0, "{when_full:?}: {stats:?}");
    }
}

/// Once its allowance is spent, new keys are refused by it even when a slot has run empty since.
#[test]
fn every_key_refused_by_the_shared_allowance_is_counted() {
    let (limiter, _) = limiter(TokenBucket::new(Rate::per_hour(4)), 1, WhenFull::Share);
    let owners: Vec<u64> = (0..1_000).filter(|key| limiter.check_n(key, 4).is_allowed()).collect();
    let refused = (1_000..2_000).filter(|key| !limiter.check(key).is_allowed()).count();
    assert!(refused > 900, "the allowances are spent");
    assert!(owners.iter().any(|owner| limiter.account(owner).reset()), "a slot runs empty");
    let (before, full) = (limiter.stats().shared, limiter.stats().refused_full);
    let refused = (2_000..3_000).filter(|key| !limiter.check(key).is_allowed()).count() as u64;
    assert!(refused > 900, "{refused} of a thousand");
    assert_eq!(limiter.stats().shared + limiter.stats().refused_full, before + full + refused);
}

/// A flood of new keys evicts no key that has used more than half of its limit, and charges it
/// nothing.
#[test]
fn a_key_with_much_debt_keeps_its_slot() {
    let (limiter, _) = limiter(TokenBucket::new(Rate::per_day(4)), 1, WhenFull::Share);
    let owners: Vec<u64> = (0..200).filter(|key| limiter.check_n(key, 3).is_allowed()).collect();
    assert!((15..=60).contains(&owners.len()), "{} keys have slots", owners.len());
    assert!(
        (200..400).filter(|key| limiter.check(key).is_allowed()).count() > 0,
        "others share an allowance"
    );
    assert_eq!(limiter.stats().evicted_with_debt, 0);
    assert!(owners.iter().all(|owner| limiter.check(owner).is_allowed()), "one unit is left to each");
    assert!(!owners.iter().any(|owner| limiter.check(owner).is_allowed()), "and no more");
}
