//! Refunds and resets: nothing is minted, under any quotas.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{CallDecision, Clock, Timestamp};

use super::{debt, limiter, nanos};

#[test]
fn a_refund_at_once_gives_all_back_in_parts() {
    let (limiter, _) = limiter(100);
    let quota = nanos(100, 1_000);
    let mut decision = limiter.check(&7, quota, 8).unwrap();
    assert_eq!((limiter.refund(&mut decision, 3), debt(&limiter, 7)), (3, 500));
    // Another quota came in between.
    assert!(limiter.check(&7, nanos(7, 1_000), 10).unwrap().is_allowed());
    assert_eq!((limiter.refund(&mut decision, 4), debt(&limiter, 7)), (4, 170));
    assert_eq!((limiter.refund(&mut decision, u64::MAX), debt(&limiter, 7)), (1, 70));
    assert_eq!((limiter.refund(&mut decision, u64::MAX), debt(&limiter, 7)), (0, 70));
}

#[test]
fn nothing_comes_back_by_what_took_nothing() {
    let ((limiter, _), (other, _)) = (limiter(100), super::limiter(100));
    let quota = nanos(100, 500);
    let mut charged = limiter.check(&7, quota, 5).unwrap();
    for mut decision in [
        limiter.check(&7, quota, 1).unwrap(),
        limiter.check(&7, quota, 0).unwrap(),
        limiter.check(&7, quota, 6).unwrap(),
        limiter.peek(&8, quota, 5).unwrap(),
    ] {
        assert_eq!(limiter.refund(&mut decision, u64::MAX), 0, "{decision:?}");
    }
    assert!(other.check(&7, quota, 5).unwrap().is_allowed());
    assert_eq!((other.refund(&mut charged, 5), debt(&other, 7)), (0, 500));
    assert_eq!((limiter.refund(&mut charged, 5), debt(&limiter, 7)), (5, 0));
}

#[test]
fn a_reset_forgives_and_ends_its_refunds() {
    let (limiter, _) = limiter(100);
    let quota = nanos(100, 500);
    assert!(!limiter.prepare(&7).reset(), "it has no slot");
    let mut before = limiter.check(&7, quota, 2).unwrap();
    assert!(limiter.prepare(&7).reset());
    assert_eq!(debt(&limiter, 7), 0);
    let mut after = limiter.check(&7, quota, 3).unwrap();
    assert_eq!((limiter.refund(&mut before, 2), debt(&limiter, 7)), (0, 300));
    assert_eq!((limiter.refund(&mut after, 3), debt(&limiter, 7)), (3, 0));
}

/// The clock is ahead of the caller.
#[test]
fn a_call_reset_at_a_callers_time_forgives_all_debt() {
    let (limiter, clock) = limiter(100);
    clock.set(Timestamp::from_nanos(900));
    let (quota, key) = (nanos(100, 500), limiter.prepare(&7).at(Timestamp::from_nanos(300)));
    assert!(key.check(quota, 5).unwrap().is_allowed());
    assert!(key.reset());
    assert_eq!(key.peek(quota, 0).unwrap().remaining(), 5);
}

#[test]
fn a_credit_forgives_at_most_the_debt() {
    let (limiter, clock) = limiter(100);
    let (quota, of) = (nanos(100, 1_000), Duration::from_nanos);
    assert_eq!(limiter.prepare(&7).credit(of(100)), of(0), "it has no slot");
    let mut decision = limiter.check(&7, quota, 8).unwrap();
    assert_eq!((limiter.prepare(&7).credit(of(350)), debt(&limiter, 7)), (of(350), 450));
    clock.advance(of(50));
    let at = limiter.prepare(&7).at(clock.now());
    assert_eq!((at.credit(Duration::MAX), debt(&limiter, 7)), (of(400), 0));
    assert_eq!(at.credit(Duration::MAX), of(0), "nothing is saved up");
    assert_eq!(limiter.peek(&7, quota, 0).unwrap().remaining(), 10);
    assert_eq!((limiter.refund(&mut decision, 8), debt(&limiter, 7)), (0, 0), "it is forgiven already");
}

/// What a request is charged, and what of that was asked back.
struct Charged {
    at: u128,
    charge: u128,
    back: u128,
}

/// The debt at `now` if nothing that was asked back had ever been charged.
fn least_debt(history: &[Charged], now: u128) -> u128 {
    let tat = history.iter().fold(0, |tat, charged| match charged.charge - charged.back {
        0 => tat,
        kept => charged.at.max(tat) + kept,
    });
    tat.saturating_sub(now)
}

proptest! {
    #[test]
    fn refunds_under_changing_quotas_mint_nothing(
        steps in prop::collection::vec((0..5_u8, 1..40_u64, 1..20_u64, 1..12_u64, any::<prop::sample::Index>()), 1..60),
    ) {
        let (limiter, clock) = limiter(100);
        let mut decisions: Vec<(CallDecision, usize, u64)> = Vec::new();
        let mut history: Vec<Charged> = Vec::new();
        for (verb, emission, burst, cost, which) in steps {
            let now = u128::from(limiter.now().as_nanos());
            match verb {
                0 => clock.advance(Duration::from_nanos(emission * cost / 4)),
                1 | 2 if !decisions.is_empty() => {
                    let (decision, index, emission) = which.get_mut(&mut decisions);
                    let units = limiter.refund(decision, cost);
                    prop_assert!(units <= cost);
                    let charged = &mut history[*index];
                    let asked = u128::from(cost) * u128::from(*emission);
                    charged.back = charged.charge.min(charged.back + asked);
                }
                _ => {
                    let decision = limiter.check(&7, nanos(emission, emission * burst), cost).unwrap();
                    if decision.is_allowed() {
                        let charge = u128::from(cost) * u128::from(emission);
                        decisions.push((decision, history.len(), emission));
                        history.push(Charged { at: now, charge, back: 0 });
                    }
                }
            }
            let (now, owed) = (u128::from(limiter.now().as_nanos()), u128::from(debt(&limiter, 7)));
            let least = least_debt(&history, now);
            prop_assert!(owed >= least, "{} is less than {} at {}", owed, least, now);
        }
    }
}
