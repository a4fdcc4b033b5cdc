//! A full table: a refusal that says so, and no debt is forgotten.

use std::time::Duration;

use tollgate::WhenFull;

use super::{Limiter, any, builder, check, debt, limiter, nanos, peek, wait};

/// Gives keys below 500 a debt of `debt` until there is no room for another: which they are.
fn fill(limiter: &Limiter, debt: u64) -> Vec<u64> {
    let quota = nanos(debt, debt);
    (0..500).filter(|&key| check(limiter, key, &quota, 1).is_allowed()).collect()
}

#[test]
fn a_full_table_refuses_a_call_and_says_so() {
    let (limiter, clock) = limiter(1);
    let in_debt = fill(&limiter, 1_000);
    assert_eq!(in_debt.len(), 60, "four buckets of fifteen");
    assert_eq!(limiter.stats().refused_full, 440);

    let small = nanos(10, 1_999);
    for key in 1_000..1_100 {
        for (decision, is_look) in [
            (check(&limiter, key, &small, 1), false),
            (peek(&limiter, key, &small, 1), false),
            (check(&limiter, key, &small, 0), true),
        ] {
            assert!(decision.is_full(), "{decision:?}");
            assert_eq!((decision.is_allowed(), decision.remaining()), (is_look, 0));
            assert_eq!(wait(&decision), (!is_look).then_some(1_000), "until a slot is vacant");
        }
    }
    assert_eq!(limiter.stats().refused_full, 540, "a look is not counted");
    let owners = nanos(10, 1_000);
    let own = check(&limiter, in_debt[0], &owners, 1);
    assert!(!own.is_allowed() && !own.is_full(), "its own debt refuses it");
    assert_eq!((limiter.usage().live_keys, limiter.stats().shared), (60, 0));
    clock.advance(Duration::from_nanos(1_000));
    assert!((1_000..1_010).all(|key| check(&limiter, key, &small, 1).is_allowed()));
}

#[test]
fn a_slot_of_small_debt_is_inherited_with_it() {
    let (limiter, _) = limiter(1);
    assert_eq!(fill(&limiter, 1_000).len(), 60);
    let large = nanos(10, 2_000);
    let peeked = peek(&limiter, 777, &large, 1);
    let decision = check(&limiter, 777, &large, 1);
    assert!(decision.is_allowed() && !decision.is_full());
    assert_eq!((peeked.remaining(), decision.remaining()), (99, 99), "half, less one");
    assert_eq!((debt(&limiter, 777), limiter.usage().live_keys), (1_010, 60));
    assert_eq!(limiter.stats().evicted_with_debt, 1);
}

/// The inherited debt leaves no room: it is not the key's own.
#[test]
fn a_request_too_large_beside_inherited_debt_is_full() {
    let (limiter, _) = limiter(1);
    assert_eq!(fill(&limiter, 1_000).len(), 60);
    let quota = nanos(10, 2_000);
    for decision in [peek(&limiter, 777, &quota, 101), check(&limiter, 777, &quota, 101)] {
        assert!(decision.is_full() && !decision.is_allowed());
        assert_eq!((decision.remaining(), wait(&decision)), (100, Some(10)), "of a slot that it may inherit");
    }
    assert_eq!((limiter.stats().evicted_with_debt, limiter.stats().shared), (0, 0));
    assert!(check(&limiter, 777, &quota, 100).is_allowed());
    // From now on it is the key's own.
    let own = check(&limiter, 777, &quota, 1);
    assert!(!own.is_allowed() && !own.is_full());
}

/// A key that lost its slot has its debt still, also after another's was forgiven or given back.
#[test]
fn a_key_that_lost_its_slot_finds_its_debt() {
    for is_reset in [true, false] {
        let (limiter, _) = limiter(1);
        let owners = fill(&limiter, 1_000);
        let (large, small) = (nanos(1_000, 4_000), nanos(10, 20));
        // Each takes the slot of another.
        let inherits = |key| Some(check(&limiter, key, &large, 1)).filter(|decision| !decision.is_full());
        let inherited: Vec<_> = (1_000..1_200).filter_map(|key| Some((key, inherits(key)?))).collect();
        assert!(inherited.len() >= 60, "{}", inherited.len());
        for (key, decision) in inherited {
            assert!(decision.is_allowed());
            if is_reset {
                limiter.account(key).reset();
            } else {
                limiter.refund(decision);
            }
        }
        assert!(owners.iter().all(|&key| !check(&limiter, key, &small, 1).is_allowed()), "each owes 1,000");
    }
}

/// Half of one call's tolerance would lock out the small ones of others.
#[test]
fn calls_share_no_allowance_whatever_is_asked() {
    for when_full in [WhenFull::Share, WhenFull::Inherit, WhenFull::Deny, WhenFull::Allow] {
        let builder = builder(any()).max_keys(1).when_full(when_full);
        let limiter = builder.clock(tollgate::ManualClock::new()).build().unwrap();
        let owners =
            (0..500).filter(|&key| check(&limiter, key, &nanos(1_000, 1_000), 1).is_allowed()).count();
        assert_eq!(owners, if when_full == WhenFull::Allow { 500 } else { 60 });
        let is_full = check(&limiter, 777, &nanos(10, 2_000), 1).is_full();
        let may_inherit = matches!(when_full, WhenFull::Share | WhenFull::Inherit);
        assert_eq!(is_full, when_full == WhenFull::Deny);
        let stats = limiter.stats();
        assert_eq!((stats.evicted_with_debt, stats.shared), (u64::from(may_inherit), 0), "{when_full:?}");
    }
}
