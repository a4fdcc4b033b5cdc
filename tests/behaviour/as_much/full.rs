//! Both verbs for a key that has no slot, in a full bucket.

use std::time::Duration;

use tollgate::{DebitError, Limiter, ManualClock, Quota, Rate, TokenBucket, WhenFull};
use tollgate_testing::keys::Fellow;
use tollgate_testing::limits;

const SLOTS: u64 = 15;
const STRANGER: Fellow = Fellow(1_000);

fn is_a_log(quota: &Quota) -> bool {
    matches!(quota, Quota::SlidingLog(_))
}

/// Whether debts can be handed over.
fn shares(quota: &Quota) -> bool {
    !limits::refuses_when_full(quota)
}

/// Ten a minute, and every slot has a debt of `debt`.
fn full(
    quota: Quota,
    when_full: WhenFull,
    debt: u64,
) -> (Limiter<Fellow, Quota, 1, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let builder = Limiter::builder(quota).per().max_keys(1).when_full(when_full).clock(clock.clone());
    let limiter = builder.build().unwrap();
    assert!((0..SLOTS).all(|key| limiter.check_n(Fellow(key), debt).is_allowed()));
    (limiter, clock)
}

fn every() -> Vec<Quota> {
    limits::every(Rate::per_minute(10))
}

#[test]
fn a_debit_without_a_slot_is_an_error() {
    for quota in every().into_iter().filter(|quota| !is_a_log(quota)) {
        for when_full in [WhenFull::Deny, WhenFull::Allow, WhenFull::Share] {
            if when_full == WhenFull::Share && shares(&quota) {
                continue;
            }
            let (limiter, clock) = full(quota, when_full, 7);
            let debit = |cost| limiter.account(&STRANGER).debit(cost).map(|debit| debit.cost());
            for cost in [1, 7, u64::MAX] {
                assert_eq!(debit(cost), Err(DebitError::Full), "{quota}, {when_full:?}");
            }
            // A key that has a slot is debited.
            assert_eq!(limiter.account(Fellow(0)).debit(2).unwrap().cost(), 2, "{quota}");
            clock.advance(Duration::from_secs(300));
            assert_eq!(debit(12), Ok(12), "{quota}, {when_full:?}: a slot is vacant");
            assert!(!limiter.check(&STRANGER).is_allowed(), "{quota}, {when_full:?}");
        }
    }
}

#[test]
fn keys_without_a_slot_take_their_shared_allowance() {
    for quota in every().into_iter().filter(shares) {
        let (limiter, _) = full(quota, WhenFull::Share, 7);
        let (first, second) = (limiter.account(&STRANGER), limiter.account(Fellow(1_001)));
        // Half of the limit is theirs together.
        assert_eq!((first.check_up_to(3).cost(), second.check_up_to(9).cost()), (3, 2), "{quota}");
        assert!(!first.check_up_to(9).is_allowed() && !second.check().is_allowed(), "{quota}");
    }
}

#[test]
fn a_debit_without_a_slot_charges_the_shared_allowance() {
    for quota in every().into_iter().filter(shares) {
        let (limiter, clock) = full(quota, WhenFull::Share, 7);
        assert_eq!(limiter.account(&STRANGER).debit(40).unwrap().cost(), 40, "{quota}");
        assert!(!limiter.check(Fellow(1_001)).is_allowed(), "{quota}");
        assert!(limiter.check(Fellow(0)).is_allowed(), "{quota}: it has a slot");
        let is_paid = limiter.check(&STRANGER).retry_after().unwrap();
        clock.advance(is_paid);
        assert!(limiter.check(&STRANGER).is_allowed(), "{quota}");
    }
}

/// The evicted key had a debt of three.
#[test]
fn both_verbs_inherit_the_debt_of_an_evicted_key() {
    for quota in every().into_iter().filter(shares) {
        let (limiter, _) = full(quota, WhenFull::Share, 3);
        assert_eq!(limiter.account(&STRANGER).check_up_to(20).cost(), 7, "{quota}");
        let other = limiter.account(Fellow(1_001)).debit(6).unwrap();
        assert_eq!((other.cost(), other.remaining()), (6, 1), "{quota}");
        assert_eq!(limiter.stats().evicted_with_debt, 2, "{quota}");
    }
}

#[test]
fn a_request_without_a_slot_is_refused_or_uncounted() {
    for quota in every() {
        let (limiter, _) = full(quota, WhenFull::Deny, 7);
        let refused = limiter.account(&STRANGER).check_up_to(6);
        assert_eq!((refused.is_allowed(), refused.cost(), refused.remaining()), (false, 1, 0), "{quota}");
        assert_eq!(refused.retry_after(), limiter.check(&STRANGER).retry_after(), "{quota}");
        let (limiter, _) = full(quota, WhenFull::Allow, 7);
        for (most, cost) in [(6, 6), (40, 10), (u64::MAX, 10)] {
            let uncounted = limiter.account(&STRANGER).check_up_to(most);
            assert_eq!((uncounted.is_allowed(), uncounted.cost()), (true, cost), "{quota}");
            assert_eq!(uncounted.receipt().left(), 0, "{quota}: nothing was charged");
        }
    }
}

/// Nothing is charged, so nothing is missing: neither after a request nor at a look.
#[test]
fn an_uncounted_key_has_all_of_its_limit() {
    for quota in every() {
        let (limiter, _) = full(quota, WhenFull::Allow, 7);
        let stranger = limiter.account(&STRANGER);
        for cost in [0, 1, 3, 10] {
            for decision in [stranger.peek_n(cost), stranger.check_n(cost)] {
                assert!(decision.is_allowed(), "{quota}: {cost}");
                assert_eq!(
                    (decision.remaining(), decision.reset_after()),
                    (10, Duration::ZERO),
                    "{quota}: {cost}"
                );
                assert_eq!(decision.more_after(), Duration::ZERO, "{quota}: {cost}");
                assert_eq!(decision.receipt().left(), 0, "{quota}: {cost}");
            }
        }
        assert_eq!(stranger.peek_n(11).remaining(), 10, "{quota}");
    }
}

#[test]
fn several_limits_take_all_there_is_for_an_uncounted_key() {
    for quota in every() {
        let other = Quota::from(TokenBucket::new(Rate::per_second(1_000)).burst(1_000_000));
        let builder = Limiter::builder([quota, other]).per::<Fellow>().max_keys(1).when_full(WhenFull::Allow);
        let limiter = builder.clock(ManualClock::new()).build().unwrap();
        assert!((0..SLOTS).all(|key| limiter.check_n(Fellow(key), 7).is_allowed()));
        let stranger = limiter.account(&STRANGER);
        for cost in [0, 1, 3, 10] {
            assert_eq!(stranger.peek_n(cost).remaining(), 10, "{quota}: {cost}");
        }
        for (most, cost) in [(6, 6), (10, 10), (40, 10)] {
            let taken = stranger.check_up_to(most);
            assert_eq!((taken.is_allowed(), taken.cost(), taken.remaining()), (true, cost, 10), "{quota}");
        }
    }
}
