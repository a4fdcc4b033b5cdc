//! Charges of several limits that a change of their quotas meets.

use std::cell::{Cell, RefCell};

use super::*;
use crate::algorithm::{Inherit, TokenBucket};
use crate::clock::ManualClock;
use crate::limiter::Limiter;
use crate::rate::Rate;

/// Given back out of order, two requests before the turn would pay for a third.
#[test]
fn a_turn_that_a_change_makes_possible_counts_as_booked() {
    let quotas = |burst| [burst, 1 << 20].map(|burst| TokenBucket::new(Rate::per_second(1)).burst(burst));
    let limiter = Limiter::builder(quotas(5)).per::<u64>().clock(ManualClock::new()).build().unwrap();
    let core = &limiter.core;
    let fingerprint = core.fingerprint(&7);
    let (is_old, receipts) = (Cell::new(true), RefCell::new(Vec::new()));
    let time = || {
        if is_old.take() {
            limiter.change().to(quotas(10)).inherit(Inherit::Additive).apply().unwrap();
            let charge = || limiter.check_n(7, 4).receipt();
            receipts.replace(vec![charge(), charge()]);
        }
        core.clock.now()
    };
    let waiting = Charging::Waiting { cost: 8, max_wait: u64::MAX, now: Timestamp::ZERO };
    let turn = core.charge(core.default_tier(), fingerprint, 8, Some(waiting), &time).unwrap();
    assert_eq!((turn.is_allowed(), turn.wait_for_turn()), (true, 6_000_000_000));
    let back: Vec<u64> = receipts.take().into_iter().map(|receipt| limiter.refund(receipt)).collect();
    assert_eq!(back, [0, 0]);
}
