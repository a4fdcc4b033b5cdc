//! Refunds and resets: nothing is minted, under any quotas.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Clock, Receipt, Timestamp};

use super::{MOST, check, debt, limiter, nanos, peek};

#[test]
fn a_refund_at_once_gives_all_back_in_parts() {
    let (limiter, _) = limiter(100);
    let mut receipt = check(&limiter, 7, &nanos(100, 1_000), 8).receipt();
    assert_eq!((limiter.refund_part(&mut receipt, 3), debt(&limiter, 7)), (3, 500));
    // Another quota came in between.
    assert!(check(&limiter, 7, &nanos(7, 1_000), 10).is_allowed());
    assert_eq!((limiter.refund_part(&mut receipt, 4), debt(&limiter, 7)), (4, 170));
    assert_eq!((limiter.refund_part(&mut receipt, u64::MAX), debt(&limiter, 7)), (1, 70));
    assert_eq!((limiter.refund(receipt), debt(&limiter, 7)), (0, 70));
}

/// The receipt says how much a unit was: the quota need not be there, and another one is not asked.
#[test]
fn a_receipt_gives_back_under_its_own_quota() {
    for under in [None, Some(nanos(1, 1)), Some(nanos(1_000, 9_000))] {
        let (limiter, _) = limiter(100);
        assert!(check(&limiter, 7, &nanos(100, 1_000), 5).is_allowed());
        let receipt = check(&limiter, 7, &nanos(10, 1_000), 4).receipt();
        let key = limiter.account(7);
        let back = match &under {
            None => key.refund(receipt),
            Some(quota) => key.under(quota).refund(receipt),
        };
        assert_eq!((back, debt(&limiter, 7)), (4, 500), "under {under:?}");
    }
}

#[test]
fn nothing_comes_back_by_what_took_nothing() {
    let ((limiter, _), (other, _)) = (limiter(100), super::limiter(100));
    let quota = nanos(100, 500);
    let mut charged = check(&limiter, 7, &quota, 5).receipt();
    for decision in [
        check(&limiter, 7, &quota, 1),
        check(&limiter, 7, &quota, 0),
        check(&limiter, 7, &quota, 6),
        peek(&limiter, 8, &quota, 5),
    ] {
        let said = format!("{decision:?}");
        assert_eq!(limiter.refund(decision), 0, "{said}");
    }
    assert!(check(&other, 7, &quota, 5).is_allowed());
    assert_eq!((other.refund_part(&mut charged, 5), debt(&other, 7)), (0, 500));
    assert_eq!((limiter.refund(charged), debt(&limiter, 7)), (5, 0));
}

#[test]
fn a_reset_forgives_and_ends_its_refunds() {
    let (limiter, _) = limiter(100);
    let quota = nanos(100, 500);
    assert!(!limiter.account(7).reset(), "it has no slot");
    let before = check(&limiter, 7, &quota, 2).receipt();
    assert!(limiter.account(7).under(&quota).reset());
    assert_eq!(debt(&limiter, 7), 0);
    let after = check(&limiter, 7, &quota, 3).receipt();
    assert_eq!((limiter.refund(before), debt(&limiter, 7)), (0, 300));
    assert_eq!((limiter.refund(after), debt(&limiter, 7)), (3, 0));
}

/// The clock is ahead of the caller.
#[test]
fn a_call_reset_at_a_callers_time_forgives_all_debt() {
    let (limiter, clock) = limiter(100);
    clock.set(Timestamp::from_nanos(900));
    let quota = nanos(100, 500);
    let key = limiter.account(7).at(Timestamp::from_nanos(300)).under(&quota);
    assert!(key.check_n(5).is_allowed());
    assert!(key.reset());
    assert_eq!(key.peek_n(0).remaining(), 5);
}

#[test]
fn a_credit_forgives_at_most_the_debt() {
    let (limiter, clock) = limiter(100);
    let (quota, units) = (nanos(100, 1_000), nanos(1, 1));
    let key = limiter.account(7).under(&units);
    assert_eq!(key.credit(100), 0, "it has no slot");
    let receipt = check(&limiter, 7, &quota, 8).receipt();
    assert_eq!((key.credit(350), debt(&limiter, 7)), (350, 450));
    clock.advance(Duration::from_nanos(50));
    let at = limiter.account(7).under(&quota).at(clock.now());
    assert_eq!((at.credit(u64::MAX), debt(&limiter, 7)), (4, 0), "in units of the quota");
    assert_eq!(at.credit(u64::MAX), 0, "nothing is saved up");
    assert_eq!(peek(&limiter, 7, &quota, 0).remaining(), 10);
    assert_eq!((limiter.refund(receipt), debt(&limiter, 7)), (0, 0), "it is forgiven already");

    // As far ahead as a word can hold, by units of the smallest tolerance.
    assert!(limiter.account(7).under(&nanos(1, MOST)).debit(u64::MAX).unwrap().cost() > MOST);
    let before = key.credit(1);
    assert_eq!(before, 1);
}

/// Of a turn it is not known under which quota it was reserved, and what it rests on.
#[test]
fn beside_a_reserved_turn_only_the_newest_call_comes_back() {
    let (limiter, clock) = limiter(100);
    let (large, small) = (nanos(1, 10), nanos(1, 1));
    let first = check(&limiter, 7, &large, 10).receipt();
    let turn = limiter.account(7).under(&small).reserve(1, Duration::MAX).unwrap();
    assert_eq!(turn.delay(), Duration::from_nanos(10));
    assert_eq!((limiter.refund(first), debt(&limiter, 7)), (0, 11));
    assert_eq!(limiter.stats().refunds_short, 10);
    clock.set(turn.departure());
    // The turn acts, and nine beside it: no more than the larger tolerance.
    assert_eq!(limiter.account(7).under(&large).check_up_to(10).cost(), 9);

    let (limiter, _) = super::limiter(100);
    assert!(check(&limiter, 7, &large, 10).is_allowed());
    let turn = limiter.account(7).under(&small).reserve(1, Duration::MAX).unwrap();
    assert_eq!((turn.cancel(), debt(&limiter, 7)), (1, 10));
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
        let mut receipts: Vec<(Receipt, usize, u64)> = Vec::new();
        let mut history: Vec<Charged> = Vec::new();
        for (verb, emission, burst, cost, which) in steps {
            let now = u128::from(limiter.now().as_nanos());
            match verb {
                0 => clock.advance(Duration::from_nanos(emission * cost / 4)),
                1 | 2 if !receipts.is_empty() => {
                    let (receipt, index, emission) = which.get_mut(&mut receipts);
                    let units = limiter.refund_part(receipt, cost);
                    prop_assert!(units <= cost);
                    let charged = &mut history[*index];
                    let asked = u128::from(cost) * u128::from(*emission);
                    charged.back = charged.charge.min(charged.back + asked);
                }
                _ => {
                    let quota = nanos(emission, emission * burst);
                    let decision = check(&limiter, 7, &quota, cost);
                    if decision.is_allowed() {
                        let charge = u128::from(cost) * u128::from(emission);
                        receipts.push((decision.receipt(), history.len(), emission));
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
